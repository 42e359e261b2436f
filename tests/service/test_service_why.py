"""`why` says of exactly one task that it would start: the one that admission takes next."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from intake_yard import database
from why_stage import CAPS, TASKS, Stage, fill

from example_counts import examples
from hostler.clock import FakeClock
from hostler.governor.parking import park
from hostler.model import format_timestamp, parse_timestamp
from hostler.service.context import Presence
from hostler.service.scheduling.admission import ADMISSION_SCOPES
from hostler.service.scheduling.dispatch import DemandReporter
from hostler.service.scheduling.explain import (
    ALL_GATES,
    TURN_GATE,
    GateMark,
    explain_task,
    gate_marks,
)
from hostler.service.scheduling.gates import WAITING_STATES, HomeGate
from hostler.store.governor import take_turn
from hostler.store.operator import ALL, pause, project_scope
from hostler.store.runs import open_runs, request_run_slot
from hostler.store.tasks import TaskState, change_task, note_gate, require_task, tasks_in


@pytest.fixture
def stage():
    clock = FakeClock()
    with database(clock) as store:
        yield Stage(store, clock)


@settings(max_examples=examples(25, 200), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    caps=CAPS,
    wanted=TASKS,
    paused=st.sampled_from(["", "", "", ALL, project_scope("barn")]),
    parked=st.booleans(),
    says=st.booleans(),
)
def test_why_names_the_one_that_admission_takes_next(caps, wanted, paused, parked, says):
    clock = FakeClock()
    with database(clock) as store:
        stage = Stage(store, clock, caps)
        fill(stage, wanted)
        with store.write(*ADMISSION_SCOPES) as tx:
            if paused:
                pause(tx, paused, "ann", "")
            if parked:
                park(tx, "p", clock.now() + timedelta(hours=1), "used up")
        if says:
            DemandReporter(stage.admission().deps).publish(
                clock.monotonic(), stage.admission().evaluate().snapshot
            )
        with store.read() as tx:
            waiting = tasks_in(tx, WAITING_STATES)
            told = {task.id: explain_task(tx, stage.inputs(), task) for task in waiting}
        granted = stage.next()
        expected = [] if granted is None or granted.back else [granted.task.id]
        assert [name for name, one in told.items() if one.would_start] == expected
        for one in told.values():
            marks = [mark for _, mark in one.chain]
            assert marks.count(GateMark.HOLDS) == (not one.would_start)
            assert one.would_start == all(mark is GateMark.PASSED for mark in marks)


@given(st.sampled_from((None, *ALL_GATES)))
def test_gates_before_the_one_that_holds_were_passed(holding):
    marks = dict(gate_marks(holding))
    assert tuple(marks) == ALL_GATES
    order = list(marks.values())
    assert order == sorted(order, key=list(GateMark).index)
    assert marks.get(holding, GateMark.HOLDS) is GateMark.HOLDS


def test_others_go_first(stage):
    first, second = stage.put(), stage.put()
    assert stage.why(first.id).would_start
    told = stage.why(second.id)
    assert (told.denial.gate, told.denial.why) == (TURN_GATE, f"{first.id} starts first.")


def test_a_place_that_is_wanted_back_goes_before_everybody(stage):
    stage.caps["runs"] = 1
    parent, other = stage.put(), stage.put()
    stage.start(parent, lent=True, back=True)
    told = stage.why(other.id)
    assert told.denial.gate == TURN_GATE and parent.id in told.denial.why
    assert stage.next().back


def test_a_worker_whose_agent_waits_is_free(stage):
    stage.caps["workers"] = 1
    parent, child = stage.put(), stage.put()
    stage.start(parent, lent=True)
    assert stage.why(child.id).would_start
    assert stage.next().task.id == child.id
    assert stage.why(stage.put().id).denial.gate == HomeGate.WORKERS


def test_what_holds_it_since_when_and_until(stage):
    began = stage.clock.now()
    stage.clock.advance(100)
    until = stage.clock.now() + timedelta(hours=1)
    task = stage.put(state=TaskState.PARKED, wake_at=format_timestamp(until), attempt=1)
    told = stage.why(task.id)
    assert (told.denial.gate, told.denial.until) == (HomeGate.TIME, until)
    assert told.since == began + timedelta(seconds=100)


def test_the_stored_gate_says_since_when_but_not_from_an_earlier_wait(stage):
    stage.caps["pool"] = 1
    stage.start(stage.put())
    task = stage.put()
    stage.clock.advance(60)
    noted = stage.clock.now()
    with stage.store.write("tasks") as tx:
        note_gate(tx, task.id, "cap")
    stage.clock.advance(60)
    assert (stage.why(task.id).denial.gate, stage.why(task.id).since) == ("cap", noted)
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        begun = change_task(
            tx, *(lambda t: (t, replace(t, state=TaskState.RUNNING)))(require_task(tx, task.id))
        )
        stage.clock.advance(60)
        change_task(tx, begun, replace(begun, state=TaskState.QUEUED))
    told = stage.why(task.id)
    assert told.since == parse_timestamp(told.task.state_since) > noted


def test_what_the_service_has_not_reached_is_known_from_its_note(stage):
    name = "barn"
    task = stage.put()
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        task = change_task(tx, task, replace(task, repo_full_name=f"octo/{name}"))
        note_gate(tx, task.id, HomeGate.READY)
    assert stage.why(task.id).denial.gate == HomeGate.READY
    stage.presence = Presence()
    assert stage.why(task.id).would_start


def test_dependencies_are_named_with_what_to_do(stage):
    failed = stage.put(state=TaskState.FAILED, reason="It broke.")
    task = stage.put(order={"depends_on": (failed.id,)})
    told = stage.why(task.id)
    assert told.denial.gate == HomeGate.DEPENDENCIES
    (blocker,) = told.blockers
    assert blocker.hopeless and failed.id in blocker.sentence
    shown = told.as_json()
    assert shown["gate"] == "dependencies" and shown["blockers"][0]["name"] == failed.id
    assert f"retry {failed.id}" in shown["remedy"]


@pytest.mark.parametrize(
    ("values", "words", "then"),
    [
        ({"state": TaskState.NEEDS_INPUT, "question": "Which?"}, "It asks: Which?", "answer"),
        ({"state": TaskState.BLOCKED, "reason": "No key."}, "No key.", "resume"),
        ({"state": TaskState.STOPPED, "reason": "Stopped by ann."}, "Stopped", "resume"),
        ({"state": TaskState.STOPPED, "reason": "Cancelled by ann."}, "Cancelled", "retry"),
        ({"state": TaskState.FAILED, "reason": "It broke."}, "It broke.", "retry"),
        ({"state": TaskState.DONE, "reason": "Tidy."}, "Tidy.", "Nothing more"),
        ({"state": TaskState.AWAITING_FEEDBACK, "pr_number": 7}, "in review", "Review"),
        ({"state": TaskState.RUNNING}, "checked and delivered", "Wait"),
    ],
)
def test_what_does_not_wait_says_what_comes_next(stage, values, words, then):
    told = stage.why(stage.put(**values).id)
    assert not told.waits and not told.would_start and told.chain == []
    assert words in told.next.what and then in told.next.then


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({}, "An agent is running: helper, attempt 1"),
        ({"lent": True}, "waits for other tasks"),
        ({"lent": True, "back": True}, "waits for a free slot"),
    ],
)
def test_an_agent_at_work_may_be_waiting_itself(stage, how, words):
    task = stage.put()
    stage.start(task, **how)
    assert words in stage.why(task.id).next.what


def test_a_lent_place_comes_back_only_where_there_is_a_run_slot(stage):
    stage.caps["runs"] = 1
    stage.start(stage.put(), lent=True, back=True)
    busy = stage.put("stable")
    stage.start(busy)
    assert stage.next() is None
    stage.caps["runs"] = 2
    assert stage.next().back


def test_of_lent_places_the_first_that_is_wanted_back_comes_back_first(stage):
    first, second = stage.put(), stage.put("stable")
    stage.start(second, lent=True)
    stage.start(first, lent=True)
    for task in (first, second):
        stage.clock.advance(1)
        with stage.store.write(*ADMISSION_SCOPES) as tx:
            (run,) = open_runs(tx, task_id=task.id)
            assert request_run_slot(tx, run.run)
    assert stage.next().task.id == first.id
    assert stage.next().task.id == second.id


def test_a_task_whose_end_is_ours_takes_a_worker(stage):
    stage.caps["workers"] = 1
    ours, waits = stage.put(), stage.put()
    stage.put_running(ours)
    assert stage.why(waits.id).denial.gate == "workers" and stage.next() is None


def test_why_knows_whose_turn_it_is(stage):
    """One project had its turn, and the other is next, whoever came first."""
    stage.caps["pool"] = 2
    for project in ("barn", "barn", "stable"):
        stage.put(project)
    stage.start(stage.put("barn"))
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        take_turn(tx, "barn")
        waiting = tasks_in(tx, WAITING_STATES)
    told = [task for task in waiting if stage.why(task.id).would_start]
    assert [task.project for task in told] == ["stable"]
    assert stage.next().task.id == told[0].id
