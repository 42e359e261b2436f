"""What others do around a run, passed in as functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hostler.agents.launch import Launch
from hostler.agents.verdict import Verdict
from hostler.runs.heard import Heard
from hostler.store import Transaction
from hostler.store.runs import Run

InTransaction = Callable[[Transaction, Run], None]
Listening = Callable[[Transaction, Run, Heard], None]


def nothing(_tx: Transaction, _run: Run) -> None:
    """Does nothing."""


def heedless(_tx: Transaction, _run: Run, _heard: Heard) -> None:
    """Does nothing about what is heard."""


def of_limits(_run: Run, heard: Heard) -> bool:
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
    finish: Callable[[Run, Verdict], InTransaction]
    release: InTransaction = nothing
    requeue: InTransaction = nothing
    heard: Listening = heedless
    listens: Callable[[Run, Heard], bool] = of_limits
    scopes: tuple[str, ...] = ()
