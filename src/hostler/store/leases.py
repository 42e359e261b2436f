"""Rows of leases: one per agent that runs or is about to, and the process that holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from hostler.store.lease_tables import leases
from hostler.store.parked import Parked
from hostler.store.transaction import Transaction


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
