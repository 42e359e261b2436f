"""Both streams of a run, read on from where the row says that they were read to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from hostler.agents.clocktime import dated
from hostler.agents.kinds import kind_of
from hostler.agents.lines import Line, Stream, Tail
from hostler.agents.tally import tally
from hostler.clock import Clock
from hostler.config.settings import Agent
from hostler.runs.ending import Offsets
from hostler.runs.limits import Limit, limit_in, with_limit
from hostler.runs.memory import recall, shortened
from hostler.store.runs import Run

# Of one look at a stream, the newest so many are kept: an agent may print what it likes.
MOST_LIMITS = 50


class Reader:
    """What the streams have said so far."""

    def __init__(self, run: Run, folder: Path, clock: Clock) -> None:
        self._clock = clock
        self._kind = kind_of(agent_of(run))
        self._stdout = Tail(folder / Stream.STDOUT, Stream.STDOUT, run.stdout_offset)
        self._stderr = Tail(folder / Stream.STDERR, Stream.STDERR, run.stderr_offset)
        self.tally = recall(run.tally)
        # Limits that were heard of since they were last taken.
        self._limits: tuple[Limit, ...] = ()

    @property
    def offsets(self) -> Offsets:
        """Where the lines start that are not in the tally."""
        return Offsets(self._stdout.offset, self._stderr.offset)

    def read(self) -> bool:
        """Take in all lines that are complete by now; whether there were any."""
        before = self.offsets
        self._take(self._stdout.lines())
        self._take(self._stderr.lines())
        return self.offsets != before

    @property
    def limits(self) -> tuple[Limit, ...]:
        """What was told of limits and is not stored yet."""
        return self._limits[-MOST_LIMITS:]

    def stored(self) -> None:
        """What was heard so far is in the database."""
        self._limits = ()

    def rest(self) -> None:
        """Take in all that is left, once nothing writes any more."""
        self._take(self._stdout.rest())
        self._take(self._stderr.rest())

    def _take(self, lines: Iterable[Line]) -> None:
        for line in lines:
            # As soon as it is read: a time without its day means little later.
            events = [dated(one, self._clock.now()) for one in self._kind.events(line)]
            # Shortened at once, so that an adopted run is judged like any other.
            self.tally = shortened(tally(events, self.tally))
            for signal in filter(None, map(limit_in, events)):
                self._limits = with_limit(self._limits, signal)


def agent_of(run: Run) -> Agent:
    """As much of an agent's settings as its streams and its end need."""
    return Agent(kind=cast(Any, run.agent_kind))
