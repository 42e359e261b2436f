"""Random histories of one pool, played through a policy alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from hostler.governor.adaptive.model import (
    AdaptivePolicy,
    LeaseSlot,
    LimitAnnouncement,
    LimitReport,
    PoolConfig,
    PoolLoad,
    PoolState,
    Reason,
    Source,
)

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SLOTS = [LeaseSlot(project, task) for project in ("ant", "bee") for task in ("1", "2", "")]

slots = st.sampled_from(SLOTS)
seconds = st.sampled_from([0, 0, 1, 2, 5, 20, 31, 119, 121, 300, 421, 700, 1900, 4000])
reports = st.builds(
    LimitReport,
    slots,
    st.sampled_from(Source),
    st.sampled_from(Reason),
    st.none() | seconds.map(lambda after: START + timedelta(seconds=after * 7)),
)
words = st.builds(
    LimitAnnouncement,
    slots,
    st.sampled_from([0.0, 0.3, 0.8, 0.95, 1.0, 1.4]),
    st.none() | seconds.map(lambda after: START + timedelta(seconds=after * 7)),
)
steps = st.one_of(
    st.tuples(st.just("start"), slots, st.floats(0, 0.999)),
    st.tuples(st.just("end"), slots, st.booleans()),
    st.tuples(st.just("limit"), reports),
    st.tuples(st.just("word"), words),
    st.tuples(st.just("answer"), slots, st.integers(0, 50)),
    st.tuples(st.just("vanish"), slots),
)
traces = st.lists(st.tuples(seconds, steps), max_size=40)
config = st.builds(
    PoolConfig,
    max_global=st.integers(1, 12),
    adaptive=st.just(True),
    hard_max=st.integers(1, 24),
)


@dataclass
class Pool:
    """A policy with what it knows, a clock, and the agents that hold a lease."""

    control: AdaptivePolicy
    config: PoolConfig
    now: datetime = START
    state: PoolState = field(default_factory=PoolState)
    live: list[LeaseSlot] = field(default_factory=list)
    waiting: bool = True
    # Those of programs that nobody follows.
    unobserved: frozenset[LeaseSlot] = frozenset()

    @property
    def cap(self) -> int:
        return self.control.cap(self.config, self.state)

    def load(self) -> PoolLoad:
        live = frozenset(self.live)
        return PoolLoad(len(self.live), self.waiting, live, live & self.unobserved)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def look(self) -> None:
        self.state = self.control.advance(self.config, self.state, self.now, self.load())

    def start(self, slot: LeaseSlot, roll: float = 0.5) -> bool:
        """As admission does it: what time changed, the gates, and the grant."""
        self.look()
        if (
            self.control.closed_gate(self.config, self.state, self.now)
            or len(self.live) >= self.cap
        ):
            return False
        self.state = self.control.on_start(self.config, self.state, self.now, slot, roll)
        self.live.append(slot)
        return True

    def end(self, slot: LeaseSlot, reached: bool = True) -> None:
        if slot in self.live:
            self.live.remove(slot)
            self.state = self.control.on_release(
                self.config, self.state, self.now, slot, reached=reached
            )

    def vanish(self, slot: LeaseSlot) -> None:
        """A lease that is gone, and nobody was told."""
        if slot in self.live:
            self.live.remove(slot)

    def limit(self, report: LimitReport) -> None:
        self.state = self.control.on_limit(self.config, self.state, self.now, report)

    def die(self, slot: LeaseSlot) -> None:
        """An agent that its provider's limit killed."""
        self.limit(LimitReport(slot, Source.DEATH, Reason.BURST))
        self.end(slot)

    def word(self, word: LimitAnnouncement) -> None:
        self.state = self.control.on_announcement(self.config, self.state, self.now, word)

    def answer(self, slot: LeaseSlot, requests: int = 1) -> None:
        if slot in self.live:
            self.state = self.control.on_answers(self.config, self.state, self.now, slot, requests)

    def take(self, step: tuple[Any, ...]) -> bool | None:
        """One step of a history; whether somebody started, if it was about that."""
        kind, *rest = step
        return getattr(self, kind)(*rest)

    def play(self, trace: list[tuple[int, tuple[Any, ...]]]) -> Iterator[tuple[str, bool]]:
        """A whole history, step by step."""
        for seconds, step in trace:
            self.wait(seconds)
            yield step[0], bool(self.take(step))
