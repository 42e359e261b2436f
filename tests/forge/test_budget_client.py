"""The client on a strict host with small limits: it never meets them, stretches, and comes back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from forge_house import Known
from test_forge_credentials import app_hub, bought, key_pair  # noqa: F401 - fixtures

from hostler.config.settings import GitHub as Settings
from hostler.errors import ForgeError, RateLimited, ServerFailed
from hostler.forge.actions import CreateComment
from hostler.forge.github.client.credentials import StaticToken
from hostler.forge.github.client.transport import ApiRequest, HttpTransport
from hostler.forge.github.hub import GitHubHub, open_github
from hostler.forge.github.rate_limit.accounts import MAX_WAIT, RateLimitAccounts
from hostler.forge.github.rate_limit.limits import RequestCaps, RequestKind
from hostler.sandbox.auth import token_for

SMALL = {"points_per_minute": 60, "creations_per_minute": 8, "creations_per_hour": 15}


@pytest.fixture
def strict(house):
    """A hub that knows of the host's small limits; the house's clock is common to all."""
    house.tune(**SMALL, primary_limit=5000)
    hub = hub_of(house, RequestCaps(**SMALL))
    yield hub
    hub.close()
    house.tune(points_per_minute=0, creations_per_minute=0, creations_per_hour=0)


def hub_of(house, caps, patience=0.0):
    wire = HttpTransport(
        house.sandbox.url, house.clock, budget=RateLimitAccounts(house.clock, caps, patience)
    )
    return GitHubHub(wire, Known(), house.clock, pauses=(0.0, 0.0))


def ours(house, **query):
    return house.ledger(login="bot", **query)


def known(hub, account="known"):
    return next(one for one in hub.budget.list_statuses() if one.account == account)


def test_the_points_of_the_minute_are_kept_and_the_host_never_has_to_refuse(house, strict):
    forge = strict.repo(house.name)
    for _ in range(3):
        with pytest.raises(RateLimited) as caught:
            for _ in range(100):
                forge.repository()
        assert (caught.value.status, caught.value.limit) == (0, "secondary")
        wait = (caught.value.until - house.clock.now()).total_seconds()
        assert 0 < wait <= 60
        house.pass_time(wait)
    rows = ours(house)
    assert {row["status"] for row in rows} == {200}
    assert len(rows) == 3 * 43
    assert strict.budget.stretch(active=False) >= strict.budget.stretch(active=True) >= 1.0


def test_writes_go_out_while_polls_are_held(house, strict):
    number = house.issue()
    with pytest.raises(RateLimited):
        for _ in range(100):
            strict.repo(house.name).repository()
    assert strict.repo(house.name).perform(CreateComment(number, "still"), token="t1").id
    with pytest.raises(RateLimited):
        strict.repo(house.name).issue(number)
    house.pass_time(60)
    assert strict.urgent(house.name).issue(number).number == number


def test_creations_are_kept_by_the_minute_and_by_the_hour(house, strict):
    number, forge, made = house.issue(), strict.repo(house.name), 0
    waits = []
    while made < 24:
        try:
            forge.perform(CreateComment(number, "x"), token=f"t{made}")
            made += 1
        except RateLimited as error:
            waits.append((error.until - house.clock.now()).total_seconds())
            house.pass_time(waits[-1])
    assert {row["status"] for row in ours(house, method="POST")} == {201}
    assert min(waits) <= 60 < max(waits) <= 3600


def test_the_share_of_the_hour_is_kept_and_its_reset_gives_it_back(house):
    house.tune(primary_limit=100)
    hub = hub_of(house, RequestCaps())
    forge = hub.repo(house.name)
    with pytest.raises(RateLimited) as caught:
        for _ in range(200):
            forge.repository()
    assert caught.value.limit == "primary"
    assert len(ours(house)) == 72
    assert known(hub).remaining == 28
    assert hub.budget.stretch(active=False) > hub.budget.stretch(active=True) > 1.0
    number = house.issue()
    assert forge.perform(CreateComment(number, "a write"), token="t1").id
    house.pass_time((caught.value.until - house.clock.now()).total_seconds())
    forge.repository()
    assert known(hub).remaining == 99
    house.pass_time(3000)
    assert hub.budget.stretch(active=False) == 1.0
    hub.close()


def test_unchanged_pages_leave_the_hour_alone_and_stretch_nothing(house):
    house.tune(primary_limit=100)
    hub = hub_of(house, RequestCaps())
    client = hub.repo(house.name).session
    first = client.read(client.path("issues"))
    for _ in range(300):
        assert client.read(client.path("issues"), etag=first.etag).unchanged
    assert (known(hub).remaining, known(hub).points) == (99, 301)
    assert hub.budget.stretch(active=False) == 1.0
    hub.close()


def test_polls_that_pause_by_the_stretch_never_spend_the_hour(house):
    """Everything changes at every poll; twice as much as fits is asked for."""
    house.tune(primary_limit=600)
    hub = hub_of(house, RequestCaps())
    forge, stretches = hub.repo(house.name), []
    end = house.clock.monotonic() + 3600
    refused = 0
    while house.clock.monotonic() < end:
        try:
            for _ in range(10):
                forge.repository()
        except RateLimited:
            refused += 1
        stretches.append(hub.budget.stretch(active=False))
        house.pass_time(40 * stretches[-1])
    assert len(ours(house)) <= 480
    assert refused <= 2
    assert stretches[0] == 1.0 < max(stretches)
    house.pass_time(3600)
    assert hub.budget.stretch(active=False) == 1.0
    hub.close()


@pytest.mark.parametrize("limit", ["primary", "secondary"])
def test_while_github_refuses_nobody_asks(house, limit):
    house.tune(primary_limit=5000)
    number, forge = house.issue(), house.forge
    house.fault("limit", limit=limit)
    with pytest.raises(RateLimited) as caught:
        forge.repository()
    asked = len(ours(house))
    until = caught.value.until
    house.pass_time(70 if limit == "primary" else 50)
    for ask in (
        forge.repository,
        lambda: forge.perform(CreateComment(number, "x"), token="t1"),
        lambda: house.hub.urgent(house.name).issue(number),
        house.hub.transport.now if limit == "primary" else forge.repository,
    ):
        with pytest.raises(RateLimited) as again:
            ask()
        assert again.value.status == 0
        assert abs((again.value.until - until).total_seconds()) < 1
        assert "was not asked" in again.value.what
    assert len(ours(house)) == asked
    house.pass_time((until - house.clock.now()).total_seconds())
    assert forge.repository().name == house.name


def test_a_patient_client_waits_a_little_and_is_woken_by_the_clock(house):
    house.tune(points_per_minute=20)
    hub = hub_of(house, RequestCaps(points_per_minute=20), MAX_WAIT)
    with pytest.raises(RateLimited):
        for _ in range(30):
            hub.repo(house.name).repository()
    house.pass_time(53)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(hub.repo(house.name).repository)
        house.clock.wait_for_waiters(1)
        house.pass_time(7)
        assert waiting.result(30).name == house.name
    assert {row["status"] for row in ours(house)} == {200}
    hub.close()
    house.tune(points_per_minute=0)


def test_many_threads_on_a_strict_host_are_never_refused_by_it(house, strict):
    start = threading.Barrier(20)

    def ask(number):
        start.wait(30)
        for turn in range(5):
            try:
                if number % 5:
                    strict.repo(house.name).repository()
                else:
                    strict.repo(house.name).perform(
                        CreateComment(issue, "x"), token=f"{number}-{turn}"
                    )
            except RateLimited as error:
                assert error.status == 0

    issue = house.issue()
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(ask, range(20)))
    rows = ours(house)
    assert {row["status"] for row in rows} <= {200, 201}
    assert sum(row["secondary"] for row in rows) <= 48


def test_redirects_and_retries_are_counted_each(house):
    number = house.issue()
    house.forge.repository()
    house.do("PATCH", f"/repos/{house.name}", name=f"{house.name.name}-new")
    house.forge.issue(number)
    house.fault("status", status=502, count=None)
    with pytest.raises(ServerFailed):
        house.forge.issue(number)
    rows = [row for row in house.ledger() if row["path"] != "/rate_limit"]
    mine = [row for row in rows if row["login"] == "bot" or row["status"] == 502]
    assert known(house.hub).points == len(mine) == 1 + 2 + 3


def test_what_never_reaches_the_host_is_not_counted(house):
    hub = hub_of(house, RequestCaps())
    hub.transport.base_url = "http://127.0.0.1:9"
    with pytest.raises(ForgeError):
        hub.repo(house.name).repository()
    assert known(hub).points == 0
    hub.close()


def test_a_lost_answer_is_counted(house):
    house.tune(primary_limit=5000)
    house.forge.repository()
    house.fault("cut", when="after", count=3)
    with pytest.raises(ForgeError):
        house.forge.repository()
    assert (known(house.hub).points, known(house.hub).remaining) == (4, 4996)


def test_an_app_is_one_account_however_often_its_token_is_renewed(house, app_hub):  # noqa: F811
    forge = app_hub.repo(house.name)
    forge.repository()
    house.pass_time(3500)
    forge.repository()
    assert bought(house) == 2
    names = {one.account.split()[0] for one in app_hub.budget.list_statuses()}
    assert names == {"app", "installation"}
    assert len(app_hub.budget.list_statuses()) == 2
    installation = app_hub.credentials.account(house.name)
    assert app_hub.budget.stretch(True, house.name) == 1.0
    assert known(app_hub, installation).points == 1


def test_another_token_is_another_account(house):
    secrets = [token_for("bot"), token_for("bob")]
    token = StaticToken(house.hub.transport, lambda: secrets[0])
    hub = GitHubHub(house.hub.transport, token, house.clock, pauses=())
    hub.repo(house.name).repository()
    assert not token.renew(secrets[0])
    assert token.account(house.name) == "token"
    del secrets[0]
    house.fault("status", status=401)
    hub.repo(house.name).repository()
    assert token.account(house.name) == "token 2"
    accounts = [one.account for one in hub.budget.list_statuses()]
    assert accounts == ["token", "token 2"]
    assert not any(secret in str(accounts) for secret in (token_for("bot"), token_for("bob")))


def test_the_settings_say_how_much_may_be_used(house, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", token_for("bot"))
    settings = Settings(api_url=house.sandbox.url, budget_percent=30)
    with closing(open_github(settings, house.clock)) as hub:
        assert hub.budget.caps.share(5000) == 1500


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (ApiRequest("GET", "x"), RequestKind.READ),
        (ApiRequest("HEAD", "x"), RequestKind.READ),
        (ApiRequest("GET", "x", urgent=True), RequestKind.URGENT),
        (ApiRequest("PATCH", "x"), RequestKind.WRITE),
        (ApiRequest("DELETE", "x"), RequestKind.WRITE),
        (ApiRequest("POST", "x"), RequestKind.CREATION),
        (ApiRequest("POST", "x", safe=True), RequestKind.WRITE),
    ],
)
def test_what_a_request_is(request_, kind):
    assert request_.kind is kind
