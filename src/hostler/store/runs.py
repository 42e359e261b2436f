"""Rows of runs: their states, their history and what they cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    TIMESTAMP,
    ColumnElement,
    and_,
    case,
    cast,
    extract,
    func,
    insert,
    select,
    update,
)

from hostler.store.schema import runs
from hostler.store.transaction import Transaction, batches, seconds_between


class RunState(StrEnum):
    """How far a run has come, in this order."""

    ADMITTED = "admitted"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    FINISHING = "finishing"
    ENDED = "ended"


# In these a run holds its places: an agent lives, or may be about to.
LIVE = (RunState.ADMITTED, RunState.STARTING, RunState.RUNNING)
# Named one by one: an index answers that, and ended runs are never read.
OPEN = (*LIVE, RunState.EXITED, RunState.FINISHING)


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `shim`, `tally`, `result` and `limit_signal` are JSON."""

    run: str
    task_id: str
    project: str
    fence: int
    attempt: int
    kind: str
    agent: str
    agent_kind: str
    pool: str
    folder: str
    admitted_at: str
    state: RunState = RunState.ADMITTED
    stop_why: str | None = None
    shim: str | None = None
    stdout_offset: int = 0
    stderr_offset: int = 0
    tally: str | None = None
    outcome: str | None = None
    decided_by: str | None = None
    why: str | None = None
    result: str | None = None
    limit_signal: str | None = None
    exit_code: int | None = None
    ended_by: str | None = None
    counted: bool = True
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    session: str | None = None
    starting_at: str | None = None
    running_at: str | None = None
    exited_at: str | None = None
    finishing_at: str | None = None
    ended_at: str | None = None
    slot_released_at: str | None = None
    slot_released_by: str | None = None
    slot_requested_at: str | None = None


def add_run(tx: Transaction, run: Run) -> None:
    """Store a new run."""
    tx.execute(insert(runs), {**asdict(run), "counted": int(run.counted)})


def find_run(tx: Transaction, run: str) -> Run | None:
    """A run by its name."""
    return next(iter(_rows(tx, runs.c.run == run)), None)


def open_runs(tx: Transaction, *, task_id: str | None = None) -> list[Run]:
    """Runs that have not ended, oldest first; of one task, if named."""
    chosen = runs.c.state.in_([state.value for state in OPEN])
    return _rows(tx, chosen if task_id is None else and_(chosen, runs.c.task_id == task_id))


def runs_marked(tx: Transaction, mark: str) -> list[Run]:
    """Runs whose shim bears a mark: one at most, unless somebody made it up."""
    return _rows(tx, runs.c.shim.contains(mark, autoescape=True))


def live_runs(tx: Transaction) -> list[Run]:
    """Runs that hold their places, oldest first."""
    return _rows(tx, runs.c.state.in_([state.value for state in LIVE]))


def live_run_names(tx: Transaction) -> frozenset[str]:
    """The names of runs that hold their places."""
    chosen = runs.c.state.in_([state.value for state in LIVE])
    return frozenset(tx.execute(select(runs.c.run).where(chosen)).scalars())


def runs_of(tx: Transaction, task_id: str) -> list[Run]:
    """All runs of a task, oldest first."""
    return sorted(_rows(tx, runs.c.task_id == task_id), key=lambda run: run.fence)


def last_fence(tx: Transaction, task_id: str) -> int:
    """The newest fence of a task; 0 before its first run."""
    statement = select(func.max(runs.c.fence)).where(runs.c.task_id == task_id)
    return int(tx.execute(statement).scalar() or 0)


def counted_runs(tx: Transaction, task_id: str) -> int:
    """How many runs of a task had an agent."""
    chosen = and_(runs.c.task_id == task_id, runs.c.counted == 1)
    return int(tx.execute(select(func.count()).where(chosen)).scalar_one())


def spent_in_session(
    tx: Transaction, task_id: str, session: str, before: int
) -> tuple[int, int, int, float]:
    """Tokens (in, out, cached) and money of a task's runs in one session before a fence."""
    columns = (runs.c.input_tokens, runs.c.output_tokens, runs.c.cached_tokens, runs.c.usd)
    chosen = and_(runs.c.task_id == task_id, runs.c.session == session, runs.c.fence < before)
    found = tx.execute(select(*(func.sum(column) for column in columns)).where(chosen)).one()
    tokens_in, tokens_out, cached, usd = (value or 0 for value in found)
    return int(tokens_in), int(tokens_out), int(cached), float(usd)


def change_run(
    tx: Transaction,
    run: str,
    *,
    fence: int,
    states: Collection[RunState],
    values: Mapping[str, Any],
    only_if: Mapping[str, Any] | None = None,
) -> bool:
    """Change a run of this fence in one of these states; whether there was one.

    `only_if`: further columns that must be as given.
    """
    chosen = [
        runs.c.run == run,
        runs.c.fence == fence,
        runs.c.state.in_([state.value for state in states]),
        *(runs.c[name].is_not_distinct_from(value) for name, value in (only_if or {}).items()),
    ]
    return tx.execute(update(runs).where(*chosen).values(**values)).rowcount == 1


def set_stop(tx: Transaction, run: str, why: str) -> bool:
    """Ask for a run's end, unless it was asked before or the run has ended."""
    chosen = (
        runs.c.run == run,
        runs.c.state != RunState.ENDED.value,
        runs.c.stop_why.is_(None),
    )
    return tx.execute(update(runs).where(*chosen).values(stop_why=why)).rowcount == 1


def release_run_slot(tx: Transaction, run: str, by: str) -> bool:
    """A run waits for others and does not count meanwhile; whether it counted before.

    `by` is the identity of the process that waits, as JSON.
    """
    chosen = (
        runs.c.run == run,
        runs.c.state == RunState.RUNNING.value,
        runs.c.slot_released_at.is_(None),
    )
    values = {"slot_released_at": tx.stamp(), "slot_released_by": by, "slot_requested_at": None}
    return tx.execute(update(runs).where(*chosen).values(values)).rowcount == 1


def request_run_slot(tx: Transaction, run: str) -> bool:
    """A run that lent its place asks for it again; whether it had lent it."""
    chosen = (
        runs.c.run == run,
        runs.c.slot_released_at.is_not(None),
        runs.c.slot_requested_at.is_(None),
    )
    return (
        tx.execute(update(runs).where(*chosen).values(slot_requested_at=tx.stamp())).rowcount == 1
    )


def return_run_slot(tx: Transaction, run: Run) -> Run:
    """A run counts again."""
    statement = update(runs).where(runs.c.run == run.run)
    tx.execute(
        statement.values(slot_released_at=None, slot_released_by=None, slot_requested_at=None)
    )
    found = find_run(tx, run.run)
    assert found is not None
    return found


def _rows(tx: Transaction, chosen: ColumnElement[bool]) -> list[Run]:
    found = tx.execute(select(runs).where(chosen)).mappings()
    return sorted((_run(dict(row)) for row in found), key=lambda run: (run.admitted_at, run.run))


def _run(values: dict[str, Any]) -> Run:
    return Run(**values | {"state": RunState(values["state"]), "counted": bool(values["counted"])})


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
