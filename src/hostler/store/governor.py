"""Rows of the governor: leases, demand, pools, turns, provider signals and samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Row, RowMapping, delete, func, insert, select

from hostler.model import format_timestamp
from hostler.store.schema import demand, leases, limit_signals, pool_samples, turns
from hostler.store.transaction import Transaction, insert_or_update


@dataclass(frozen=True, slots=True)
class Parked:
    """A closed pool. Both moments are stamps, as they were stored.

    `run`: the one on whose word alone it is closed; empty: on somebody else's too.
    """

    pool: str
    at: str
    until: str
    why: str
    run: str = ""


PARK = """
    INSERT INTO pools (pool, parked_at, parked_until, parked_why, parked_run)
    VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (pool) DO UPDATE SET parked_at = excluded.parked_at,
        parked_until = excluded.parked_until, parked_why = excluded.parked_why,
        parked_run = excluded.parked_run
"""
UNPARK = """
    UPDATE pools SET parked_at = NULL, parked_until = NULL, parked_why = '', parked_run = ''
    WHERE pool = ? AND parked_until IS NOT NULL
"""
_FIND_PARKED = """
    SELECT pool, parked_at, parked_until, parked_why, parked_run FROM pools
    WHERE pool = ? AND parked_until IS NOT NULL
"""
_ALL_PARKED = """
    SELECT pool, parked_at, parked_until, parked_why, parked_run FROM pools
    WHERE parked_until IS NOT NULL
"""


def park_pool(tx: Transaction, parked: Parked) -> None:
    """Store until when a pool is closed, in place of what was said before."""
    tx.constant(PARK, (parked.pool, parked.at, parked.until, parked.why, parked.run))


def unpark_pool(tx: Transaction, pool: str) -> bool:
    """Open a pool; whether it was parked."""
    return tx.constant(UNPARK, (pool,)).rowcount == 1


def parked_pool(tx: Transaction, pool: str) -> Parked | None:
    """What is stored of a pool's closing, whether or not it is over."""
    return next((_parked(row) for row in tx.constant(_FIND_PARKED, (pool,))), None)


def parked_pools(tx: Transaction) -> list[Parked]:
    """The same of all pools."""
    return sorted(
        (_parked(row) for row in tx.constant(_ALL_PARKED)), key=lambda parked: parked.pool
    )


def _parked(row: Row[Any]) -> Parked:
    pool, at, until, why, run = tuple(row)
    return Parked(pool, at or "", until, why, run)


@dataclass(frozen=True, slots=True)
class Holder:
    """A process, known beyond doubt. Without a host or a pid nobody can say whether it lives."""

    host: str = ""
    boot_id: str = ""
    pid_namespace: str = ""
    pid: int = 0
    start_ticks: int = 0

    @property
    def columns(self) -> tuple[str, str, str, int, int]:
        """Its values in the order of every statement here."""
        return self.host, self.boot_id, self.pid_namespace, self.pid, self.start_ticks


@dataclass(frozen=True, slots=True)
class Lease:
    """One lease. A run's bears the run's name and its task; a foreign program's has no task."""

    lease: str
    pool: str
    project: str
    holder: Holder
    acquired_at: str
    seen_at: str
    task_id: str = ""
    program: str = ""
    model: str = ""
    engine_pid: int = 0
    attached_at: str | None = None
    lent: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """How many leases count, seen from one pool and project; `on_machine` where asked for.

    `wishes` is how many want something in the pool, `parked` what is stored of its closing, and
    `overlay` what was learned of it.
    """

    in_pool: int
    own_in_pool: int
    own: int
    on_machine: int
    wishes: int = 0
    parked: Parked | None = None
    overlay: str = ""


