"""Each test and each criterion of the scheduler's requirements, under its number."""

from __future__ import annotations

from scheduler_fleet import OPERATIONS, MakeFleet

from hostler.errors import StoreBusy
from hostler.service.wiring import ServiceMode
from hostler.store.operator import Step
from hostler.store.tasks import TaskState
from hostler.workflows.commands import store_restart_step

TIMEOUT = 900


def test_r0_test_1_a_long_agent_in_one_repository_does_not_hold_up_polls_of_another(
    fleet: MakeFleet,
):
    town = fleet(worker_count=2, poll_interval_seconds=10)
    service = town.service()
    long = town.put("barn")
    town.turn(service)
    town.started(1)
    town.looks.clear()
    for _ in range(3):
        town.clock.advance(10)
        town.turn(service)
    assert town.state(long) is TaskState.RUNNING
    assert town.looks.count("stable") == town.looks.count("barn") == 3


def test_r0_test_2_and_criterion_3_one_executor_works_for_all_repositories(fleet: MakeFleet):
    town = fleet("barn", "stable", "field", worker_count=3)
    service = town.service()
    tasks = [town.put(name) for name in ("barn", "stable", "field")]
    executor = service._static_parts.pool
    town.turn(service)
    town.started(3)
    # Three repositories, one executor, whose own threads they are.
    assert {town.state(task) for task in tasks} == {TaskState.RUNNING}
    assert len(executor._threads) == 3
    assert all(thread.name.startswith("worker") for thread in executor._threads)
    assert service._static_parts.pool is executor


def test_r0_test_3_and_criterion_4_never_more_at_work_than_worker_count(fleet: MakeFleet):
    town = fleet(worker_count=2)
    service = town.service()
    tasks = [town.put(name) for _ in range(4) for name in ("barn", "stable")]
    while any(town.state(task) is not TaskState.DONE for task in tasks):
        town.turn(service)
        running = [task for task in tasks if town.state(task) is TaskState.RUNNING]
        town.started(len(running))
        assert 0 < len(running) <= 2 and service._static_parts.limiter.in_flight() <= 2
        town.let_go(service, *running)
    assert town.most == 2


def test_r0_test_4_a_token_is_free_as_soon_as_its_future_is_done(fleet: MakeFleet):
    town = fleet(worker_count=1)
    service = town.service()
    task = town.put("barn")
    town.turn(service)
    town.started(1)
    limiter, workers = service._static_parts.limiter, service._static_parts.workers
    assert (limiter.in_flight(), workers.pending()) == (1, 1)
    town.let_go(service, task)
    # The callback gave it back; the future is pending until the scheduler has reaped it.
    assert (limiter.in_flight(), workers.pending()) == (0, 1)
    town.turn(service)
    assert workers.pending() == 0


def test_r0_test_5_and_criterion_7_a_restart_waits_for_work_of_all_repositories(fleet: MakeFleet):
    town = fleet(worker_count=2)
    service = town.service()
    other = town.put("stable")
    town.turn(service)
    town.started(1)
    town.ask_restart("octo/barn")
    town.turn(service, 3)
    assert not service.restarting and town.operation().status == "pending"
    # Its token is free at once, but only a reap of all repositories ends the drain.
    town.let_go(service, other)
    assert service._static_parts.limiter.in_flight() == 0 and not service.restarting
    town.turn(service)
    assert service.restarting and town.operation().status == "running"
    assert town.state(other) is TaskState.DONE
    assert town.logged("service_restart_drain_started") == 1
    assert town.logged("service_restart_drain_completed") == 1


def test_r0_test_5_what_is_through_but_not_reaped_holds_a_restart_back(fleet: MakeFleet):
    """In flight is nothing any more; pending is what the scheduler has not seen the end of."""
    town = fleet(worker_count=1)
    service = town.service()
    task = town.put("barn")
    town.turn(service)
    town.started(1)
    town.ask_restart("octo/barn")
    town.turn(service)
    town.let_go(service, task)
    limiter, workers = service._static_parts.limiter, service._static_parts.workers
    assert (limiter.in_flight(), workers.pending()) == (0, 1)
    # As in a turn during which the last worker ends, after all were reaped.
    service._come_to_an_end()
    assert not service.restarting and town.operation().status == "pending"
    assert workers.reap() == 1
    service._come_to_an_end()
    assert service.restarting and town.operation().status == "running"


def test_r0_risk_1_an_admission_that_fails_gives_its_token_back(fleet: MakeFleet, monkeypatch):
    town = fleet(worker_count=1)
    service = town.service()
    task = town.put("barn")
    admission = service._parts.task_dispatcher._admission

    def fail(*_: object) -> None:
        raise StoreBusy("somebody", 5.0)

    with monkeypatch.context() as patch:
        patch.setattr(admission, "admit", fail)
        town.turn(service, 3)
    assert service._static_parts.limiter.in_flight() == 0
    town.turn(service)
    town.started(1)
    town.let_go(service, task)


def test_r0_test_6_and_criterion_8_a_drain_that_takes_too_long_fails_once(fleet: MakeFleet):
    town = fleet(worker_count=1)
    service = town.service()
    busy = town.put("stable")
    town.turn(service)
    town.started(1)
    town.ask_restart("octo/barn")
    town.turn(service)
    assert service._drain.started_at_monotonic is not None
    town.clock.advance(TIMEOUT - 1)
    town.turn(service)
    assert town.operation().status == "pending" and town.replies() == []
    town.clock.advance(1)
    town.turn(service, 3)
    assert (town.operation().status, town.command()) == ("failed", "failed")
    assert town.replies() == [("octo/barn", 7)]
    assert "still at work after 900 s" in town.operation().detail
    assert service._drain.started_at_monotonic is None and not service.restarting
    assert town.logged("service_restart_drain_timeout") == 1
    # And work goes on as before.
    town.let_go(service, busy)
    waiting = town.put("barn")
    town.turn(service)
    town.started(1)
    assert town.state(waiting) is TaskState.RUNNING


