"""A yard with processes that live and die as a test says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hostler.governor import Ask, Granted, Here, Policy, acquire
from hostler.store import Store, Transaction
from hostler.store.leases import Holder, all_leases
from hostler.store.runs import Run

PLENTY = 64_000


def process(pid: int, boot_id: str = "boot-1") -> Holder:
    return Holder("yard", boot_id, "pid:[1]", pid, pid * 100)


def a_run(name: str, project: str = "ant", pool: str = "", shim: Holder | None = None) -> Run:
    known = None
    if shim is not None:
        fields = ("host", "boot_id", "pid_namespace", "pid", "start_ticks")
        known = json.dumps(dict(zip(fields, shim.columns, strict=True)))
    return Run(
        run=name,
        task_id=f"task of {name}",
        project=project,
        fence=1,
        attempt=1,
        kind="work",
        agent="helper",
        agent_kind="command",
        pool=pool,
        folder="f",
        admitted_at="2026-03-01T10:00:00.000Z",
        shim=known,
    )


@dataclass
class Yard:
    """A store, what the operator allows, and who is dead or out of sight."""

    store: Store
    policy: Policy = field(default_factory=lambda: Policy(default_cap=2))
    dead: set[Holder] = field(default_factory=set)
    unseen: set[Holder] = field(default_factory=set)
    free_mb: int | None = PLENTY

    def alive(self, holder: Holder) -> bool | None:
        return None if holder in self.unseen else holder not in self.dead

    def here(self, holder: Holder | None = None) -> Here:
        return Here(holder or process(1), self.free_mb, self.alive)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        with self.store.write("admission", relaxed=True) as tx:
            yield tx

    def ask(self, name: str, project: str = "ant", *, holder: Holder | None = None, **more):
        with self.write() as tx:
            return acquire(tx, Ask(name, project, **more), self.policy, self.here(holder))

    def take(self, *names: str, **more) -> None:
        """Leases that must be granted."""
        for name in names:
            answer = self.ask(name, **more)
            assert isinstance(answer, Granted), answer

    def leases(self) -> list[str]:
        with self.store.read() as tx:
            return [lease.lease for lease in all_leases(tx)]