# Constant statements: starting and ending an agent passes through here, often in a crowd.
ADD = """
    INSERT INTO leases (lease, pool, project, task_id, program, model, engine_pid,
        host, boot_id, pid_namespace, pid, start_ticks, lent, acquired_at, seen_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)
"""
REMOVE = "DELETE FROM leases WHERE lease = ?"
# Only if it is still the one that was looked at: its place may have passed to another process.
REMOVE_OF = """
    DELETE FROM leases WHERE lease = ? AND host = ? AND boot_id = ? AND pid_namespace = ?
        AND pid = ? AND start_ticks = ?
"""
GIVE = """
    UPDATE leases SET host = ?, boot_id = ?, pid_namespace = ?, pid = ?, start_ticks = ?,
        attached_at = ?, seen_at = ?
    WHERE lease = ?
"""
WHOSE = "SELECT project, task_id, lease FROM leases WHERE pool = ?"
SEEN = "UPDATE leases SET seen_at = ? WHERE lease = ?"
LEND = "UPDATE leases SET lent = ? WHERE lease = ? AND lent <> ?"
# All that most starts have to ask, in one statement, answered from indexes.
_SELECT = """
    SELECT (SELECT count(*) FROM leases WHERE pool = ? AND lent = 0),
        (SELECT count(*) FROM leases WHERE project = ? AND pool = ? AND lent = 0),
        (SELECT count(*) FROM leases WHERE project = ? AND lent = 0),
        (SELECT count(*) FROM demand WHERE pool = ? AND (wanted IS NULL OR wanted > 0)),
        p.parked_at, p.parked_until, p.parked_why, p.overlay
"""
_FROM = "FROM (SELECT 1 AS one) o LEFT JOIN pools p ON p.pool = ?"
# Containers of one machine have names of their own and one boot in common. An unknown one counts.
# This reads all leases; where a machine has a ceiling, they are few.
_ON_MACHINE = "(SELECT count(*) FROM leases WHERE boot_id IN (?, '') AND lent = 0)"
STAND = f"{_SELECT}, 0 {_FROM}"
STAND_ON_MACHINE = f"{_SELECT}, {_ON_MACHINE} {_FROM}"


def add_lease(tx: Transaction, lease: Lease) -> None:
    """Store a new lease."""
    who = (lease.lease, lease.pool, lease.project, lease.task_id, lease.program, lease.model)
    when = (lease.acquired_at, lease.seen_at)
    tx.constant(ADD, (*who, lease.engine_pid, *lease.holder.columns, *when))


def find_lease(tx: Transaction, lease: str) -> Lease | None:
    """A lease by its name."""
    row = tx.execute(select(leases).where(leases.c.lease == lease)).mappings().one_or_none()
    return None if row is None else _lease(dict(row))


def all_leases(tx: Transaction) -> list[Lease]:
    """Every lease, oldest first."""
    found = [_lease(dict(row)) for row in tx.execute(select(leases)).mappings()]
    return sorted(found, key=lambda lease: (lease.acquired_at, lease.lease))


def standing(tx: Transaction, pool: str, project: str, boot_id: str | None) -> Standing:
    """How many leases count, the lent ones left out; `boot_id` None: no machine."""
    asked: tuple[str, ...] = (pool, project, pool, project, pool)
    if boot_id is None:
        row = tx.constant(STAND, (*asked, pool)).one()
    else:
        row = tx.constant(STAND_ON_MACHINE, (*asked, boot_id, pool)).one()
    in_pool, own_in_pool, own, wishes, at, until, why, overlay, on_machine = tuple(row)
    parked = None if until is None else Parked(pool, at or "", until, why)
    return Standing(in_pool, own_in_pool, own, on_machine, wishes, parked, overlay or "")


def whose(tx: Transaction, pool: str) -> list[tuple[str, str, str]]:
    """Project, task and name of every lease of a pool, the lent ones included."""
    found: list[Any] = list(tx.constant(WHOSE, (pool,)))
    return [(row[0], row[1], row[2]) for row in found]


def give_lease(tx: Transaction, lease: str, holder: Holder, at: str) -> bool:
    """Make another process its holder; whether there was such a lease."""
    return tx.constant(GIVE, (*holder.columns, at, at, lease)).rowcount == 1


def lend_lease(tx: Transaction, lease: str, *, lent: bool) -> bool:
    """Count it no more, or again; whether that changed anything."""
    return tx.constant(LEND, (int(lent), lease, int(lent))).rowcount == 1


def see_lease(tx: Transaction, lease: str, at: str) -> None:
    """Note when somebody last knew that its holder lives."""
    tx.constant(SEEN, (at, lease))


def remove_lease(tx: Transaction, lease: str) -> bool:
    """Give its place back; whether there was one."""
    return tx.constant(REMOVE, (lease,)).rowcount == 1


def remove_lease_of(tx: Transaction, lease: str, holder: Holder) -> bool:
    """Give its place back if this is still its holder; whether it was."""
    return tx.constant(REMOVE_OF, (lease, *holder.columns)).rowcount == 1


def _lease(values: dict[str, Any]) -> Lease:
    fields = ("host", "boot_id", "pid_namespace", "pid", "start_ticks")
    holder = Holder(*(values.pop(name) for name in fields))
    return Lease(**values | {"holder": holder, "lent": bool(values["lent"])})


@dataclass(frozen=True, slots=True)
class Demand:
    """What one process wants in a pool. `wanted`: agents it would start now; None: unknown.

    `width` is the most that the project may run at once, over all pools; 0: no limit.
    """

    pool: str
    project: str
    holder: Holder
    updated_at: str
    wanted: int | None = None
    weight: int = 1
    width: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """A demand, with how many leases its project has: in this pool, and in all."""

    demand: Demand
    active: int
    everywhere: int


