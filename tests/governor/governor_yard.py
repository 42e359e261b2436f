"""A yard with processes that live and die as a test says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hostler.governor.adaptive.controller import ProviderReport, apply_report
from hostler.governor.adaptive.model import (
    LeaseSlot,
    LimitReport,
    PoolConfig,
    PoolState,
    Reason,
    Source,
)
from hostler.governor.adaptive.state import load_state
from hostler.governor.gates import LeaseGranted, LeaseRequest
from hostler.governor.holders import HostView
from hostler.governor.leases import acquire
from hostler.governor.policy import Policy
from hostler.store import Store, Transaction
from hostler.store.governor import Holder, all_leases, find_pool_state
from hostler.store.runs import Run

PLENTY = 64_000


def process(pid: int, boot_id: str = "boot-1") -> Holder:
    return Holder("yard", boot_id, "pid:[1]", pid, pid * 100)


def learning(cap: int = 8, *pools: str, **config) -> Policy:
    """A policy under which pools learn. Unless it says otherwise, starts need no distance."""
    told = {"adaptive": True, "hard_max": 16, "min_dispatch_interval_seconds": 0.0} | config
    return Policy(
        default_cap=cap, tuned={pool: PoolConfig(**told) for pool in pools or ("anthropic",)}
    )


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
    unverified: set[Holder] = field(default_factory=set)
    free_mb: int | None = PLENTY
    roll: float = 0.5

    def alive(self, holder: Holder) -> bool | None:
        return None if holder in self.unverified else holder not in self.dead

    def host(self, holder: Holder | None = None) -> HostView:
        return HostView(holder or process(1), self.free_mb, self.alive, lambda: self.roll)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        with self.store.write("admission", relaxed=True) as tx:
            yield tx

    def request(self, name: str, project: str = "ant", *, holder: Holder | None = None, **more):
        with self.write() as tx:
            return acquire(tx, LeaseRequest(name, project, **more), self.policy, self.host(holder))

    def take(self, *names: str, **more) -> None:
        """Leases that must be granted."""
        for name in names:
            answer = self.request(name, **more)
            assert isinstance(answer, LeaseGranted), answer

    def hear(self, task: str, pool: str = "", **news) -> None:
        """What the agent of a task met."""
        with self.write() as tx:
            apply_report(tx, self.policy, pool, ProviderReport(LeaseSlot("ant", task), **news))

    def dies(self, task: str, pool: str = "", *, reason: Reason = Reason.BURST) -> None:
        """The agent of a task dies of a limit."""
        report = LimitReport(LeaseSlot("ant", task), Source.DEATH, reason)
        self.hear(task, pool, limits=(report,), ended=True)

    def state(self, pool: str = "anthropic") -> PoolState:
        with self.store.read() as tx:
            return load_state(find_pool_state(tx, pool))

    def leases(self) -> list[str]:
        with self.store.read() as tx:
            return [lease.lease for lease in all_leases(tx)]
