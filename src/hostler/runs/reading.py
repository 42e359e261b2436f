"""Both streams of a run, read on from where the row says that they were read to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from hostler.agents.classify import recorded_at
from hostler.agents.clocktime import dated
from hostler.agents.events import Finished, Headroom, LimitSignal
from hostler.agents.kinds import kind_of
from hostler.agents.lines import Line, Stream, Tail
from hostler.agents.tally import tally
from hostler.clock import Clock
from hostler.config.settings import Agent
from hostler.runs.ending import Offsets
from hostler.runs.heard import Heard, is_answer
from hostler.runs.limits import Limit, limit_in, with_limit
from hostler.runs.memory import recall, shortened
from hostler.store.runs import Run

# Of one look at a stream, the newest so many are kept: an agent may print what it likes.
MOST_LIMITS = 50


class Reader:
    """What the streams have said so far."""

    def __init__(self, run: Run, folder: Path, clock: Clock) -> None:
        self._clock = clock
        self._folder = folder
        self._kind = kind_of(agent_of(run))
        self._stdout = Tail(folder / Stream.STDOUT, Stream.STDOUT, run.stdout_offset)
        self._stderr = Tail(folder / Stream.STDERR, Stream.STDERR, run.stderr_offset)
        self.tally = recall(run.tally)
        # Limits that were heard of since they were last taken.
        self._limits: tuple[Limit, ...] = ()
        self._words: tuple[Headroom, ...] = ()
        self._answers = 0

    @property
    def offsets(self) -> Offsets:
        """Where the lines start that are not in the tally."""
        return Offsets(self._stdout.offset, self._stderr.offset)

    def read(self) -> bool:
        """Take in all lines that are complete by now; whether there were any."""
        before = self.offsets
        self._take(self._stdout.lines(), self._said_at(Stream.STDOUT))
        self._take(self._stderr.lines(), self._said_at(Stream.STDERR))
        return self.offsets != before

    @property
    def limits(self) -> tuple[Limit, ...]:
        """What was told of limits and is not stored yet."""
        return self._limits[-MOST_LIMITS:]

    @property
    def last_limits(self) -> tuple[Limit, ...]:
        """What its last word told of limits, as long as nothing was said after it.

        If it ends with it, its death tells them. They stand in the tally, so that whoever reads on
        from the stored offset has them too.
        """
        return tuple(map(Limit, self.tally.held))

    @property
    def heard(self) -> Heard:
        """All that was told of the provider and is not stored yet."""
        return Heard(self.limits, self._words, self._answers)

    def stored(self) -> None:
        """What was heard so far is in the database."""
        self._limits, self._words, self._answers = (), (), 0

    def rest(self) -> None:
        """Take in all that is left, once nothing writes any more."""
        self._take(self._stdout.rest(), self._said_at(Stream.STDOUT))
        self._take(self._stderr.rest(), self._said_at(Stream.STDERR))

    def _said_at(self, stream: Stream) -> datetime:
        """When the last of its lines was written: perhaps long ago, while nobody read."""
        now = self._clock.now()
        return min(now, recorded_at(self._folder / stream) or now)

    def _take(self, lines: Iterable[Line], said_at: datetime) -> None:
        for line in lines:
            # A time without its day means little on another day.
            events = [dated(one, said_at) for one in self._kind.events(line)]
            self._answers += is_answer(events, self.tally)
            # The newest word alone: it is about the same limit.
            self._words = tuple(e for e in events if isinstance(e, Headroom))[-1:] or self._words
            # Shortened at once, so that an adopted run is judged like any other.
            self.tally = shortened(tally(events, self.tally))
            told = [signal for signal in map(limit_in, events) if signal is not None]
            if any(isinstance(one, Finished) and not one.ok for one in events):
                self._hold(told)
            else:
                self._let_go(line, told)

    def _hold(self, told: Sequence[LimitSignal]) -> None:
        """A last word that is said twice is one."""
        if tuple(told) != self.tally.held:
            self._tell(self.tally.held)
        self.tally = replace(self.tally, held=tuple(told))

    def _let_go(self, line: Line, told: Sequence[LimitSignal]) -> None:
        """It was no last word: more is said after it. What is said beside may be older."""
        if line.stream is Stream.STDOUT:
            self._tell(self.tally.held)
            self.tally = replace(self.tally, held=())
        self._tell(told)

    def _tell(self, signals: Iterable[LimitSignal]) -> None:
        for signal in signals:
            self._limits = with_limit(self._limits, signal)


def agent_of(run: Run) -> Agent:
    """As much of an agent's settings as its streams and its end need."""
    return Agent(kind=cast(Any, run.agent_kind))
