"""What runs need from others: where agents run, and hooks around a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Protocol

from hostler.agents.assignment import Launch
from hostler.agents.verdict import RunVerdict
from hostler.runs.outcome import ProviderSignals
from hostler.store import Transaction
from hostler.store.runs import Run


class Step(StrEnum):
    """What has just been done, in this order. For logs, and for tests that kill in between."""

    SPAWNED = "spawned"
    LOCKED = "locked"
    STARTING = "starting"
    RUNNING = "running"
    GO = "go"
    READ = "read"
    OVER = "over"
    EXITED = "exited"
    FINISHING = "finishing"
    FINISHED = "finished"
    ENDED = "ended"
    NEVER_STARTED = "never_started"


Observer = Callable[[Step, str], None]


def ignore_step(_step: Step, _run: str) -> None:
    """Observes nothing."""


class What(StrEnum):
    """What a dispatcher tells about a run."""

    STARTED = "started"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to a run. Numbers only grow; the row and the folder are the truth."""

    number: int
    run: str
    what: What


class Watch(Protocol):
    """An eye on one run's supervisor. Leave its block to let go of it."""

    @property
    def left_well(self) -> bool:
        """Whether we saw it leave after its last word."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Until it has left, or the time is over; whether it has left."""
        ...

    def __enter__(self) -> Watch: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Dispatcher(Protocol):
    """Where agents run."""

    def submit(self, spec: Mapping[str, Any], run: str, fence: int) -> None:
        """Start the run's agent, once. Again is no harm: it is started once."""
        ...

    def attach(self, run: str) -> Watch:
        """Watch a run, whoever started it."""
        ...

    def cancel(self, run: str, grace: float) -> None:
        """Tell a run's supervisor of its stop; a shorter grace hurries an earlier one."""
        ...

    def events(self, after: int) -> Sequence[Happening]:
        """What happened after that number, as far as it is remembered."""
        ...


InTransaction = Callable[[Transaction, Run], None]
Listening = Callable[[Transaction, Run, ProviderSignals], None]


def do_nothing(_tx: Transaction, _run: Run) -> None:
    """Does nothing."""


def ignore_signals(_tx: Transaction, _run: Run, _heard: ProviderSignals) -> None:
    """Does nothing about what is heard."""


def has_limits(_run: Run, heard: ProviderSignals) -> bool:
    """Whether there is a limit in it."""
    return bool(heard.limits)


@dataclass(frozen=True, slots=True)
class Hooks:
    """`launch` and `finish` may take their time; the others run inside a transaction.

    launch    while admitted: prepare checkout and prompt. `NotLaunched` says what a failure means.
    release   with `exited`, or the end of a run that never started: its places are free.
    requeue   with the end of a run that never started: its task goes back to its old place.
    finish    while finishing: each step looks first whether it is done, as it may be called again.
              It returns what belongs in the last transaction, with `ended`.
    heard     with what a stream said of its provider: its pool may be closed, or learn from it.
    listens   whether `heard` has anything to do with that: only then others are held up by it.
    scopes    what the transactions of `requeue` and `finish` write beside runs.
    """

    launch: Callable[[Run], Launch]
    finish: Callable[[Run, RunVerdict], InTransaction]
    release: InTransaction = do_nothing
    requeue: InTransaction = do_nothing
    heard: Listening = ignore_signals
    listens: Callable[[Run, ProviderSignals], bool] = has_limits
    scopes: tuple[str, ...] = ()
