"""Requests, answers, losses and time in any order: the host never counts more than our share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rate_limited_host import Host

from example_counts import examples
from hostler.forge.github.rate_limit.accounts import RateLimitAccount
from hostler.forge.github.rate_limit.limits import (
    MAX_STRETCH,
    ReportedLimit,
    RequestCaps,
    RequestKind,
)

KINDS = st.sampled_from(
    [
        RequestKind.READ,
        RequestKind.READ,
        RequestKind.URGENT,
        RequestKind.WRITE,
        RequestKind.CREATION,
    ]
)
WHICH = st.integers(0, 10**6)


@dataclass
class Flight:
    kind: RequestKind
    episodes: int
    said: ReportedLimit | None = None
    status: int = 0


class AccountMachine(RuleBasedStateMachine):
    """Small limits, so that each of them is met: those of haste, or those of the hour."""

    @initialize(
        percent=st.integers(20, 100),
        limit=st.integers(2, 60),
        caps=st.sampled_from([RequestCaps(40, 5, 9, 6), RequestCaps(900, 80, 500, 10)]),
    )
    def begin(self, percent, limit, caps):
        self.caps = replace(caps, percent=percent)
        self.account = RateLimitAccount(self.caps)
        self.host = Host(limit)
        self.flying: list[Flight] = []
        self.refused_until = 0.0

    @property
    def now(self):
        return self.host.now

    @rule(kind=KINDS, count=st.integers(1, 20))
    def ask(self, kind, count):
        for _ in range(count):
            hold = self.account.find_hold(kind, self.now)
            if hold is not None:
                assert hold.seconds is None or hold.seconds > 0
                assert hold.seconds is not None or self.flying, "nobody would wake it"
                self.account.record_wait(kind, self.now)
                self.account.record_refused_poll(kind, hold, self.now)
                return
            assert self.now >= self.refused_until
            self.flying.append(Flight(kind, self.account.start_request(kind, self.now)))

    @precondition(lambda self: self.flying)
    @rule(which=WHICH, changed=st.booleans())
    def arrive(self, which, changed):
        flight = self.flying[which % len(self.flying)]
        if flight.said is None:
            paid = changed or flight.kind is not RequestKind.READ
            flight.status = 200 if paid else 304
            flight.said = self.host.arrive(flight.kind, changed=paid)

    @precondition(lambda self: self.flying)
    @rule(which=WHICH, told=st.sampled_from([True, True, True, False]))
    def answer(self, which, told):
        flight = self.flying[which % len(self.flying)]
        if flight.said is None:
            return
        self.flying.remove(flight)
        known = self.account.primary(self.now) is not None
        said = flight.said if told or not known else None
        self.account.record_answer(flight.kind, flight.status, said, self.now)
        self.account.end_request(flight.kind, self.now, sent=True)

    @rule(count=st.integers(1, 12), lost=st.integers(0, 3))
    def a_flock(self, count, lost):
        """Many leave at once, all are paid for, the first few answers are lost."""
        self.ask(RequestKind.READ, count)
        for which in range(len(self.flying)):
            self.arrive(which, changed=True)
        for _ in range(min(lost, len(self.flying))):
            self.lose(0)
        while self.flying:
            self.answer(len(self.flying) - 1, told=True)

    @precondition(lambda self: self.flying)
    @rule(which=WHICH)
    def lose(self, which):
        if self.account.primary(self.now) is None:
            return  # what is lost before the first answer of all, nobody can know of
        flight = self.flying.pop(which % len(self.flying))
        sent = flight.said is not None
        self.account.end_request(flight.kind, self.now, sent=sent)
        if sent:
            self.account.record_lost_answer(self.now)

    @precondition(lambda self: self.flying)
    @rule(which=WHICH, seconds=st.floats(1, 300))
    def record_refusal(self, which, seconds):
        flight = self.flying.pop(which % len(self.flying))
        said = flight.said or self.host.arrive(flight.kind, changed=False)
        self.account.record_answer(flight.kind, 403, said, self.now)
        self.account.record_refusal("secondary", seconds, flight.episodes, self.now)
        self.account.end_request(flight.kind, self.now, sent=True)
        self.refused_until = max(self.refused_until, self.now + seconds)

    @rule(seconds=st.sampled_from([0.1, 1.0, 7.0, 30.0, 59.0, 61.0, 600.0, 3601.0]))
    def pass_time(self, seconds):
        self.host.now += seconds

    @rule(amount=st.integers(0, 30))
    def others_use(self, amount):
        self.host.others_use(amount)

    @precondition(lambda self: not self.flying)
    @rule(kind=KINDS)
    def wait_for_our_turn(self, kind):
        """Whoever waits as long as it is told, alone, gets through: no limit holds it for ever."""
        for _ in range(4):
            hold = self.account.find_hold(kind, self.now)
            if hold is None:
                return
            self.host.now += hold.seconds + 1e-6
        assert self.account.find_hold(kind, self.now) is None

    @invariant()
    def never_above_the_share(self):
        if hasattr(self, "host"):
            self.host.at_once = len(self.flying)
            self.host.check(self.caps)

    @invariant()
    def stretches_are_in_bounds(self):
        if hasattr(self, "account"):
            idle = self.account.stretch(self.now)
            active = self.account.stretch(self.now, active=True)
            assert 1.0 <= active <= idle <= MAX_STRETCH


TestAccountMachine = AccountMachine.TestCase
TestAccountMachine.settings = settings(max_examples=examples(50, 150), stateful_step_count=80)