_PUT_DEMAND = """
    INSERT INTO demand (pool, project, host, boot_id, pid_namespace, engine_pid, start_ticks,
        wanted, weight, width, updated_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (pool, project, host, boot_id, pid_namespace, engine_pid, start_ticks)
    DO UPDATE SET wanted = excluded.wanted, weight = excluded.weight, width = excluded.width,
        updated_at = excluded.updated_at
"""
_OF = """pool = ? AND project = ? AND host = ? AND boot_id = ? AND pid_namespace = ?
    AND engine_pid = ? AND start_ticks = ?"""
DROP = f"DELETE FROM demand WHERE {_OF}"  # noqa: S608
RENEW = f"UPDATE demand SET updated_at = ? WHERE {_OF}"  # noqa: S608
TAKE_ONE = f"UPDATE demand SET wanted = wanted - 1 WHERE {_OF} AND wanted > 0"  # noqa: S608
# Counted by project, so that what others hold costs nothing.
CLAIMS = """
    SELECT d.project, d.host, d.boot_id, d.pid_namespace, d.engine_pid, d.start_ticks,
        d.updated_at, d.wanted, d.weight, d.width,
        (SELECT count(*) FROM leases l
            WHERE l.project = d.project AND l.pool = d.pool AND l.lent = 0),
        (SELECT count(*) FROM leases l WHERE l.project = d.project AND l.lent = 0)
    FROM demand d WHERE d.pool = ? AND (d.wanted IS NULL OR d.wanted > 0)
"""


def put_demand(tx: Transaction, demand: Demand) -> None:
    """Store what a process wants, in place of what it wanted before."""
    how_much = (demand.wanted, demand.weight, demand.width, demand.updated_at)
    tx.constant(_PUT_DEMAND, (*_key(demand), *how_much))


def drop_demand(tx: Transaction, demand: Demand) -> bool:
    """Forget what a process wanted for a project; whether it wanted anything."""
    return tx.constant(DROP, _key(demand)).rowcount == 1


def renew_demand(tx: Transaction, demand: Demand, at: str) -> None:
    """Note when it was last said."""
    tx.constant(RENEW, (at, *_key(demand)))


def take_one(tx: Transaction, demand: Demand) -> None:
    """One of the wanted agents is being started. A wish for none counts no more."""
    tx.constant(TAKE_ONE, _key(demand))


def claims(tx: Transaction, pool: str) -> list[Claim]:
    """All demand in a pool that wants anything, with what each project has."""
    return [_claim(pool, *row) for row in tx.constant(CLAIMS, (pool,))]


def all_demand(tx: Transaction) -> list[Demand]:
    """All demand in all pools, in the order of pools and projects."""
    found = [_demand(row) for row in tx.execute(select(demand)).mappings()]
    return sorted(found, key=lambda demand: (demand.pool, demand.project, demand.holder.columns))


def _key(demand: Demand) -> tuple[str | int, ...]:
    return demand.pool, demand.project, *demand.holder.columns


def _claim(pool: str, project: str, *rest: Any) -> Claim:
    holder, (updated_at, wanted, weight, width) = Holder(*rest[:5]), rest[5:9]
    return Claim(Demand(pool, project, holder, updated_at, wanted, weight, width), *rest[9:])


def _demand(row: RowMapping) -> Demand:
    names = ("host", "boot_id", "pid_namespace", "engine_pid", "start_ticks")
    holder = Holder(*(row[name] for name in names))
    rest = {name: row[name] for name in ("updated_at", "wanted", "weight", "width")}
    return Demand(row["pool"], row["project"], holder, **rest)


_PUT_OVERLAY = """
    INSERT INTO pools (pool, overlay) VALUES (?, ?)
    ON CONFLICT (pool) DO UPDATE SET overlay = excluded.overlay
"""
_FIND_OVERLAY = "SELECT overlay FROM pools WHERE pool = ?"
_ALL_OVERLAYS = "SELECT pool, overlay FROM pools WHERE overlay <> ''"


def put_overlay(tx: Transaction, pool: str, overlay: str) -> None:
    """Store what is known of a pool, in place of what was known before."""
    tx.constant(_PUT_OVERLAY, (pool, overlay))


def find_overlay(tx: Transaction, pool: str) -> str:
    """What is known of a pool; empty: nothing."""
    return next((str(row[0]) for row in tx.constant(_FIND_OVERLAY, (pool,))), "")


def all_overlays(tx: Transaction) -> dict[str, str]:
    """The same of all pools of which something is known."""
    found: list[Any] = list(tx.constant(_ALL_OVERLAYS))
    return {row[0]: row[1] for row in found}


