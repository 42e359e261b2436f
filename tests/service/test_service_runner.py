"""The runner itself: questions that fail, tasks that nobody works on, what waits for a run slot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO

import pytest
from service_town import REPO, Service, Town
from test_service_tasks import SAY_DONE, agent, order, outcomes, put, reach

from hostler.clock import SystemClock
from hostler.errors import StoreBusy
from hostler.governor.gates import LeaseRequest
from hostler.governor.holders import read_host
from hostler.governor.leases import acquire
from hostler.governor.policy import read_policy
from hostler.service.context import open_context
from hostler.service.runner import ServiceRunner
from hostler.service.scheduling.admission import RECHECK_SECONDS, QueuedRuns
from hostler.service.scheduling.workers import WorkerJob
from hostler.service.service_log import ServiceLog
from hostler.service.wiring import ServiceMode
from hostler.store.governor import find_lease, remove_lease
from hostler.store.tasks import TaskState, change_task, require_task
from hostler.telemetry.logs import LogDestinations
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import QUEUED_RUNS
from hostler.workflows.manual_tasks import submit_task

SCOPES = ("admission", "tasks", "outbox")
# Works until its folder has a file `go`.
WAITS = "while not pathlib.Path('go').exists():\n    time.sleep(0.05)\n" + SAY_DONE


def logged(service: Service, event: str) -> list[dict[str, object]]:
    """Lines of the log with this event."""
    folder = service.app.home / "logs"
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    return [found for line in lines if (found := json.loads(line))["event"] == event]


def test_a_question_after_a_turn_that_fails_does_not_end_the_service(town):
    agent(town, SAY_DONE)
    asked = []

    def until() -> bool:
        asked.append(1)
        raise RuntimeError("the one who asks is broken")

    with town.service() as service:
        # The block's own service has no such question: ask this one between its turns.
        assert service.runner._asked(until) is False
        assert service.runner._asked(lambda: True) is True
        reach(service, put(service, order(town)), TaskState.DONE)
    assert asked and any("the one who asks is broken" in line for line in service.told)


def test_a_running_task_that_nobody_works_on_goes_back_to_its_place(town: Town):
    """Its run never came, or its worker gave up: no restart of the service is needed."""
    agent(town, SAY_DONE)
    with town.service() as service:
        # By then it has looked for what an earlier one left: this task is none of that.
        service.until(lambda: logged(service, "service_started"))
        with service.app.store.write(*SCOPES) as tx:
            task = submit_running(tx, order(town))
        done = reach(service, task, TaskState.DONE)
        assert outcomes(service, done) == ["success"] and done.attempt == 1
        lost = service.until(lambda: logged(service, "task_found_lost"))
        assert [line["task"] for line in lost] == [task.id]


def submit_running(tx, wanted):
    """A task that is said to run, in the transaction that makes it: nobody ever starts it."""
    task = submit_task(tx, wanted)
    return change_task(tx, task, replace(task, state=TaskState.RUNNING, attempt=1))


def test_a_task_with_a_worker_is_never_called_lost(town: Town):
    town.tasks = {"max_concurrent_runs": 1}
    agent(town, WAITS)
    with town.service() as service:
        first = put(service, order(town))
        service.until(lambda: service.runs(first))
        with service.app.store.write(*SCOPES) as tx:
            old = require_task(tx, first.id)
        assert (
            service.runner._parts.run_monitor.find_lost_tasks() == []
            and old.state is TaskState.RUNNING
        )
        (town.root / "folder" / "go").touch()
        reach(service, first, TaskState.DONE)
        assert logged(service, "task_found_lost") == []


def test_queued_runs_counts_who_waits_for_a_slot(town: Town):
    town.tasks = {"max_concurrent_runs": 1}
    agent(town, WAITS)
    changes: list[int] = []
    with town.service() as service:
        service.runner.queued.set_waiting_run_hook(changes.append)
        tasks = [put(service, order(town, f"job {number}")) for number in range(3)]
        service.until(lambda: metrics.value(QUEUED_RUNS) == 2)
        assert sum(changes) == 2
        (town.root / "folder" / "go").touch()
        for task in tasks:
            reach(service, task, TaskState.DONE)
        service.until(lambda: metrics.value(QUEUED_RUNS) == 0)
        assert sum(changes) == 0


def test_the_hook_hears_changes_and_a_service_that_leaves_waits_for_nothing():
    queued, changes = QueuedRuns(), []
    queued.set_waiting_run_hook(changes.append)
    for waiting in (1, 2, 1, 0, 1):
        queued.count(waiting)
    queued.clear()
    assert changes == [1, 1, -1, -1, 1, -1] and metrics.value(QUEUED_RUNS) == 0
    queued.set_waiting_run_hook(None)
    queued.count(1)
    assert len(changes) == 6 and metrics.value(QUEUED_RUNS) == 1
    queued.clear()


def test_a_project_wider_than_its_share_is_told_of_once(town: Town):
    town.repo = {"max_concurrent_slots": 5}
    (town.home / "governor.json").write_text('{"pools": {"anthropic": {"max_global_agents": 2}}}')
    agent(town, SAY_DONE)
    with town.service() as service:
        for number in range(3):
            task = put(service, replace(order(town, f"job {number}"), project="stable"))
            reach(service, task, TaskState.DONE)
        (found,) = service.until(lambda: logged(service, "project_too_wide"))
    assert found["project"] == "stable" and "width 5" in str(found["why"])


@pytest.fixture
def idle(town: Town) -> Iterator[ServiceRunner]:
    """A runner whose turns are the test's to make."""
    clock = SystemClock()
    logging = LogDestinations(clock, town.home / "logs", terminal=StringIO())
    with open_context(town.home, town.settings(), clock) as app:
        yield ServiceRunner(app, clock, ServiceLog(logging.log), ServiceMode(polls=False))
    logging.close()


