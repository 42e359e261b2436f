"""Rows of the governor: leases, demand, pools, turns, provider signals and samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Row, RowMapping, delete, func, insert, select

from hostler.model import format_timestamp
from hostler.store.schema import demand, leases, limit_signals, pool_samples, scheduling_turns
from hostler.store.transaction import Transaction, insert_or_update


@dataclass(frozen=True, slots=True)
class Parked:
    """A stored parking. Times are text, as stored.

    `run` is the only run that reported it; empty if there are others.
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
    """Store until when a pool is parked, replacing an earlier parking."""
    tx.constant(PARK, (parked.pool, parked.at, parked.until, parked.why, parked.run))


def unpark_pool(tx: Transaction, pool: str) -> bool:
    """Remove a pool's parking. Return False if it had none."""
    return tx.constant(UNPARK, (pool,)).rowcount == 1


def parked_pool(tx: Transaction, pool: str) -> Parked | None:
    """Return the stored parking of a pool, or None. It may have ended."""
    return next((_parked(row) for row in tx.constant(_FIND_PARKED, (pool,))), None)


def parked_pools(tx: Transaction) -> list[Parked]:
    """Return the stored parkings of all pools."""
    return sorted(
        (_parked(row) for row in tx.constant(_ALL_PARKED)), key=lambda parked: parked.pool
    )


def _parked(row: Row[Any]) -> Parked:
    pool, at, until, why, run = tuple(row)
    return Parked(pool, at or "", until, why, run)


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds something. Without host or pid, its liveness is unknown."""

    host: str = ""
    boot_id: str = ""
    pid_namespace: str = ""
    pid: int = 0
    start_ticks: int = 0

    @property
    def columns(self) -> tuple[str, str, str, int, int]:
        """Return its values in the order of every statement here."""
        return self.host, self.boot_id, self.pid_namespace, self.pid, self.start_ticks


@dataclass(frozen=True, slots=True)
class Lease:
    """One lease. A run's has the run's name and task; a wrapped program's has no task."""

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
    released: bool = False


@dataclass(frozen=True, slots=True)
class LeaseCounts:
    """How many leases count for one pool and project; `on_machine` only if asked for.

    `demand_count` is the number of processes with demand in the pool, `parked` its stored parking,
    `state` the stored state of its adaptive policy.
    """

    in_pool: int
    own_in_pool: int
    own: int
    on_machine: int
    demand_count: int = 0
    parked: Parked | None = None
    state: str = ""


# Constant statements: every start and end of an agent runs them, often many at once.
ADD = """
    INSERT INTO leases (lease, pool, project, task_id, program, model, engine_pid,
        host, boot_id, pid_namespace, pid, start_ticks, released, acquired_at, seen_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)
"""
REMOVE = "DELETE FROM leases WHERE lease = ?"
# Only if the lease still has the holder that was checked.
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
RELEASE = "UPDATE leases SET released = ? WHERE lease = ? AND released <> ?"
# Everything that most starts need, in one statement, answered from indexes.
_SELECT = """
    SELECT (SELECT count(*) FROM leases WHERE pool = ? AND released = 0),
        (SELECT count(*) FROM leases WHERE project = ? AND pool = ? AND released = 0),
        (SELECT count(*) FROM leases WHERE project = ? AND released = 0),
        (SELECT count(*) FROM demand WHERE pool = ? AND (wanted IS NULL OR wanted > 0)),
        p.parked_at, p.parked_until, p.parked_why, p.adaptive_state
"""
_FROM = "FROM (SELECT 1 AS one) o LEFT JOIN pools p ON p.pool = ?"
# Containers of one machine share a boot id. An unknown one counts.
_ON_MACHINE = "(SELECT count(*) FROM leases WHERE boot_id IN (?, '') AND released = 0)"
STAND = f"{_SELECT}, 0 {_FROM}"
STAND_ON_MACHINE = f"{_SELECT}, {_ON_MACHINE} {_FROM}"


def add_lease(tx: Transaction, lease: Lease) -> None:
    """Store a new lease."""
    who = (lease.lease, lease.pool, lease.project, lease.task_id, lease.program, lease.model)
    when = (lease.acquired_at, lease.seen_at)
    tx.constant(ADD, (*who, lease.engine_pid, *lease.holder.columns, *when))


