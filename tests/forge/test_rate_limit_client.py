"""The client on a strict host with small limits: it never meets them, stretches, and comes back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from github_fixture import Known
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
def strict(sandbox_repo):
    """A hub that knows of the host's small limits; the house's clock is common to all."""
    sandbox_repo.tune(**SMALL, primary_limit=5000)
    hub = hub_of(sandbox_repo, RequestCaps(**SMALL))
    yield hub
    hub.close()
    sandbox_repo.tune(points_per_minute=0, creations_per_minute=0, creations_per_hour=0)


def hub_of(sandbox_repo, caps, patience=0.0):
    wire = HttpTransport(
        sandbox_repo.sandbox.url,
        sandbox_repo.clock,
        budget=RateLimitAccounts(sandbox_repo.clock, caps, patience),
    )
    return GitHubHub(wire, Known(), sandbox_repo.clock, pauses=(0.0, 0.0))


def ours(sandbox_repo, **query):
    return sandbox_repo.ledger(login="bot", **query)


def known(hub, account="known"):
    return next(one for one in hub.budget.list_statuses() if one.account == account)


def test_the_points_of_the_minute_are_kept_and_the_host_never_has_to_refuse(sandbox_repo, strict):
    forge = strict.repo(sandbox_repo.name)
    for _ in range(3):
        with pytest.raises(RateLimited) as caught:
            for _ in range(100):
                forge.repository()
        assert (caught.value.status, caught.value.limit) == (0, "secondary")
        wait = (caught.value.until - sandbox_repo.clock.now()).total_seconds()
        assert 0 < wait <= 60
        sandbox_repo.pass_time(wait)
    rows = ours(sandbox_repo)
    assert {row["status"] for row in rows} == {200}
    assert len(rows) == 3 * 43
    assert strict.budget.stretch(active=False) >= strict.budget.stretch(active=True) >= 1.0


def test_writes_go_out_while_polls_are_held(sandbox_repo, strict):
    number = sandbox_repo.issue()
    with pytest.raises(RateLimited):
        for _ in range(100):
            strict.repo(sandbox_repo.name).repository()
    assert strict.repo(sandbox_repo.name).perform(CreateComment(number, "still"), token="t1").id
    with pytest.raises(RateLimited):
        strict.repo(sandbox_repo.name).issue(number)
    sandbox_repo.pass_time(60)
    assert strict.urgent(sandbox_repo.name).issue(number).number == number


def test_creations_are_kept_by_the_minute_and_by_the_hour(sandbox_repo, strict):
    number, forge, made = sandbox_repo.issue(), strict.repo(sandbox_repo.name), 0
    waits = []
    while made < 24:
        try:
            forge.perform(CreateComment(number, "x"), token=f"t{made}")
            made += 1
        except RateLimited as error:
            waits.append((error.until - sandbox_repo.clock.now()).total_seconds())
            sandbox_repo.pass_time(waits[-1])
    assert {row["status"] for row in ours(sandbox_repo, method="POST")} == {201}
    assert min(waits) <= 60 < max(waits) <= 3600


def test_the_share_of_the_hour_is_kept_and_its_reset_gives_it_back(sandbox_repo):
    sandbox_repo.tune(primary_limit=100)
    hub = hub_of(sandbox_repo, RequestCaps())
    forge = hub.repo(sandbox_repo.name)
    with pytest.raises(RateLimited) as caught:
        for _ in range(200):
            forge.repository()
    assert caught.value.limit == "primary"
    assert len(ours(sandbox_repo)) == 72
    assert known(hub).remaining == 28
    assert hub.budget.stretch(active=False) > hub.budget.stretch(active=True) > 1.0
    number = sandbox_repo.issue()
    assert forge.perform(CreateComment(number, "a write"), token="t1").id
    sandbox_repo.pass_time((caught.value.until - sandbox_repo.clock.now()).total_seconds())
    forge.repository()
    assert known(hub).remaining == 99
    sandbox_repo.pass_time(3000)
    assert hub.budget.stretch(active=False) == 1.0
    hub.close()


def test_unchanged_pages_leave_the_hour_alone_and_stretch_nothing(sandbox_repo):
    sandbox_repo.tune(primary_limit=100)
    hub = hub_of(sandbox_repo, RequestCaps())
    client = hub.repo(sandbox_repo.name).session
    first = client.read(client.path("issues"))
    for _ in range(300):
        assert client.read(client.path("issues"), etag=first.etag).unchanged
    assert (known(hub).remaining, known(hub).points) == (99, 301)
    assert hub.budget.stretch(active=False) == 1.0
    hub.close()


def test_polls_that_pause_by_the_stretch_never_spend_the_hour(sandbox_repo):
    """Everything changes at every poll; twice as much as fits is asked for."""
    sandbox_repo.tune(primary_limit=600)
    hub = hub_of(sandbox_repo, RequestCaps())
    forge, stretches = hub.repo(sandbox_repo.name), []
    end = sandbox_repo.clock.monotonic() + 3600
    refused = 0
    while sandbox_repo.clock.monotonic() < end:
        try:
            for _ in range(10):
                forge.repository()
        except RateLimited:
            refused += 1
        stretches.append(hub.budget.stretch(active=False))
        sandbox_repo.pass_time(40 * stretches[-1])
    assert len(ours(sandbox_repo)) <= 480
    assert refused <= 2
    assert stretches[0] == 1.0 < max(stretches)
    sandbox_repo.pass_time(3600)
    assert hub.budget.stretch(active=False) == 1.0
    hub.close()


@pytest.mark.parametrize("limit", ["primary", "secondary"])
def test_while_github_refuses_nobody_asks(sandbox_repo, limit):
    sandbox_repo.tune(primary_limit=5000)
    number, forge = sandbox_repo.issue(), sandbox_repo.forge
    sandbox_repo.fault("limit", limit=limit)
    with pytest.raises(RateLimited) as caught:
        forge.repository()
    asked = len(ours(sandbox_repo))
    until = caught.value.until
    sandbox_repo.pass_time(70 if limit == "primary" else 50)
    for ask in (
        forge.repository,
        lambda: forge.perform(CreateComment(number, "x"), token="t1"),
        lambda: sandbox_repo.hub.urgent(sandbox_repo.name).issue(number),
        sandbox_repo.hub.transport.now if limit == "primary" else forge.repository,
    ):
        with pytest.raises(RateLimited) as again:
            ask()
        assert again.value.status == 0
        assert abs((again.value.until - until).total_seconds()) < 1
        assert "was not asked" in again.value.what
    assert len(ours(sandbox_repo)) == asked
    sandbox_repo.pass_time((until - sandbox_repo.clock.now()).total_seconds())
    assert forge.repository().name == sandbox_repo.name


def test_a_patient_client_waits_a_little_and_is_woken_by_the_clock(sandbox_repo):
    sandbox_repo.tune(points_per_minute=20)
    hub = hub_of(sandbox_repo, RequestCaps(points_per_minute=20), MAX_WAIT)
    with pytest.raises(RateLimited):
        for _ in range(30):
            hub.repo(sandbox_repo.name).repository()
    sandbox_repo.pass_time(53)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(hub.repo(sandbox_repo.name).repository)
        sandbox_repo.clock.wait_for_waiters(1)
        sandbox_repo.pass_time(7)
        assert waiting.result(30).name == sandbox_repo.name
    assert {row["status"] for row in ours(sandbox_repo)} == {200}
    hub.close()
    sandbox_repo.tune(points_per_minute=0)


def test_many_threads_on_a_strict_host_are_never_refused_by_it(sandbox_repo, strict):
    start = threading.Barrier(20)

    def ask(number):
        start.wait(30)
        for turn in range(5):
            try:
                if number % 5:
                    strict.repo(sandbox_repo.name).repository()
                else:
                    strict.repo(sandbox_repo.name).perform(
                        CreateComment(issue, "x"), token=f"{number}-{turn}"
                    )
            except RateLimited as error:
                assert error.status == 0

    issue = sandbox_repo.issue()
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(ask, range(20)))
    rows = ours(sandbox_repo)
    assert {row["status"] for row in rows} <= {200, 201}
    assert sum(row["secondary"] for row in rows) <= 48


def test_redirects_and_retries_are_counted_each(sandbox_repo):
    number = sandbox_repo.issue()
    sandbox_repo.forge.repository()
    sandbox_repo.do("PATCH", f"/repos/{sandbox_repo.name}", name=f"{sandbox_repo.name.name}-new")
    sandbox_repo.forge.issue(number)
    sandbox_repo.fault("status", status=502, count=None)
    with pytest.raises(ServerFailed):
        sandbox_repo.forge.issue(number)
    rows = [row for row in sandbox_repo.ledger() if row["path"] != "/rate_limit"]
    mine = [row for row in rows if row["login"] == "bot" or row["status"] == 502]
    assert known(sandbox_repo.hub).points == len(mine) == 1 + 2 + 3


def test_what_never_reaches_the_host_is_not_counted(sandbox_repo):
    hub = hub_of(sandbox_repo, RequestCaps())
    hub.transport.base_url = "http://127.0.0.1:9"
    with pytest.raises(ForgeError):
        hub.repo(sandbox_repo.name).repository()
    assert known(hub).points == 0
    hub.close()


def test_a_lost_answer_is_counted(sandbox_repo):
    sandbox_repo.tune(primary_limit=5000)
    sandbox_repo.forge.repository()
    sandbox_repo.fault("cut", when="after", count=3)
    with pytest.raises(ForgeError):
        sandbox_repo.forge.repository()
    assert (known(sandbox_repo.hub).points, known(sandbox_repo.hub).remaining) == (4, 4996)


def test_an_app_is_one_account_however_often_its_token_is_renewed(sandbox_repo, app_hub):  # noqa: F811
    forge = app_hub.repo(sandbox_repo.name)
    forge.repository()
    sandbox_repo.pass_time(3500)
    forge.repository()
    assert bought(sandbox_repo) == 2
    names = {one.account.split()[0] for one in app_hub.budget.list_statuses()}
    assert names == {"app", "installation"}
    assert len(app_hub.budget.list_statuses()) == 2
    installation = app_hub.credentials.account(sandbox_repo.name)
    assert app_hub.budget.stretch(True, sandbox_repo.name) == 1.0
    assert known(app_hub, installation).points == 1


def test_another_token_is_another_account(sandbox_repo):
    secrets = [token_for("bot"), token_for("bob")]
    token = StaticToken(sandbox_repo.hub.transport, lambda: secrets[0])
    hub = GitHubHub(sandbox_repo.hub.transport, token, sandbox_repo.clock, pauses=())
    hub.repo(sandbox_repo.name).repository()
    assert not token.renew(secrets[0])
    assert token.account(sandbox_repo.name) == "token"
    del secrets[0]
    sandbox_repo.fault("status", status=401)
    hub.repo(sandbox_repo.name).repository()
    assert token.account(sandbox_repo.name) == "token 2"
    accounts = [one.account for one in hub.budget.list_statuses()]
    assert accounts == ["token", "token 2"]
    assert not any(secret in str(accounts) for secret in (token_for("bot"), token_for("bob")))


def test_the_settings_say_how_much_may_be_used(sandbox_repo, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", token_for("bot"))
    settings = Settings(api_url=sandbox_repo.sandbox.url, budget_percent=30)
    with closing(open_github(settings, sandbox_repo.clock)) as hub:
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
