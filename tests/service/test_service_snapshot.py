"""One look at everything: true to the gates, bounded, and no dearer for what is over."""

from __future__ import annotations

import json
import math
import os
import statistics
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from intake_yard import database
from why_stage import CAPS, TASKS, Stage, fill

from example_counts import examples
from hostler.agents.outcomes import Outcome
from hostler.clock import FakeClock
from hostler.governor.parking import park
from hostler.model import RepoName, format_timestamp, parse_timestamp
from hostler.runs import NewRun, admit_run
from hostler.service.context import Presence
from hostler.service.scheduling.admission import ADMISSION_SCOPES
from hostler.service.scheduling.explain import explain_task
from hostler.service.scheduling.gates import WAITING_STATES
from hostler.service.snapshot.activity import last_activity_reader, read_tasks_needing_person
from hostler.service.snapshot.history import (
    CACHE_TTL,
    NOT_FAILED_OUTCOMES,
    WINDOWS,
    HistoryCache,
    build_stats,
    read_history,
)
from hostler.service.snapshot.snapshot import read_snapshot
from hostler.store.operator import pause, project_scope
from hostler.store.pull_requests import PullRow, PullStatus, add_pull
from hostler.store.runs import RunState, Sums, change_run, newest_ended
from hostler.store.schema import runs
from hostler.store.tasks import TaskState, tasks_in


def silent(_run):
    return None


def look(stage, activity=silent, histories=None):
    with stage.store.read() as tx:
        return read_snapshot(tx, stage.inputs(), activity, histories)


@pytest.fixture
def stage():
    clock = FakeClock()
    with database(clock) as store:
        yield Stage(store, clock)


@settings(max_examples=examples(10, 100), deadline=None, suppress_health_check=list(HealthCheck))
@given(caps=CAPS, wanted=TASKS, parked=st.booleans())
def test_the_queue_says_of_every_task_what_why_says_and_begins_with_whom_admission_takes(
    caps, wanted, parked
):
    clock = FakeClock()
    with database(clock) as store:
        stage = Stage(store, clock, caps)
        fill(stage, wanted)
        if parked:
            with store.write(*ADMISSION_SCOPES) as tx:
                park(tx, "p", clock.now() + timedelta(hours=1), "used up")
        with store.read() as tx:
            seen = read_snapshot(tx, stage.inputs(), silent)
            told = {
                task.id: explain_task(tx, stage.inputs(), task)
                for task in tasks_in(tx, WAITING_STATES)
            }
        assert {one.task.id for one in seen.queue} == set(told)
        for one in seen.queue:
            assert (one.denial, one.since) == (told[one.task.id].denial, told[one.task.id].since)
        assert [one.position for one in seen.queue] == list(range(1, len(seen.queue) + 1))
        granted = stage.next()
        expected = [] if granted is None or granted.back else [granted.task.id]
        assert [one.task.id for one in seen.queue if one.denial is None] == expected
        assert json.loads(json.dumps(seen.as_json()))["queue_total"] == len(told)


def end_run(stage, task, seconds, outcome, ago=0.0):
    """A run of a task that lasted so long and ended so long ago."""
    now = stage.clock.now() - timedelta(seconds=ago)
    values = {
        "state": "ended",
        "outcome": outcome,
        "running_at": format_timestamp(now - timedelta(seconds=seconds)),
        "exited_at": format_timestamp(now),
        "ended_at": format_timestamp(now),
    }
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        run = admit_run(tx, NewRun(task.id, task.project, "work", "helper", "command", "p"))
        assert change_run(tx, run.run, fence=run.fence, states=[run.state], values=values)


ENDS = st.lists(
    st.tuples(
        st.sampled_from(["barn", "stable"]),
        st.integers(0, 40 * 86_400),
        st.integers(-5, 10_000),
        st.sampled_from([one.value for one in Outcome]),
    ),
    max_size=12,
)


@settings(max_examples=examples(10, 100), deadline=None, suppress_health_check=list(HealthCheck))
@given(ENDS)
def test_history_is_what_one_would_count_by_hand(ends):
    clock = FakeClock()
    with database(clock) as store:
        stage = Stage(store, clock)
        tasks = {name: stage.put(name) for name in ("barn", "stable")}
        for project, ago, seconds, outcome in ends:
            end_run(stage, tasks[project], seconds, outcome, ago)
        with store.read() as tx:
            found = read_history(tx)
        for name, length in WINDOWS.items():
            inside = [one for one in ends if one[1] <= length.total_seconds()]
            _same(found[name].everything, inside)
            assert set(found[name].projects) == {one[0] for one in inside}
            for project, record in found[name].projects.items():
                _same(record, [one for one in inside if one[0] == project])


