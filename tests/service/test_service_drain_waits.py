"""A drain, and agents that have lent their place: what they wait for begins all the same."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from scheduler_fleet import SCOPES, Fleet, MakeFleet

from hostler.governor.holders import read_host
from hostler.governor.leases import release_temporarily as lend_lease
from hostler.service.runner import ServiceRunner
from hostler.service.scheduling.task_waits import WAITS_FOR, find_awaited
from hostler.service.wiring import ServiceMode
from hostler.store.runs import RunState, change_run, live_runs, release_run_slot
from hostler.store.tasks import Task, TaskState
from hostler.workflows.manual_tasks import TaskSubmission, submit_task


def put(town: Fleet, parent: Task | None = None, **order: Any) -> Task:
    name = parent.id if parent else None
    with town.store.write(*SCOPES) as tx:
        return submit_task(
            tx, TaskSubmission("barn", "job", "ann", str(town.home), parent_task=name, **order)
        )


def waits(town: Fleet, task: Task, *names: str) -> None:
    """The agent of a task waits for others, with its place lent."""
    with town.store.write(*SCOPES) as tx:
        (run,) = (one for one in live_runs(tx) if one.task_id == task.id)
        running = {"state": RunState.RUNNING.value}
        assert change_run(tx, run.run, fence=run.fence, states=list(RunState), values=running)
        by = {**asdict(read_host().holder), WAITS_FOR: [*names]}
        assert release_run_slot(tx, run.run, json.dumps(by))
        lend_lease(tx, run.run)


def spared(town: Fleet, *tasks: Task) -> set[str]:
    with town.store.read() as tx:
        return {*find_awaited(tx, live_runs(tx), tasks)}


def at_work(town: Fleet, service: ServiceRunner) -> Task:
    parent = put(town)
    town.turn(service)
    town.started(1)
    return parent


@pytest.fixture
def town(fleet: MakeFleet) -> Fleet:
    return fleet("barn", worker_count=4)


def test_a_restart_waits_for_a_parent_and_lets_its_children_begin(town):
    service = town.service()
    parent = at_work(town, service)
    child, stranger = put(town, parent), put(town)
    town.ask_restart()
    waits(town, parent, child.id)
    town.turn(service)
    town.started(1)
    assert (town.state(child), town.state(stranger)) == (TaskState.RUNNING, TaskState.QUEUED)
    assert town.gate(stranger) == "drain" and not service.restarting
    town.let_go(service, child)
    town.let_go(service, parent)
    town.turn(service, 2)
    assert service.restarting and town.state(stranger) is TaskState.QUEUED


def test_one_look_ends_though_a_parent_waits(town):
    service = town.service(ServiceMode(once=True))
    parent = at_work(town, service)
    town.turn(service, 2)
    child = put(town, parent)
    waits(town, parent, child.id)
    town.turn(service)
    town.started(1)
    town.let_go(service, child)
    town.let_go(service, parent)
    town.turn(service, 2)
    assert service._leaving.is_set()


def test_who_is_waited_for(town):
    service = town.service()
    parent = at_work(town, service)
    child, other = put(town, parent), put(town)
    needed = put(town)
    named = put(town, depends_on=(needed.id,))
    grandchild = put(town, child)
    everybody = (child, other, needed, named, grandchild)
    assert spared(town, *everybody) == set()
    waits(town, parent, named.id)
    # What it names, what that depends on, and all that came from it.
    assert spared(town, *everybody) == {one.id for one in (child, grandchild, named, needed)}


def test_who_waits_for_the_first_of_several_waits_for_its_own(town):
    service = town.service()
    parent = at_work(town, service)
    child, other = put(town, parent), put(town)
    waits(town, parent)
    assert spared(town, child, other) == {child.id}
