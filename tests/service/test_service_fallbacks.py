"""New tasks go to a fallback where their agent's pool lets nobody start for a while."""

from __future__ import annotations

from datetime import timedelta

import pytest
from intake_yard import database
from why_stage import Stage

from hostler.clock import FakeClock
from hostler.config.settings import Agent
from hostler.governor.adaptive.model import BreakerState, LeaseSlot, PoolConfig, PoolState
from hostler.governor.adaptive.state import dump_state
from hostler.governor.policy import Policy
from hostler.service.scheduling.admission import Admission, AdmissionDeps
from hostler.store.governor import put_pool_state

CLOCK = FakeClock()
NOW = CLOCK.now()
OPEN = {"breaker_state": BreakerState.OPEN, "breaker_open_at": NOW}
HALF = {"breaker_state": BreakerState.HALF_OPEN}


def admitted(state: PoolState, policy: str, *, adaptive: bool = True) -> str | None:
    """Whose agent a new task gets, in a house with these two."""
    with database(CLOCK) as store:
        stage = Stage(store, CLOCK)
        main = Agent(kind="command", command=["x"], pool="main", fallback="spare")
        agents = {"main": main, "spare": main.model_copy(update={"pool": "other", "fallback": ""})}
        settings = stage.settings().model_copy(update={"agent": agents})
        stage.put(agent="main")
        with store.write("admission") as tx:
            put_pool_state(tx, "main", dump_state(state))
        told = Policy(
            memory_floor_mb=0, tuned={"main": PoolConfig(adaptive=adaptive, policy=policy)}
        )
        here = stage.here(1)
        ready = set(settings.repo)
        found = Admission(
            AdmissionDeps(store, settings, lambda: told, lambda: ready, lambda: here)
        ).admit_next()
        return found.run.agent if found else None


@pytest.mark.parametrize(
    ("state", "agent"),
    [
        (PoolState(**OPEN, breaker_break_seconds=300.0), "spare"),
        # It is over soon, and whoever goes elsewhere stays there.
        (PoolState(**OPEN, breaker_break_seconds=59.0), None),
        # Somebody has to try; and then the rest waits for the one that does.
        (PoolState(**HALF), "main"),
        (PoolState(**HALF, probe=LeaseSlot("barn", "t9"), probe_admitted_at=NOW), None),
        (PoolState(gate_until=NOW + timedelta(hours=1)), "spare"),
        (PoolState(gate_until=NOW + timedelta(seconds=5)), None),
        (PoolState(next_dispatch_at=NOW + timedelta(seconds=2)), None),
        (PoolState(), "main"),
    ],
)
def test_a_pool_that_is_held_back_for_long_is_closed_for_new_tasks(state, agent):
    assert admitted(state, "served") == agent


def test_what_was_learned_closes_nothing_where_nothing_is_learned():
    opened = PoolState(**OPEN, breaker_break_seconds=300.0)
    assert admitted(opened, "aimd") == "spare"
    assert admitted(opened, "aimd", adaptive=False) == "main"