def _same(record, ends):
    lasted = [max(seconds, 0) for _, _, seconds, _ in ends]
    failed = sum(outcome not in [one.value for one in NOT_FAILED_OUTCOMES] for *_, outcome in ends)
    assert (record.count, record.failed) == (len(ends), failed)
    if not ends:
        assert (record.mean_seconds, record.std_seconds, record.failure_rate) == (None, None, None)
        return
    assert math.isclose(record.mean_seconds, statistics.fmean(lasted), abs_tol=0.01)
    assert math.isclose(record.std_seconds, statistics.pstdev(lasted), abs_tol=0.5)
    assert record.failure_rate == failed / len(ends)


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=20))
def test_a_deviation_is_never_less_than_nothing(seconds):
    found = build_stats([Sums(1, 0, one, one * one) for one in seconds])
    assert found.std_seconds >= 0
    assert math.isclose(found.mean_seconds, statistics.fmean(seconds), abs_tol=1e-6)


def test_runs_without_an_agent_are_no_history(stage):
    task = stage.put()
    end_run(stage, task, 10, "success")
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        assert len(newest_ended(tx, 9)) == 1
        tx.execute(runs.update().values(counted=0))
        assert newest_ended(tx, 9) == []
    assert look(stage).history["30d"].everything.count == 0


@pytest.mark.parametrize("lowered", ["pool", "width", "workers", "runs", "roots"])
def test_a_lowered_cap_lets_all_leave_before_the_first_start_is_expected(stage, lowered):
    end_run(stage, stage.put(state=TaskState.DONE), 100, "success")
    for _ in range(3):
        stage.start(stage.put())
        stage.clock.advance(10)
    waiting = [stage.put().id for _ in range(2)]
    stage.caps[lowered] = 1
    seen = look(stage)
    assert [one.task.id for one in seen.queue] == waiting
    starts = [(one.expected.at - seen.now).total_seconds() for one in seen.queue]
    assert starts == [90.0, 190.0]
    assert all(one.expected.about for one in seen.queue)


def test_who_has_lent_a_place_gives_none_back(stage):
    end_run(stage, stage.put(state=TaskState.DONE), 100, "success")
    stage.start(stage.put(), lent=True)
    stage.clock.advance(50)
    stage.start(stage.put())
    stage.put()
    stage.caps["pool"] = 1
    seen = look(stage)
    assert [(one.expected.at - seen.now).total_seconds() for one in seen.queue] == [100.0]


def test_a_pool_closed_for_a_minute_opens_for_the_first_and_for_others_at_about_then(stage):
    stage.put(), stage.put()
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        park(tx, "p", stage.clock.now() + timedelta(minutes=1), "used up")
    first, second = (one.as_json("") for one in look(stage).queue)
    assert first["starts_at"] == first["until"] == second["starts_at"]
    assert (first["starts_about"], second["starts_about"]) == (False, True)


def test_without_a_service_no_start_is_expected(stage):
    stage.put(), stage.put()
    assert look(stage).queue[0].expected is not None
    stage.presence = Presence(None)
    assert [one.expected for one in look(stage).queue] == [None, None]


def test_a_kept_history_is_taken_anew_when_a_run_ends_or_time_passes(stage):
    kept, task = HistoryCache(), stage.put()
    end_run(stage, task, 10, "success")
    first = look(stage, histories=kept).history
    assert look(stage, histories=kept).history is first
    stage.clock.advance(1)
    end_run(stage, task, 20, "crash")
    second = look(stage, histories=kept).history
    assert second["1h"].everything.count == 2
    stage.clock.advance(CACHE_TTL.total_seconds())
    assert look(stage, histories=kept).history is not second
    stage.clock.advance(3600)
    assert look(stage, histories=kept).history["1h"].everything.count == 0


def test_agents_at_work_with_what_they_used_and_their_last_sign_of_life(stage, tmp_path):
    task = stage.put()
    run = stage.start(task)
    stage.clock.advance(120)
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        values = {"input_tokens": 7, "output_tokens": 3, "usd": 0.25}
        assert change_run(tx, run.run, fence=run.fence, states=[RunState.RUNNING], values=values)
    folder = tmp_path / run.folder
    folder.mkdir(parents=True)
    wrote = stage.clock.now() - timedelta(seconds=30)
    for name, moment in (("stdout", wrote), ("stderr", wrote - timedelta(seconds=9))):
        (folder / name).write_text("x")
        os.utime(folder / name, (moment.timestamp(), moment.timestamp()))
    (one,) = look(stage, last_activity_reader(tmp_path)).at_work
    assert (one.task.id, one.seconds, one.active, one.idle_seconds) == (task.id, 120, wrote, 30)
    shown = one.as_json("https://github.com")
    assert (shown["input_tokens"], shown["output_tokens"], shown["usd"]) == (7, 3, 0.25)
    assert (shown["attempt"], shown["project"], shown["state"]) == (1, "barn", "running")


def test_a_sign_of_life_from_the_future_counts_as_now_and_none_as_its_start(stage):
    stage.start(stage.put())
    stage.clock.advance(50)
    (one,) = look(stage, lambda _: stage.clock.now() + timedelta(days=1)).at_work
    assert one.idle_seconds == 0
    (one,) = look(stage).at_work
    assert one.idle_seconds == 50


