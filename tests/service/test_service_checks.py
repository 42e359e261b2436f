"""What `hostler doctor` says of work that stands still and of what was left behind; its mends."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import uuid
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler import __version__
from hostler.clock import FakeClock, SystemClock
from hostler.governor.gates import LeaseRequest
from hostler.governor.holders import read_host
from hostler.governor.leases import acquire
from hostler.governor.policy import Policy
from hostler.health import CheckContext, CheckStatus
from hostler.model import format_timestamp
from hostler.service import checks
from hostler.service.checks import MAX_UNATTENDED, MIN_LONG_WAIT, LongWait, find_stalled_tasks
from hostler.service.context import SERVICE_PURPOSE
from hostler.shim.processes import current_identity
from hostler.store.engine.locks import FILE_NAME, Holder, home_lock, write_holder
from hostler.store.governor import all_leases
from hostler.store.repositories import Polls, add_polls
from hostler.store.runs import RunState, change_run
from hostler.store.tasks import Flow, Task, TaskState, change_task, note_gate, require_task

HOUR = 3600.0


def context(yard) -> CheckContext:
    return CheckContext(yard.home, None, yard.clock)


def told(check, yard):
    """What a check says: status and evidence. Who finds something says what to do."""
    found = list(check(context(yard)))
    assert all(
        one.remedy for one in found if one.status in (CheckStatus.WARNING, CheckStatus.FAILED)
    )
    return [(one.status, one.evidence) for one in found]


@contextmanager
def service_at(home, version=__version__):
    """A service that works on a home, by its lock."""
    with home_lock(home, SystemClock(), SERVICE_PURPOSE):
        holder = Holder(
            os.getpid(), "hostler", "here", "2026-01-01T00:00:00.000Z", SERVICE_PURPOSE, version
        )
        descriptor = os.open(home / FILE_NAME, os.O_RDWR)
        try:
            write_holder(descriptor, holder)
            yield
        finally:
            os.close(descriptor)


# -- looks --------------------------------------------------------------------------------------


def test_looks_that_are_overdue_or_often_late_are_told(yard):
    (yard.home / "hostler.toml").write_text('[repo.barn]\nowner = "octo"\nname = "barn"\n')

    def looked(project, polls):
        with yard.store.write() as tx:
            add_polls(tx, project, polls)

    looked("gone", Polls(99, 99, late_since=format_timestamp(yard.clock.now())))
    assert told(checks.check_polls, yard) == [(CheckStatus.OK, "0 polls in the last day")]
    looked("barn", Polls(100, 0, 2, late_since=format_timestamp(yard.clock.now())))
    (late,) = told(checks.check_polls, yard)
    assert late == (
        CheckStatus.WARNING,
        "98.0% of 100 polls of the last day were on time and complete",
    )
    with service_at(yard.home):
        ((status, evidence),) = told(checks.check_polls, yard)
    assert status is CheckStatus.WARNING and "the poll of barn is overdue" in evidence


# -- clock, memory, version -------------------------------------------------------------------


def test_a_clock_that_was_set_back_is_told(yard):
    yard.task("young")
    assert told(checks.check_clock, yard)[0][0] is CheckStatus.OK
    yard.clock.jump(-2 * HOUR)
    ((status, evidence),) = told(checks.check_clock, yard)
    assert status is CheckStatus.WARNING and "a task was changed at" in evidence


@pytest.mark.parametrize(
    ("free", "status"),
    [(None, CheckStatus.SKIPPED), (1023, CheckStatus.WARNING), (1024, CheckStatus.OK)],
)
def test_memory_below_what_is_kept_is_told(yard, monkeypatch, free, status):
    monkeypatch.setattr(checks, "free_memory_mb", lambda: free)
    assert told(checks.check_memory, yard)[0][0] is status


@pytest.mark.parametrize(
    ("version", "status", "word"),
    [
        (__version__, CheckStatus.OK, "the service too"),
        ("9.9.9", CheckStatus.WARNING, "9.9.9"),
        ("", CheckStatus.WARNING, "older"),
    ],
)
def test_a_service_of_another_version_is_told(yard, version, status, word):
    with service_at(yard.home, version):
        ((found, evidence),) = told(checks.check_version, yard)
    assert found is status and word in evidence


def test_without_a_service_no_version_differs(yard):
    assert told(checks.check_version, yard)[0][0] is CheckStatus.OK


# -- tasks ------------------------------------------------------------------------------------


def test_work_that_waits_for_a_service_is_told(yard):
    yard.task("first", TaskState.QUEUED)
    yard.task("over", TaskState.DONE)
    ((status, evidence),) = told(checks.check_tasks, yard)
    assert status is CheckStatus.WARNING and evidence.startswith("1 task(s) are waiting")
    with service_at(yard.home):
        assert told(checks.check_tasks, yard) == [(CheckStatus.OK, "no stalled tasks")]


def test_a_task_that_nobody_works_on_is_told(yard):
    task = yard.task("lost", TaskState.RUNNING)
    other = yard.task("busy", TaskState.RUNNING)
    yard.run(other, "r1", RunState.RUNNING)
    yard.clock.advance(HOUR)
    with service_at(yard.home):
        ((status, evidence),) = told(checks.check_tasks, yard)
    assert status is CheckStatus.WARNING and evidence.startswith(f"{task.id}: marked as running")


def test_a_gate_that_holds_for_days_is_told_with_those_it_holds(yard):
    for name in ("a", "b", "c", "d", "e"):
        yard.task(name, TaskState.QUEUED)
    with yard.store.write("tasks") as tx:
        for name in ("a", "b", "c", "d"):
            note_gate(tx, name, "cap")
    yard.clock.advance(50 * HOUR)
    with yard.store.write("tasks") as tx:
        note_gate(tx, "e", "share")
    with service_at(yard.home):
        ((status, evidence),) = told(checks.check_tasks, yard)
    assert status is CheckStatus.WARNING
    assert evidence == "a, b, c and 1 more: waiting at the gate cap for 50 h"


MOMENTS = st.integers(0, 10 * 86_400)


def made(name: str, ago: int, gate: str, now) -> Task:
    since = format_timestamp(now - timedelta(seconds=ago))
    return Task(
        id=name,
        project="stable",
        repo_full_name=None,
        issue_number=None,
        flow=Flow.TASK,
        title="Tidy",
        author="ann",
        state=TaskState.QUEUED,
        state_since=since,
        order=1,
        gate=gate,
        gate_since=since if gate else None,
    )


@given(st.lists(st.tuples(MOMENTS, st.sampled_from(["", "cap", "share"])), max_size=12))
def test_only_gates_that_held_for_long_are_named_each_once(facts):
    now = FakeClock().now()
    tasks = [made(f"t{n}", ago, gate, now) for n, (ago, gate) in enumerate(facts)]
    found = LongWait.longest(tasks, now)
    gates = [one.gate for one in found]
    assert gates == sorted(set(gates)) and "" not in gates
    long = {
        f"t{n}"
        for n, (ago, gate) in enumerate(facts)
        if gate and ago > MIN_LONG_WAIT.total_seconds()
    }
    assert {task.id for one in found for task in one.tasks} == long
    assert all(one.hours >= 24 for one in found)


@given(st.lists(MOMENTS, max_size=8), st.sets(st.integers(0, 7)))
def test_who_has_a_run_or_is_young_is_not_lost(ages, attended):
    now = FakeClock().now()
    tasks = [
        replace(made(f"t{n}", ago, "", now), state=TaskState.RUNNING) for n, ago in enumerate(ages)
    ]
    found = find_stalled_tasks(tasks, {f"t{n}" for n in attended}, now)
    assert {task.id for task in found} == {
        f"t{n}"
        for n, ago in enumerate(ages)
        if n not in attended and ago > MAX_UNATTENDED.total_seconds()
    }


# -- processes of runs ------------------------------------------------------------------------


def marked(yard, name: str, state: RunState, mark: str) -> subprocess.Popen[bytes]:
    """A run, and a process that carries its mark."""
    task = yard.task(f"of-{name}")
    yard.run(task, name, state)
    shim = json.dumps({**current_identity(), "mark": mark})
    with yard.store.write("admission") as tx:
        assert change_run(tx, name, fence=1, states=[state], values={"shim": shim})
    return subprocess.Popen(["sleep", "1000"], env={**os.environ, "HOSTLER_MARK": mark})


def test_processes_of_runs_that_are_over_are_told_and_ended_and_no_others(yard):
    assert told(checks.check_runs, yard) == [(CheckStatus.OK, "no orphaned processes")]
    mark = uuid.uuid4().hex
    stray = marked(yard, "ended", RunState.ENDED, f"{mark}%_ended")
    living = marked(yard, "living", RunState.RUNNING, f"{mark}-living")
    # One that somebody else marked, with a word that is part of ours.
    foreign = subprocess.Popen(["sleep", "1000"], env={**os.environ, "HOSTLER_MARK": mark})
    try:
        found = told(checks.check_runs, yard)
        assert found == [(CheckStatus.WARNING, "1 process(es) of the ended run ended still exist")]
        assert list(checks.kill_orphaned_processes(context(yard))) == [
            "ended 1 process(es) of ended"
        ]
        assert stray.wait(10) != 0
        assert living.poll() is None and foreign.poll() is None
        assert told(checks.check_runs, yard)[0][0] is CheckStatus.OK
    finally:
        for process in (stray, living, foreign):
            process.kill()
            process.wait()


# -- checkouts --------------------------------------------------------------------------------


def test_checkouts_of_finished_tasks_go_unless_work_is_lost_with_them(yard, fields):
    clean = yard.of_issue("clean", 1, TaskState.RUNNING)
    dirty = yard.of_issue("dirty", 2, TaskState.RUNNING)
    busy = yard.of_issue("busy", 3, TaskState.RUNNING)
    failed = yard.of_issue("failed", 4, TaskState.RUNNING)
    places = {task.id: fields.checkout(task).path for task in (clean, dirty, busy, failed)}
    (places["dirty"] / "new.txt").write_text("nowhere else")
    yard.write(yard.home / "checkouts" / "stable" / "unknown" / "file", "whose?")
    with yard.store.write("tasks") as tx:
        for name in ("clean", "dirty"):
            task = require_task(tx, name)
            change_task(tx, task, replace(task, state=TaskState.DONE))
        change_task(tx, require_task(tx, "failed"), replace(failed, state=TaskState.FAILED))
    yard.clock.advance(1)
    over, strange = told(checks.check_checkouts, yard)
    assert over[1].startswith("clean, dirty: finished")
    assert strange[1] == "no task knows stable/unknown"
    done = list(checks.remove_unused_checkouts(context(yard)))
    assert done == ["the checkout stable/clean was removed"]
    assert not places["clean"].exists()
    assert (places["dirty"] / "new.txt").read_text() == "nowhere else"
    assert places["busy"].exists()
    # It may be started again, in its checkout.
    assert places["failed"].exists()
    assert (yard.home / "checkouts" / "stable" / "unknown" / "file").exists()


# -- rights and leases ------------------------------------------------------------------------


def test_rights_of_others_are_taken_away(yard):
    database = yard.home / "hostler.db"
    database.chmod(0o664)
    yard.home.chmod(0o777)
    assert "664 became 660" in next(iter(checks.fix_database_rights(context(yard))))
    assert "777 became 775" in next(iter(checks.fix_home_rights(context(yard))))
    assert stat.S_IMODE(database.stat().st_mode) == 0o660
    assert list(checks.fix_database_rights(context(yard))) == []


def test_files_of_credentials_are_left_to_their_owner(yard):
    token = yard.write(yard.home / "token", "secret")
    token.chmod(0o644)
    settings = yard.write(yard.home / "hostler.toml", f'[github]\ntoken_file = "{token}"\n')
    where = CheckContext(yard.home, settings, yard.clock)
    assert ["644 became 600" in one for one in checks.fix_credential_rights(where)] == [True]
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


def test_only_places_of_the_dead_are_given_back(yard):
    here, policy = read_host(), Policy(memory_floor_mb=0)
    dead = replace(here, holder=replace(here.holder, start_ticks=1))
    with yard.store.write("admission") as tx:
        acquire(tx, LeaseRequest("ours", "stable"), policy, here)
        acquire(tx, LeaseRequest("theirs", "stable"), policy, dead)
    done = list(checks.release_dead_leases(context(yard)))
    assert done == ["released 1 lease(s) of processes that have ended"]
    with yard.store.read() as tx:
        assert [lease.lease for lease in all_leases(tx)] == ["ours"]
    assert list(checks.release_dead_leases(context(yard))) == []


# -- homes that cannot be read ----------------------------------------------------------------


@pytest.mark.parametrize(
    "check",
    [
        checks.check_clock,
        checks.check_tasks,
        checks.check_runs,
        checks.check_checkouts,
    ],
)
def test_a_home_without_a_database_is_nobodys_fault(tmp_path, check):
    found = list(check(CheckContext(tmp_path, None, SystemClock())))
    assert [one.status for one in found] == [CheckStatus.SKIPPED]


def test_looking_writes_nothing(yard):
    yard.task("first", TaskState.QUEUED)
    before = yard.store.change_mark()
    for look in (checks.check_clock, checks.check_tasks, checks.check_checkouts):
        told(look, yard)
    told(checks.check_runs, yard)
    assert yard.store.change_mark() == before