def test_a_turn_that_fails_pauses_longer_each_time_and_begins_anew_after_a_good_one(
    idle: ServiceRunner, monkeypatch: pytest.MonkeyPatch
):
    def broken() -> None:
        raise RuntimeError("a full disk")

    with monkeypatch.context() as patch:
        patch.setattr(idle._parts.run_monitor, "check_runs", broken)
        assert [idle._turn() for _ in range(8)] == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    idle._turn()
    idle._rows.forget()
    with monkeypatch.context() as patch:
        patch.setattr(idle._parts.run_monitor, "check_runs", broken)
        assert idle._turn() == 2.0


def test_a_worker_that_is_free_causes_a_pass_though_nothing_was_stored(idle: ServiceRunner):
    idle._turn()
    idle._turn()
    assert not idle._parts.task_dispatcher.is_stale
    # After a pass that found all workers busy, and before anybody commits anything.
    idle._static_parts.limiter.force()
    idle._static_parts.workers.start(WorkerJob("r1", "stable", lambda: None, lambda: None))
    # Its callbacks are over when the pool is.
    idle._static_parts.pool.shutdown()
    assert idle._parts.task_dispatcher.is_stale
    idle._static_parts.workers.reap()
    idle._turn()
    assert not idle._parts.task_dispatcher.is_stale


def test_what_is_tried_again_wakes_the_service(idle: ServiceRunner):
    """A worker that could not go on is due soon, and nothing else would wake the service."""
    idle._turn()
    assert idle._shortest(0.25) == 0.25 < (idle._shortest(None) or 0.0)


def test_a_live_agent_whose_lease_was_lost_has_it_again(idle: ServiceRunner, town: Town):
    agent(town, WAITS)
    with town.service() as service:
        task = put(service, order(town))
        (run,) = service.until(lambda: [r for r in service.runs(task) if r.state == "running"])
        with service.app.store.write("admission") as tx:
            assert remove_lease(tx, run.run)
        service.runner._parts.run_monitor.restore_lease(run)
        with service.app.store.read() as tx:
            found = find_lease(tx, run.run)
        assert found is not None and found.attached_at
        (town.root / "folder" / "go").touch()
        reach(service, task, TaskState.DONE)
        with service.app.store.read() as tx:
            assert find_lease(tx, run.run) is None