def test_what_needs_a_person_longest_first_and_what_to_do(stage):
    stage.put(state=TaskState.NEEDS_INPUT, question="Which?")
    stage.clock.advance(60)
    failed = stage.put(state=TaskState.FAILED, reason="It broke.")
    stage.clock.advance(60)
    stuck = stage.put(order={"depends_on": (failed.id,)})
    seen = look(stage).as_json()["needs_person"]
    assert [one["seconds"] for one in seen] == [120, 60, 0]
    assert (seen[0]["question"], seen[0]["by_hand"]) == ("Which?", True)
    assert "task answer" in seen[0]["then"] and "retry" in seen[1]["then"]
    assert seen[2]["task"] == stuck.id and failed.id in seen[2]["what"]


def test_pull_requests_that_are_followed_and_their_pages(stage):
    task = stage.put(title="Mend the roof")
    repo = str(RepoName("octo", "barn"))
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        for number, status in ((7, PullStatus.AWAITING_FEEDBACK), (8, PullStatus.MERGED)):
            add_pull(tx, PullRow(repo, number, 3, task.id, "b", status))
    seen = look(stage).as_json()
    (one,) = seen["pulls"]
    assert (one["pull"], one["title"], one["status"]) == (7, "Mend the roof", "awaiting_feedback")
    assert one["pull_url"] == "https://github.com/octo/barn/pull/7"
    assert one["issue_url"] == "https://github.com/octo/barn/issues/3"
    assert {one["project"]: one["pulls"] for one in seen["repositories"]}["barn"] == 1


def test_repositories_with_what_pauses_them_and_goes_on_in_them(stage):
    stage.start(stage.put("barn"))
    stage.put("stable")
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        pause(tx, project_scope("stable"), "ann", "moving house")
    seen = {one.project: one for one in look(stage).repositories}
    assert (seen["barn"].at_work, seen["barn"].paused) == (1, "")
    assert seen["stable"].queued == 1 and "moving house" in seen["stable"].paused
    assert seen["field"].queued == 0


def test_money_of_today_and_the_cost_of_watching(stage):
    run = stage.start(stage.put())
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        values = {"usd": 1.5}
        assert change_run(tx, run.run, fence=run.fence, states=[RunState.RUNNING], values=values)
    seen = look(stage).as_json()
    assert seen["cost"]["today_usd"] == 1.5 and seen["cost"]["projects"] == {"barn": 1.5}
    assert seen["github"]["now"]["requests_per_hour"] > 0 and seen["github"]["now"]["fits"]


def test_a_long_queue_is_cut_for_programs_and_its_length_said(stage, monkeypatch):
    monkeypatch.setattr("hostler.service.snapshot.snapshot.MAX_LISTED", 2)
    for _ in range(4):
        stage.put()
    seen = look(stage).as_json()
    assert (len(seen["queue"]), seen["queue_total"]) == (2, 4)


def test_of_old_failures_only_the_newest_are_read(stage):
    made = [stage.put(state=TaskState.FAILED) for _ in range(5)]
    with stage.store.read() as tx:
        assert {one.task.id for one in read_tasks_needing_person(tx, most=2)} == {
            one.id for one in made[-2:]
        }


def test_how_many_need_a_person_is_said_though_not_all_are_shown(stage, monkeypatch):
    monkeypatch.setattr(
        "hostler.service.snapshot.snapshot.read_tasks_needing_person",
        partial(read_tasks_needing_person, most=2),
    )
    for state in (TaskState.FAILED, TaskState.BLOCKED):
        for _ in range(5):
            stage.put(state=state)
    seen = look(stage).as_json()
    assert (len(seen["needs_person"]), seen["needs_person_total"]) == (4, 10)


def test_what_is_over_makes_no_look_dearer(stage, monkeypatch):
    """Rows that are fetched are what costs: counted with few finished tasks, and with many."""
    task = stage.put("barn", state=TaskState.DONE)
    end_run(stage, task, 10, "success")
    few = _rows_fetched(stage, monkeypatch)
    for _ in range(30):
        done = stage.put("barn", state=TaskState.DONE)
        end_run(stage, done, 10, "success")
    assert _rows_fetched(stage, monkeypatch) == few


def _rows_fetched(stage, monkeypatch):
    from hostler.store.transaction import Transaction

    counted = [0]
    execute, constant = Transaction.execute, Transaction.constant
    kept = HistoryCache()
    # The newest runs are looked at once, and kept.
    look(stage, histories=kept)

    def count(result):
        frozen = result.freeze() if result.returns_rows else None
        if frozen is None:
            return result
        counted[0] += len(frozen.data)
        return frozen()

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "execute", lambda *a: count(execute(*a)))
        patched.setattr(Transaction, "constant", lambda *a: count(constant(*a)))
        look(stage, histories=kept)
    return counted[0]


def test_moments_are_stamps_and_the_shape_is_the_documented_one(stage):
    stage.put()
    seen = look(stage).as_json()
    assert parse_timestamp(seen["now"]) == stage.clock.now()
    assert list(seen["history"]) == list(WINDOWS)
    assert replace(look(stage), full="No room.").as_json()["disk_full"] == "No room."
