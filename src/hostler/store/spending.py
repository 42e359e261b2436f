"""What runs have cost, as far as their agents said: by task, and since a moment."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, select

from hostler.store.run_tables import runs
from hostler.store.runs import LIVE, Run, live_runs
from hostler.store.transaction import Transaction, batches


@dataclass(frozen=True, slots=True)
class Spent:
    """Money, and how many runs of an agent named no cost: these count as nothing."""

    usd: float = 0.0
    unpriced: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.usd + other.usd, self.unpriced + other.unpriced)


_ENDED = runs.c.state.not_in([state.value for state in LIVE])
_UNPRICED = case((and_(runs.c.usd == 0, runs.c.counted == 1), 1), else_=0)


def spent_by_tasks(tx: Transaction, names: Collection[str]) -> dict[str, Spent]:
    """What each of these tasks has cost, agents at work included."""
    found: dict[str, Spent] = {}
    wanted = sorted(set(names))
    for batch in batches(wanted):
        chosen = and_(runs.c.task_id.in_(batch), _ENDED)
        found |= _sums(tx, runs.c.task_id, chosen)
    for run in live_runs(tx) if wanted else ():
        if run.task_id in names:
            found[run.task_id] = found.get(run.task_id, Spent()) + Spent(so_far(run))
    return found


def spent_since(tx: Transaction, moment: str) -> dict[str, Spent]:
    """What each project has cost in runs that ended since a moment, or are at work."""
    chosen = and_(runs.c.exited_at >= moment, _ENDED)
    found = _sums(tx, runs.c.project, chosen)
    for run in live_runs(tx):
        found[run.project] = found.get(run.project, Spent()) + Spent(so_far(run))
    return found


def _sums(
    tx: Transaction, whose: ColumnElement[str], chosen: ColumnElement[bool]
) -> dict[str, Spent]:
    sums = select(whose, func.sum(runs.c.usd), func.sum(_UNPRICED)).where(chosen).group_by(whose)
    rows: list[Any] = list(tx.execute(sums).all())
    return {name: Spent(float(usd), int(unpriced)) for name, usd, unpriced in rows}


def so_far(run: Run) -> float:
    """What a run at work has cost until its stream was last looked at."""
    return run.usd