def test_while_the_governor_holds_somebody_it_is_asked_again_soon(idle: ServiceRunner, town: Town):
    """Other programs end, and an operator raises a cap: nobody commits anything then."""
    idle._turn()
    assert (idle._shortest(None) or 0.0) > RECHECK_SECONDS
    caps = town.home / "governor.json"
    caps.write_text('{"pools": {"anthropic": {"max_global_agents": 1}}}')
    store = idle.app.store
    with store.write("admission") as tx:
        acquire(
            tx, LeaseRequest("other", "field"), read_policy(town.home, town.settings()), read_host()
        )
    with store.write(*SCOPES) as tx:
        task = submit_task(tx, order(town))
        # Of an issue: marks of tasks by hand are looked at in the same schedule.
        asked = replace(task, project="stable", repo_full_name=REPO, issue_number=1)
        change_task(tx, task, asked)
    assert 0 < (idle._turn() or 0.0) <= RECHECK_SECONDS
    with store.read() as tx:
        assert require_task(tx, task.id).gate == "cap"


def test_when_all_workers_are_busy_the_gates_before_them_are_still_named(town: Town):
    town.runtime = {"worker_count": 1}
    agent(town, WAITS)
    with town.service() as service:
        first = put(service, order(town))
        held = put(service, order(town, depends_on=(first.id,)))
        next_ = put(service, order(town))

        def gates() -> list[str]:
            with service.app.store.read() as tx:
                return [require_task(tx, task.id).gate for task in (held, next_)]

        service.until(lambda: gates() == ["dependencies", "workers"], "the gates")
        (town.root / "folder" / "go").touch()
        reach(service, next_, TaskState.DONE)


def test_a_start_that_fails_half_way_leaves_nobody_at_work(town: Town, monkeypatch):
    """Whoever has the lock after us must be alone."""
    agent(town, SAY_DONE)
    told: list[str] = []
    with open_context(town.home, town.settings(), SystemClock()) as app:
        service_log = ServiceLog(
            LogDestinations(SystemClock(), None, terminal=StringIO()).log, told.append
        )
        runner = ServiceRunner(app, SystemClock(), service_log)

        def fail() -> None:
            raise StoreBusy("the database", 5.0)

        monkeypatch.setattr(runner._drain, "report_finished_restart", fail)
        with pytest.raises(StoreBusy):
            runner.run()
        assert runner._static_parts.outgoing.leave(0)
        assert runner._leaving.is_set()
        with pytest.raises(RuntimeError):
            runner._static_parts.pool.submit(print)


def test_a_start_that_fails_before_anybody_works_can_be_left(town: Town, monkeypatch):
    agent(town, SAY_DONE)
    with open_context(town.home, town.settings(), SystemClock()) as app:
        service_log = ServiceLog(LogDestinations(SystemClock(), None, terminal=StringIO()).log)
        runner = ServiceRunner(app, SystemClock(), service_log)
        busy = StoreBusy("the database", 5.0)

        def fail(*_: object) -> None:
            raise busy

        monkeypatch.setattr("hostler.service.runner.find_unfinished_work", fail)
        with pytest.raises(StoreBusy):
            runner.run()


def test_whoever_watches_for_news_survives_a_defect(town: Town, monkeypatch):
    agent(town, SAY_DONE)
    broken = iter([RuntimeError("a defect"), OSError("no such disk")])
    with town.service() as service:
        look = service.runner._watch_settings

        def watch() -> None:
            for error in broken:
                raise error
            look()

        monkeypatch.setattr(service.runner, "_watch_settings", watch)
        reach(service, put(service, order(town)), TaskState.DONE)
        service.until(lambda: "no such disk" in service.lines.getvalue())
        reach(service, put(service, order(town)), TaskState.DONE)
