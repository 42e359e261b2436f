"""Work that was sent back by a limit: it waits out its time, and then every gate as all other."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta

import pytest
from intake_yard import database
from why_stage import Stage

from hostler.clock import FakeClock
from hostler.governor.adaptive.controller import reset
from hostler.governor.adaptive.model import BreakerState, PoolConfig, PoolState
from hostler.governor.adaptive.state import dump_state
from hostler.governor.parking import park, resume
from hostler.governor.policy import Policy
from hostler.model import format_timestamp
from hostler.service.scheduling.admission import ADMISSION_SCOPES
from hostler.store.governor import all_leases, put_pool_state
from hostler.store.operator import ALL, pause, unpause
from hostler.store.tasks import TaskState


class Learning(Stage):
    """A home whose pool learns."""

    def policy(self) -> Policy:
        config = PoolConfig(adaptive=True, hard_max=9, min_dispatch_interval_seconds=0.0)
        return Policy({"p": self.caps["pool"]}, {"p": config}, memory_floor_mb=0)


@pytest.fixture
def stage():
    clock = FakeClock()
    with database(clock) as store:
        yield Learning(store, clock)


def sent_back(stage: Stage, seconds: float):
    """A task whose agent died of a limit, and that may try again after so long."""
    at = format_timestamp(stage.clock.now() + timedelta(seconds=seconds))
    return stage.put(state=TaskState.PARKED, wake_at=at, requeues=1)


@contextmanager
def full(stage, **caps):
    """Another agent has the one place that there is."""
    wide, stage.caps = stage.caps, {**stage.caps, **caps}
    stage.start(stage.put())
    yield
    stage.caps = wide


@contextmanager
def breaker(stage):
    known = PoolState(
        breaker_state=BreakerState.OPEN,
        breaker_open_at=stage.clock.now(),
        breaker_break_seconds=300.0,
    )
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        put_pool_state(tx, "p", dump_state(known))
    yield
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        reset(tx, "p")


@contextmanager
def parked(stage):
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        park(tx, "p", stage.clock.now() + timedelta(hours=1), "used up")
    yield
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        resume(tx, "p")


@contextmanager
def paused(stage):
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        pause(tx, ALL, "ann", "")
    yield
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        unpause(tx, ALL)


CLOSED = {
    "cap": lambda stage: full(stage, pool=1),
    "width": lambda stage: full(stage, width=1),
    "runs": lambda stage: full(stage, runs=1),
    "root_tasks": lambda stage: full(stage, roots=1),
    "breaker": breaker,
    "parked": parked,
    "paused": paused,
}


@pytest.mark.parametrize("gate", CLOSED)
def test_requeued_work_passes_admission_like_all_other(stage, gate):
    with CLOSED[gate](stage):
        again, new = sent_back(stage, 0), stage.put()
        assert [stage.why(task.id).denial.gate for task in (again, new)] == [gate, gate]
        assert stage.next() is None
    granted = stage.next()
    assert granted.task.id == again.id
    with stage.store.read() as tx:
        assert granted.run.run in {lease.lease for lease in all_leases(tx)}


def test_requeued_work_is_admitted_when_its_time_has_come_and_not_before(stage):
    again = sent_back(stage, 60)
    stage.clock.advance(59)
    assert stage.next() is None
    stage.clock.advance(1)
    assert stage.next().task.id == again.id