def find_lease(tx: Transaction, lease: str) -> Lease | None:
    """Return a lease by its name, or None."""
    row = tx.execute(select(leases).where(leases.c.lease == lease)).mappings().one_or_none()
    return None if row is None else _lease(dict(row))


def all_leases(tx: Transaction) -> list[Lease]:
    """Return every lease, oldest first."""
    found = [_lease(dict(row)) for row in tx.execute(select(leases)).mappings()]
    return sorted(found, key=lambda lease: (lease.acquired_at, lease.lease))


def count_leases(tx: Transaction, pool: str, project: str, boot_id: str | None) -> LeaseCounts:
    """Count leases, without temporarily released ones. `boot_id` None: skip the machine."""
    asked: tuple[str, ...] = (pool, project, pool, project, pool)
    if boot_id is None:
        row = tx.constant(STAND, (*asked, pool)).one()
    else:
        row = tx.constant(STAND_ON_MACHINE, (*asked, boot_id, pool)).one()
    in_pool, own_in_pool, own, demand_count, at, until, why, state, on_machine = tuple(row)
    parked = None if until is None else Parked(pool, at or "", until, why)
    return LeaseCounts(in_pool, own_in_pool, own, on_machine, demand_count, parked, state or "")


def lease_owners(tx: Transaction, pool: str) -> list[tuple[str, str, str]]:
    """Return project, task and name of every lease of a pool, released ones included."""
    found: list[Any] = list(tx.constant(WHOSE, (pool,)))
    return [(row[0], row[1], row[2]) for row in found]


def set_lease_holder(tx: Transaction, lease: str, holder: Holder, at: str) -> bool:
    """Make another process the holder. Return False if there is no such lease."""
    return tx.constant(GIVE, (*holder.columns, at, at, lease)).rowcount == 1


def set_lease_released(tx: Transaction, lease: str, *, released: bool) -> bool:
    """Stop or resume counting a lease. Return False if nothing changed."""
    return tx.constant(RELEASE, (int(released), lease, int(released))).rowcount == 1


def touch_lease(tx: Transaction, lease: str, at: str) -> None:
    """Store when the holder was last known to be alive."""
    tx.constant(SEEN, (at, lease))


def remove_lease(tx: Transaction, lease: str) -> bool:
    """Delete a lease. Return False if there was none."""
    return tx.constant(REMOVE, (lease,)).rowcount == 1


def remove_lease_held_by(tx: Transaction, lease: str, holder: Holder) -> bool:
    """Delete a lease if this is still its holder. Return False otherwise."""
    return tx.constant(REMOVE_OF, (lease, *holder.columns)).rowcount == 1


def _lease(values: dict[str, Any]) -> Lease:
    fields = ("host", "boot_id", "pid_namespace", "pid", "start_ticks")
    holder = Holder(*(values.pop(name) for name in fields))
    return Lease(**values | {"holder": holder, "released": bool(values["released"])})


@dataclass(frozen=True, slots=True)
class Demand:
    """What one process wants in a pool: how many agents it would start now (None: unknown).

    `width` is how many agents the project may run at once in all pools; 0 means no limit.
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
    """A demand, and how many leases its project has: in this pool, and in all."""

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
# Counted by project, so that other projects' leases are not read.
CLAIMS = """
    SELECT d.project, d.host, d.boot_id, d.pid_namespace, d.engine_pid, d.start_ticks,
        d.updated_at, d.wanted, d.weight, d.width,
        (SELECT count(*) FROM leases l
            WHERE l.project = d.project AND l.pool = d.pool AND l.released = 0),
        (SELECT count(*) FROM leases l WHERE l.project = d.project AND l.released = 0)
    FROM demand d WHERE d.pool = ? AND (d.wanted IS NULL OR d.wanted > 0)
