"""A turn in which nobody committed anything looks at no rows."""

from __future__ import annotations

from scheduler_fleet import PATIENCE, Fleet, MakeFleet

from hostler.store.governor import samples_since
from hostler.store.tasks import TaskState
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics


def reads() -> float:
    return metrics.value(names.STORE_TRANSACTIONS, kind="read", end="commit")


def recorded(town: Fleet) -> None:
    """Until the first record is made: it is, once a minute, beside the turns."""
    while True:
        mark = town.store.change_mark()
        with town.store.read() as tx:
            if samples_since(tx, ""):
                return
        assert town.store.wait_for_change(mark, PATIENCE) != mark


def test_a_quiet_turn_reads_nothing_whatever_is_stored(fleet: MakeFleet):
    town = fleet("barn", "stable", poll_interval_seconds=10)
    service = town.service()
    busy = town.put("barn")
    town.turn(service, 3)
    town.started(1)
    recorded(town)
    service.poll_all_soon()
    town.turn(service)
    before = reads()
    for _ in range(3):
        town.clock.advance(0.1)
        service.poll_all_soon()
        town.turn(service)
    assert reads() == before > 0 and len(town.looks) == 10
    assert town.state(busy) is TaskState.RUNNING


def test_a_commit_of_anybody_is_news(fleet: MakeFleet):
    town = fleet("barn")
    service = town.service()
    town.turn(service, 2)
    task = town.put("barn")
    town.turn(service)
    town.started(1)
    assert town.state(task) is TaskState.RUNNING


def test_a_place_that_is_free_again_is_news(fleet: MakeFleet):
    town = fleet("barn", worker_count=1)
    service = town.service()
    first, second = town.put("barn"), town.put("barn")
    town.turn(service, 2)
    town.started(1)
    town.let_go(service, first)
    # Its commit was seen already, and its end was not.
    service._rows.has_changed()
    town.turn(service)
    town.started(1)
    assert town.state(second) is TaskState.RUNNING
