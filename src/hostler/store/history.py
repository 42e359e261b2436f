"""What ended runs came to, summed up by project and by how long ago they ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import TIMESTAMP, ColumnElement, case, cast, extract, func, select

from hostler.store.instants import seconds_between
from hostler.store.run_tables import runs
from hostler.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Sums:
    """Runs that ended: how many, how many failed, their seconds, and the squares of these."""

    count: int = 0
    failed: int = 0
    seconds: float = 0.0
    squares: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.count + other.count,
            self.failed + other.failed,
            self.seconds + other.seconds,
            self.squares + other.squares,
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """One run whose agent ended."""

    pool: str
    admitted_at: str
    running_at: str
    exited_at: str

    @property
    def start_seconds(self) -> float:
        """From its place to its agent at work."""
        return seconds_between(self.admitted_at, self.running_at)

    @property
    def work_seconds(self) -> float:
        """For how long its agent was at work."""
        return seconds_between(self.running_at, self.exited_at)


def newest_ended(tx: Transaction, most: int) -> list[Ended]:
    """The runs with an agent that ended last, newest first."""
    found = runs.c
    statement = (
        select(found.pool, found.admitted_at, found.running_at, found.exited_at)
        .where(found.exited_at.is_not(None), found.counted == 1, found.running_at.is_not(None))
        .order_by(found.exited_at.desc())
        .limit(most)
    )
    return [Ended(**row) for row in tx.execute(statement).mappings()]


def ended_since(
    tx: Transaction, moments: Sequence[str], well: Collection[str]
) -> dict[tuple[str, int], Sums]:
    """Sums of runs with an agent, by project and the first of these moments that each ended after.

    `moments` come latest first; what ended before the last of them is not read. `well`: outcomes
    that are no failure.
    """
    ended = runs.c.exited_at
    which = case(*((ended >= at, number) for number, at in enumerate(moments)))
    lasted = _seconds(tx)
    statement = (
        select(
            runs.c.project,
            which.label("which"),
            func.count(),
            func.sum(case((runs.c.outcome.in_(well), 0), else_=1)),
            func.sum(lasted),
            func.sum(lasted * lasted),
        )
        .where(ended >= moments[-1], runs.c.counted == 1, runs.c.running_at.is_not(None))
        .group_by(runs.c.project, which)
    )
    rows: list[Any] = list(tx.execute(statement).all())
    return {
        (project, int(number)): Sums(int(count), int(failed), float(total), float(squares))
        for project, number, count, failed, total, squares in rows
    }


def newest_end(tx: Transaction) -> str:
    """When a run ended last; empty: none has."""
    return tx.execute(select(func.max(runs.c.exited_at))).scalar() or ""


def _seconds(tx: Transaction) -> ColumnElement[Any]:
    """How long an agent was at work; never less than nothing, whatever clocks did."""
    if tx.on_postgres:
        moment = TIMESTAMP(timezone=True)
        lasted = cast(runs.c.exited_at, moment) - cast(runs.c.running_at, moment)
        seconds: ColumnElement[Any] = extract("epoch", lasted)
    else:
        days = func.julianday(runs.c.exited_at) - func.julianday(runs.c.running_at)
        seconds = days * 86_400.0
    return case((seconds > 0, seconds), else_=0.0)