"""


def put_demand(tx: Transaction, demand: Demand) -> None:
    """Store the demand of a process, replacing its earlier one."""
    how_much = (demand.wanted, demand.weight, demand.width, demand.updated_at)
    tx.constant(_PUT_DEMAND, (*_key(demand), *how_much))


def drop_demand(tx: Transaction, demand: Demand) -> bool:
    """Delete a demand. Return False if there was none."""
    return tx.constant(DROP, _key(demand)).rowcount == 1


def renew_demand(tx: Transaction, demand: Demand, at: str) -> None:
    """Store when a demand was last published."""
    tx.constant(RENEW, (at, *_key(demand)))


def reduce_demand(tx: Transaction, demand: Demand) -> None:
    """Reduce a demand by one, because an agent is being started."""
    tx.constant(TAKE_ONE, _key(demand))


def claims(tx: Transaction, pool: str) -> list[Claim]:
    """Return all demand in a pool that is not zero, with the leases of each project."""
    return [_claim(pool, *row) for row in tx.constant(CLAIMS, (pool,))]


def all_demand(tx: Transaction) -> list[Demand]:
    """Return all demand, ordered by pool and project."""
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


_PUT_POOL_STATE = """
    INSERT INTO pools (pool, adaptive_state) VALUES (?, ?)
    ON CONFLICT (pool) DO UPDATE SET adaptive_state = excluded.adaptive_state
"""
_FIND_POOL_STATE = "SELECT adaptive_state FROM pools WHERE pool = ?"
_ALL_POOL_STATES = "SELECT pool, adaptive_state FROM pools WHERE adaptive_state <> ''"


def put_pool_state(tx: Transaction, pool: str, state: str) -> None:
    """Store the state of a pool's adaptive policy."""
    tx.constant(_PUT_POOL_STATE, (pool, state))


def find_pool_state(tx: Transaction, pool: str) -> str:
    """Return the stored state of a pool's adaptive policy; empty if there is none."""
    return next((str(row[0]) for row in tx.constant(_FIND_POOL_STATE, (pool,))), "")


def all_pool_states(tx: Transaction) -> dict[str, str]:
    """Return the stored states of all pools that have one."""
    found: list[Any] = list(tx.constant(_ALL_POOL_STATES))
    return {row[0]: row[1] for row in found}


# The length of a turn of weight 1.
TURN = 1_000_000
# The row of the present: where the last turn began. No project has an empty name.
PRESENT = ""


def after_turn(ended: int, present: int, weight: int) -> tuple[int, int]:
    """Return where a turn that begins now ends, and the new present.

    A project that was idle begins at the present: it has no claim to the past. The present always
    moves, so that of two equal projects the one served longer ago is next.
    """
    begins = max(ended, present + 1)
    return begins + TURN // max(weight, 1), begins


def take_turn(tx: Transaction, project: str, weight: int = 1) -> None:
    """Give this project its turn now."""
    known = _rows(tx)
    ends, present = after_turn(known.get(project, 0), known.get(PRESENT, 0), weight)
    insert_or_update(tx, scheduling_turns, {"project": project, "turn": ends})
    insert_or_update(tx, scheduling_turns, {"project": PRESENT, "turn": present})


def last_turns(tx: Transaction) -> dict[str, int]:
    """Return where each project's last turn ended; the lowest is next."""
    return {project: turn for project, turn in _rows(tx).items() if project != PRESENT}


def _rows(tx: Transaction) -> dict[str, int]:
    rows = tx.execute(select(scheduling_turns)).mappings()
    return {row["project"]: row["turn"] for row in rows}


# No rule reads signals older than this.
SIGNAL_RETENTION = timedelta(days=2)


class Source(StrEnum):
    """Where a signal comes from: an agent that lives and tries again, or one that it ended."""

    LIVE = "live"
    DEATH = "death"


@dataclass(frozen=True, slots=True)
class Signal:
    """One provider signal, and the run, task, project and pool that it belongs to."""

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
    """Store signals of one run in their order, and delete old ones."""
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
    """Return the signals of a pool since a time, oldest first."""
    table = limit_signals.c
    chosen = select(limit_signals).where(table.pool == pool, table.at >= since)
    rows = tx.execute(chosen.order_by(table.at, table.run, table.number)).mappings()
    return [_signal(dict(row)) for row in rows]


def met_since(tx: Transaction, since: str, most: int) -> list[Signal]:
    """Return the newest signals of any pool since a time, oldest first."""
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
