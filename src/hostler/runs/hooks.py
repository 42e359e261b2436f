"""What others do around a run, passed in as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hostler.agents.events import LimitSignal
from hostler.agents.launch import Launch
from hostler.agents.verdict import Verdict
from hostler.store import Transaction
from hostler.store.runs import Run

InTransaction = Callable[[Transaction, Run], None]
Limited = Callable[[Transaction, Run, Sequence[LimitSignal]], None]


def nothing(_tx: Transaction, _run: Run) -> None:
    """Does nothing."""


def heedless(_tx: Transaction, _run: Run, _limits: Sequence[LimitSignal]) -> None:
    """Does nothing about limits."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """`launch` and `finish` may take their time; the others run inside a transaction.

    launch    while admitted: prepare checkout and prompt. `NotLaunched` says what a failure means.
    release   with `exited`, or the end of a run that never started: its places are free.
    requeue   with the end of a run that never started: its task goes back to its old place.
    finish    while finishing: each step looks first whether it is done, as it may be called again.
              It returns what belongs in the last transaction, with `ended`.
    limited   with the limits that an agent was told of, alive or at its end: its provider's pool
              may be closed.
    scopes    what the transactions of `requeue` and `finish` write beside runs.
    """

    launch: Callable[[Run], Launch]
    finish: Callable[[Run, Verdict], InTransaction]
    release: InTransaction = nothing
    requeue: InTransaction = nothing
    limited: Limited = heedless
    scopes: tuple[str, ...] = ()