# The length of a turn of weight 1.
TURN = 1_000_000
# The row of the present: where the last turn began. No project has an empty name.
PRESENT = ""


def after_turn(ended: int, present: int, weight: int) -> tuple[int, int]:
    """Where a turn that begins now ends, and the present after it began.

    Who was idle begins at the present, and has no claim to the past. The present always moves,
    so that of two with the same claim the one who was served longer ago is next.
    """
    begins = max(ended, present + 1)
    return begins + TURN // max(weight, 1), begins


def take_turn(tx: Transaction, project: str, weight: int = 1) -> None:
    """This project has its turn now."""
    known = _rows(tx)
    ends, present = after_turn(known.get(project, 0), known.get(PRESENT, 0), weight)
    insert_or_update(tx, turns, {"project": project, "turn": ends})
    insert_or_update(tx, turns, {"project": PRESENT, "turn": present})


def last_turns(tx: Transaction) -> dict[str, int]:
    """Where the last turn of every project ended that had one; the lowest is next."""
    return {project: turn for project, turn in _rows(tx).items() if project != PRESENT}


def _rows(tx: Transaction) -> dict[str, int]:
    rows = tx.execute(select(turns)).mappings()
    return {row["project"]: row["turn"] for row in rows}


# Nothing that follows from a signal looks back farther.
SIGNAL_RETENTION = timedelta(days=2)


class Source(StrEnum):
    """Where a signal comes from: an agent that lives and tries again, or one that it ended."""

    LIVE = "live"
    DEATH = "death"


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal, with whose it is."""

    run: str
    pool: str
    task_id: str
    project: str
    source: Source
    reason: str
    status: int = 0
    retry_after_seconds: float = 0.0
    resets_at: str = ""
    times: int = 1
    at: str = ""


def add_signals(tx: Transaction, signals: Iterable[Signal]) -> None:
    """Keep signals of one run, in their order; what is old is forgotten."""
    found = list(signals)
    if not found:
        return
    newest = func.coalesce(func.max(limit_signals.c.number), 0)
    known = tx.execute(select(newest).where(limit_signals.c.run == found[0].run)).scalar_one()
    for number, one in enumerate(found, start=int(known) + 1):
        further = {"number": number, "at": one.at or tx.stamp(), "source": one.source.value}
        tx.execute(insert(limit_signals).values(**(asdict(one) | further)))
    tx.execute(
        delete(limit_signals).where(
            limit_signals.c.at < format_timestamp(tx.now() - SIGNAL_RETENTION)
        )
    )


def signals_of_pool(tx: Transaction, pool: str, since: str = "") -> list[Signal]:
    """What was heard in a pool since a moment, oldest first."""
    table = limit_signals.c
    chosen = select(limit_signals).where(table.pool == pool, table.at >= since)
    rows = tx.execute(chosen.order_by(table.at, table.run, table.number)).mappings()
    return [_signal(dict(row)) for row in rows]


def met_since(tx: Transaction, since: str, most: int) -> list[Signal]:
    """The newest that were heard in any pool since a moment, oldest first."""
    table = limit_signals.c
    chosen = select(limit_signals).where(table.at >= since)
    rows = tx.execute(chosen.order_by(table.at.desc(), table.run, table.number).limit(most))
    return [_signal(dict(row)) for row in reversed(rows.mappings().all())]


def _signal(row: dict[str, object]) -> Signal:
    row.pop("number")
    return Signal(**{**row, "source": Source(str(row["source"]))})  # type: ignore[arg-type]


SAMPLE_RETENTION = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class PoolSample:
    """A pool at a moment. `ceiling`: what its cap never exceeds; `breaker`: its state."""

    pool: str
    at: str
    ceiling: int
    cap: int
    active: int
    breaker: str
    parked: bool

    def as_json(self) -> dict[str, Any]:
        """For programs; the pool stands above it."""
        told = asdict(self)
        del told["pool"]
        return told


def add_samples(tx: Transaction, samples: Iterable[PoolSample]) -> None:
    """Keep samples; what is old is forgotten."""
    for one in samples:
        insert_or_update(tx, pool_samples, asdict(one) | {"parked": int(one.parked)})
    tx.execute(
        delete(pool_samples).where(
            pool_samples.c.at < format_timestamp(tx.now() - SAMPLE_RETENTION)
        )
    )


def samples_since(tx: Transaction, since: str) -> list[PoolSample]:
    """Samples of all pools since a moment, oldest first."""
    chosen = (
        select(pool_samples)
        .where(pool_samples.c.at >= since)
        .order_by(pool_samples.c.at, pool_samples.c.pool)
    )
    rows = tx.execute(chosen).mappings()
    return [PoolSample(**{**row, "parked": bool(row["parked"])}) for row in rows]
