"""Admission on a database: one transaction, and caps that hold while agents come and go."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager

import pytest
from service_town import ALICE

from hostler.clock import SystemClock
from hostler.governor.holders import read_host
from hostler.governor.policy import read_policy
from hostler.service.context import open_context
from hostler.service.scheduling import admission as module
from hostler.service.scheduling.admission import Admission, AdmissionDeps
from hostler.store.governor import all_leases
from hostler.store.operator import ALL, pause, project_scope, unpause
from hostler.store.runs import live_runs, open_runs
from hostler.store.tasks import TaskState, tasks_in

HANG = "version = 1\nsteps = [{ say = 'here' }, { hang = 600 }]\n"


def live(service):
    with service.app.store.read() as tx:
        return live_runs(tx)


def deps(town, store):
    policy = read_policy(town.home, town.settings())
    return AdmissionDeps(store, town.settings(), lambda: policy, lambda: {"stable"}, read_host)


def filed(town, count, *labels):
    alice = town.person(ALICE)
    return [alice.file(f"Job {n}", *(labels or ("agent:small-job",))) for n in range(count)]


@pytest.mark.parametrize(
    ("settings", "cap"),
    [
        ({"runtime": {"worker_count": 2}, "repo": {"max_concurrent_slots": 9}}, 2),
        ({"repo": {"max_concurrent_slots": 1}}, 1),
        # On a database, the machine of test_service_machine.py changes these in every run.
        pytest.param({"tasks": {"max_concurrent_runs": 1}}, 1, marks=pytest.mark.soak),
        pytest.param({"tasks": {"max_concurrent_root_tasks": 2}}, 2, marks=pytest.mark.soak),
        pytest.param({"runtime": {"max_global_agents": 2}}, 2, marks=pytest.mark.soak),
    ],
    ids=["workers", "slots", "runs", "root tasks", "pool"],
)
def test_no_cap_is_exceeded_and_a_freed_place_is_used(found_town, settings, cap):
    town = found_town(play=HANG, **settings)
    numbers = filed(town, cap + 2)
    most = []
    with town.service(observe=lambda step, _: most.append(step)) as service:
        service.poll()
        service.until(lambda: len([r for r in live(service) if r.state == "running"]) == cap)
        assert len(live(service)) == cap
        waiting = [t for t in service.all_tasks() if t.state is TaskState.QUEUED]
        assert len(waiting) == 2
        # In order: the oldest issues have begun.
        assert {t.number for t in waiting} == set(numbers[-2:])
        town.person(ALICE)("PATCH", f"/issues/{numbers[0]}", state="closed")
        service.poll()
        service.task(numbers[-2], TaskState.RUNNING)
        # A place is free when its agent is gone, maybe before that is stored.
        at_work = [r for r in live(service) if not (town.home / r.folder / "exit.json").exists()]
        assert len(at_work) <= cap


def test_a_pause_holds_what_is_new_and_lets_go_again(town):
    with town.service() as service:
        service.until(lambda: "service_repo_polled" in service.lines.getvalue())
        for scope in (ALL, project_scope("stable")):
            with service.app.store.write() as tx:
                pause(tx, scope, "ann", "lunch")
            (number,) = filed(town, 1)
            service.poll()
            assert service.task(number).state is TaskState.QUEUED
            with service.app.store.write() as tx:
                unpause(tx, scope)
            service.task(number, TaskState.AWAITING_FEEDBACK)


@contextmanager
def queued_tasks(town, count):
    """Queue tasks with a service that may start none, and open the store after it has left."""
    filed(town, count)
    with (
        open_context(town.home, town.settings(), SystemClock()) as app,
        app.store.write() as tx,
    ):
        pause(tx, ALL, "ann", "")
    with town.service() as service:
        service.until(lambda: len(service.all_tasks()) == count)
        service.rested()
    with open_context(town.home, town.settings(), SystemClock()) as app:
        with app.store.write() as tx:
            unpause(tx, ALL)
        yield app.store


def test_two_admissions_at_once_give_one_run_per_task(town):
    with queued_tasks(town, 6) as store:
        granted: list[str] = []

        def rival() -> None:
            admission = Admission(deps(town, store))
            while (one := admission.admit_next()) is not None:
                granted.append(one.task.id)

        rivals = [threading.Thread(target=rival) for _ in range(4)]
        for one in rivals:
            one.start()
        for one in rivals:
            one.join()
        with store.read() as tx:
            runs = open_runs(tx)
        assert Counter(granted) == Counter(run.task_id for run in runs)
        # Three: the repository's slots.
        assert len(runs) == 3
        assert set(Counter(granted).values()) == {1}


def test_a_task_and_its_run_begin_together_or_not_at_all(town, monkeypatch):
    def broken(*_: object) -> object:
        raise RuntimeError("power cut")

    with queued_tasks(town, 1) as store:
        with store.read() as tx:
            before = tasks_in(tx, tuple(TaskState))
        monkeypatch.setattr(module, "admit_run", broken)
        admission = Admission(deps(town, store))
        with pytest.raises(RuntimeError):
            admission.admit_next()
        with store.read() as tx:
            assert tasks_in(tx, tuple(TaskState)) == before
            assert [task.state for task in before] == [TaskState.QUEUED]
            assert open_runs(tx) == []
            assert all_leases(tx) == []
