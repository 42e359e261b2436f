"""Many threads at one account: none exceeds, all get through, nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest
from rate_limited_host import Host

from hostler.clock import FakeClock
from hostler.errors import RateLimited
from hostler.forge.github.rate_limit.accounts import MAX_WAIT, RateLimitAccount, RateLimitAccounts
from hostler.forge.github.rate_limit.limits import (
    RequestCaps,
    RequestKind,
    parse_budget,
    parse_refusal,
)
from hostler.model import RepoName
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import (
    GITHUB_BUDGET_LIMIT,
    GITHUB_BUDGET_REMAINING,
    GITHUB_POINTS,
    GITHUB_REFUSALS,
    GITHUB_STRETCH,
)

MANY = 50


class Counting:
    """A host behind a lock, that answers one by one."""

    def __init__(self, accounts: RateLimitAccounts, clock: FakeClock, limit: int = 5000) -> None:
        self.accounts = accounts
        self.clock = clock
        self.host = Host(limit)
        self.lock = threading.Lock()
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Semaphore(0)

    def ask(self, kind: RequestKind = RequestKind.READ, name: str = "ours") -> str:
        try:
            with self.accounts.turn(name, kind, "GET /x") as turn:
                with self.lock:
                    self.host.now = self.clock.monotonic()
                    self.host.at_once += 1
                    said = self.host.arrive(kind, changed=True)
                    self.host.check(self.accounts.caps)
                self.entered.release()
                assert self.go.wait(30)
                with self.lock:
                    self.host.at_once -= 1
                turn.record_answer(200, self._headers(said))
        except RateLimited as error:
            assert error.status == 0
            assert error.until > self.clock.now()
            return "refused"
        return "answered"

    def _headers(self, said):
        reset = int(self.clock.now().timestamp() + said.seconds)
        date = self.clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT")
        return parse_budget(
            {
                "x-ratelimit-limit": str(said.limit),
                "x-ratelimit-remaining": str(said.remaining),
                "x-ratelimit-reset": str(reset),
                "date": date,
            }
        )


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def crowd():
    with ThreadPoolExecutor(MANY) as pool:

        def run(work: Callable[[], str], count: int = MANY) -> list[Future[str]]:
            return [pool.submit(work) for _ in range(count)]

        yield run


@pytest.mark.parametrize(
    ("caps", "limit"),
    [
        (RequestCaps(), 40),
        (RequestCaps(points_per_minute=30), 5000),
        (RequestCaps(concurrent=10), 5000),
        (RequestCaps(percent=1), 5000),
    ],
    ids=["hour", "minute", "places", "percent"],
)
def test_fifty_at_once_never_exceed(clock, crowd, caps, limit):
    host = Counting(RateLimitAccounts(clock, caps), clock, limit)
    ends = [one.result(30) for _ in range(4) for one in crowd(host.ask)]
    assert "answered" in ends
    assert host.host.ours <= caps.share(limit)


def test_writes_go_through_while_polls_are_held(clock, crowd):
    host = Counting(
        RateLimitAccounts(clock, RequestCaps(points_per_minute=100, creations_per_minute=80)), clock
    )
    ends = [one.result(30) for one in crowd(host.ask, 100)]
    assert ends.count("answered") == 75 and ends.count("refused") == 25
    assert host.ask(RequestKind.CREATION) == "answered"
    assert host.ask(RequestKind.READ) == "refused"
    clock.advance(60.1)
    assert host.ask(RequestKind.READ) == "answered"


def test_the_others_wait_for_the_first_and_for_places(clock, crowd):
    host = Counting(RateLimitAccounts(clock, RequestCaps(concurrent=10, percent=100)), clock)
    host.go.clear()
    futures = crowd(host.ask, 20)
    host.entered.acquire()
    clock.wait_for_waiters(19)
    assert len(host.host.arrived) == 1
    host.go.set()
    assert [one.result(30) for one in futures] == ["answered"] * 20


def test_a_wait_ends_with_patience_and_says_when_to_come_again(clock, crowd):
    host = Counting(RateLimitAccounts(clock), clock)
    host.go.clear()
    (first,) = crowd(host.ask, 1)
    host.entered.acquire()
    (second,) = crowd(host.ask, 1)
    clock.wait_for_waiters(1)
    clock.advance(MAX_WAIT)
    assert second.result(30) == "refused"
    host.go.set()
    assert first.result(30) == "answered"


def test_a_patient_poll_waits_for_the_minute_to_pass(clock, crowd):
    host = Counting(RateLimitAccounts(clock, RequestCaps(points_per_minute=20), MAX_WAIT), clock)
    spent = 0
    while host.ask() == "answered":
        spent += 1
    assert spent == 11
    clock.advance(55.0)
    (waiting,) = crowd(host.ask, 1)
    clock.wait_for_waiters(1)
    clock.advance(5.1)
    assert waiting.result(30) == "answered"


def test_whoever_waits_is_woken_when_the_hub_closes(clock, crowd):
    host = Counting(RateLimitAccounts(clock, RequestCaps(points_per_minute=20), MAX_WAIT), clock)
    while host.ask() == "answered":
        pass
    clock.advance(55.0)
    futures = crowd(host.ask, 3)
    clock.wait_for_waiters(3)
    host.accounts.close()
    wait(futures, 30)
    assert [one.result() for one in futures] == ["refused"] * 3


def test_a_wall_clock_that_jumps_changes_nothing(clock):
    host = Counting(RateLimitAccounts(clock, RequestCaps(points_per_minute=20)), clock)
    while host.ask() == "answered":
        pass
    before = host.accounts.stretch(active=False)
    for seconds in (10**6, -(10**7), 3600):
        clock.jump(seconds)
        assert host.ask() == "refused"
        assert host.accounts.stretch(active=False) >= before
    clock.advance(60.1)
    assert host.ask() == "answered"


def test_an_exchange_that_breaks_leaves_nothing_behind(clock):
    accounts = RateLimitAccounts(clock, RequestCaps(concurrent=1, percent=100))
    for _ in range(5):
        with pytest.raises(ZeroDivisionError), accounts.turn("ours", RequestKind.READ, "GET /x"):
            raise ZeroDivisionError
    with accounts.turn("ours", RequestKind.READ, "GET /x") as turn:
        turn.mark_not_sent()
    assert accounts.list_statuses()[0].points == 5


def test_nobody_pays_for_what_is_asked_in_nobodys_name(clock):
    accounts = RateLimitAccounts(clock)
    with accounts.turn("", RequestKind.READ, "GET /rate_limit") as turn:
        turn.record_answer(
            200, parse_budget({"x-ratelimit-limit": "60", "x-ratelimit-remaining": "0"})
        )
    assert accounts.list_statuses() == []
    assert accounts.stretch(active=True) == 1.0


def refuse(accounts, name, seconds, clock):
    refusal = parse_refusal(403, {"retry-after": str(seconds)}, "", clock.now(), 0)
    with accounts.turn(name, RequestKind.READ, "GET /x") as turn:
        turn.record_answer(403, parse_budget({}))
        turn.record_refusal(refusal)


def test_a_refusal_holds_its_account_alone(clock):
    accounts = RateLimitAccounts(clock)
    host = Counting(accounts, clock)
    assert host.ask(name="theirs") == "answered"
    refuse(accounts, "ours", 300, clock)
    for kind in RequestKind:
        assert host.ask(kind) == "refused"
    assert host.ask(name="theirs") == "answered"
    assert accounts.refused_until() is None
    refuse(accounts, "theirs", 200, clock)
    assert (accounts.refused_until() - clock.now()).total_seconds() == 200
    clock.advance(300.1)
    assert host.ask() == "answered"


def test_each_repository_stretches_by_its_own_account(clock):
    accounts = RateLimitAccounts(clock, RequestCaps(points_per_minute=50))
    poor, rich = RepoName("a", "poor"), RepoName("a", "rich")
    accounts.set_payer("one", poor)
    accounts.set_payer("two", rich)
    host = Counting(accounts, clock)
    for _ in range(30):
        for _ in range(30):
            host.ask(name="one")
        clock.advance(20)
    host.ask(name="two")
    assert accounts.stretch(active=False, repo=rich) == 1.0
    assert accounts.stretch(active=False, repo=poor) > 1.0
    unknown = RepoName("a", "unknown")
    assert (
        accounts.stretch(False, unknown) == accounts.stretch(False) == accounts.stretch(False, poor)
    )
    assert accounts.stretch(active=True) <= accounts.stretch(active=False)


def test_what_is_known_can_be_read_and_measured(clock):
    host = Counting(RateLimitAccounts(clock), clock, limit=100)
    before = metrics.value(GITHUB_REFUSALS, account="metered", limit="primary", by="us")
    while host.ask(name="metered") == "answered":
        pass
    (known,) = host.accounts.list_statuses()
    assert (known.account, known.limit, known.remaining) == ("metered", 100, 28)
    assert known.points == 72
    assert abs((known.resets_at - clock.now()).total_seconds() - 3600) <= 1
    assert metrics.value(GITHUB_BUDGET_LIMIT, account="metered") == 100
    assert metrics.value(GITHUB_BUDGET_REMAINING, account="metered") == 28
    assert metrics.value(GITHUB_POINTS, account="metered") == 72
    idle = metrics.value(GITHUB_STRETCH, account="metered", repositories="idle")
    active = metrics.value(GITHUB_STRETCH, account="metered", repositories="active")
    assert 1.0 < active < idle == known.idle_stretch
    after = metrics.value(GITHUB_REFUSALS, account="metered", limit="primary", by="us")
    assert after == before + 1


def test_those_who_are_turned_away_are_told_to_come_one_after_another():
    account, told = RateLimitAccount(RequestCaps(points_per_minute=100)), []
    for number in range(75):
        account.start_request(RequestKind.READ, float(number) / 10)
        account.record_answer(RequestKind.READ, 304, None, float(number) / 10)
        account.end_request(RequestKind.READ, float(number) / 10, sent=True)
    for _ in range(200):
        hold = account.find_hold(RequestKind.READ, 8.0)
        account.record_refused_poll(RequestKind.READ, hold, 8.0)
        told.append(hold.seconds)
    assert told == sorted(told)
    assert told[0] == pytest.approx(52.0)
    assert told[74] == pytest.approx(59.4)
    assert told[76] == pytest.approx(112.1)