def test_r0_test_7_and_criterion_9_once_looks_at_each_drains_and_ends(fleet: MakeFleet):
    town = fleet(worker_count=2)
    service = town.service(ServiceMode(once=True))
    first = town.put("barn")
    town.turn(service)
    town.started(1)
    town.turn(service)
    assert sorted(town.looks) == ["barn", "stable"]
    # What comes after the one look is left to the next service.
    later = town.put("stable")
    town.turn(service, 2)
    assert (town.state(later), town.gate(later)) == (TaskState.QUEUED, "drain")
    assert not service._leaving.is_set()
    town.let_go(service, first)
    town.turn(service)
    assert service._leaving.is_set() and not service.restarting
    assert town.state(first) is TaskState.DONE


def test_r0_test_8_and_criterion_10_one_repository_works_as_several_do(fleet: MakeFleet):
    town = fleet("barn", worker_count=2, poll_interval_seconds=10)
    service = town.service()
    tasks = [town.put("barn") for _ in range(3)]
    town.turn(service)
    town.started(2)
    assert [town.state(task).value for task in tasks] == ["running", "running", "queued"]
    assert town.gate(tasks[2]) == "workers"
    town.let_go(service, tasks[0])
    town.turn(service)
    town.started(1)
    assert [town.state(task).value for task in tasks] == ["done", "running", "running"]
    town.let_go(service, *tasks[1:])
    town.ask_restart()
    town.turn(service)
    assert service.restarting


def test_r0_criterion_1_polls_of_one_are_not_blocked_by_workers_of_another(fleet: MakeFleet):
    """With every worker busy in one repository, the other is looked at, and its work is seen."""
    town = fleet(worker_count=1, poll_interval_seconds=10)
    service = town.service()
    town.put("barn")
    town.turn(service)
    town.started(1)
    waiting = town.put("stable")
    town.looks.clear()
    town.clock.advance(10)
    town.turn(service)
    assert "stable" in town.looks and town.gate(waiting) == "workers"


def test_r0_criterion_2_one_orchestrator_per_repository_for_all_polls(fleet: MakeFleet):
    town = fleet(poll_interval_seconds=10)
    service = town.service()
    before = service._parts.orchestrators
    for _ in range(3):
        town.clock.advance(10)
        town.turn(service)
    assert service._parts.orchestrators is before
    assert [one.project for one in before] == ["barn", "stable"]
    assert len(town.looks) == 6


def test_r0_criterion_5_work_of_different_repositories_goes_on_at_the_same_time(fleet: MakeFleet):
    town = fleet(worker_count=2)
    service = town.service()
    tasks = {town.put("barn").id, town.put("stable").id}
    town.turn(service)
    town.started(2)
    assert town.at_work == tasks


def test_r0_criterion_6_a_pending_restart_halts_every_enqueue(fleet: MakeFleet):
    town = fleet(worker_count=4)
    service = town.service()
    busy = town.put("stable")
    town.turn(service)
    town.started(1)
    town.ask_restart("octo/barn")
    waiting = [town.put(name) for name in ("barn", "stable")]
    town.clock.advance(60)
    town.turn(service, 3)
    assert [(town.state(one).value, town.gate(one)) for one in waiting] == [("queued", "drain")] * 2
    assert town.at_work == {busy.id}
    # Looks go on: words and commands are heard.
    assert town.looks.count("barn") >= 2


def test_a_service_killed_after_it_was_replaced_says_that_it_is_back(fleet: MakeFleet):
    town = fleet()
    first = town.service()
    town.ask_restart("octo/barn")
    town.turn(first)
    assert first.restarting and town.operation().status == "running"
    with town.store.write(*OPERATIONS) as tx:
        store_restart_step(tx, Step.READY)
    # Killed before it could say so, twice.
    for _ in range(2):
        town.service()
    last = town.service()
    last._begin()
    assert (town.operation().status, town.command()) == ("done", "applied")
    assert town.replies() == [("octo/barn", 7)]
    assert "Hostler" in town.operation().detail


def test_events_of_r0_have_their_fields(fleet: MakeFleet):
    town = fleet(worker_count=1)
    service = town.service()
    task = town.put("barn")
    town.turn(service)
    town.started(1)
    town.ask_restart()
    town.turn(service)
    town.let_go(service, task)
    town.turn(service)
    lines = town.lines.getvalue()
    for event, fields in {
        "service_repo_polled": ("repo=", "queued=", "running=", "waiting="),
        "service_global_capacity": ("in_flight=1", "capacity=1"),
        "service_restart_drain_started": ("pending=1", "seconds="),
        "service_restart_drain_completed": ("pending=0", "seconds="),
    }.items():
        (line, *_) = [one for one in lines.splitlines() if event in one]
        assert all(one in line for one in fields), line


def test_the_progress_of_a_drain_is_logged(fleet: MakeFleet):
    town = fleet(worker_count=2)
    service = town.service()
    first, second = town.put("barn"), town.put("stable")
    town.turn(service)
    town.started(2)
    town.ask_restart()
    town.turn(service)
    town.let_go(service, first)
    town.turn(service)
    (line,) = [one for one in town.lines.getvalue().splitlines() if "drain_progress" in one]
    assert "pending=1" in line and "seconds=" in line
    town.let_go(service, second)
