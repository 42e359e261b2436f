"""Tasks by the beginning of their name, and their removal, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.model import RepoName
from hostler.store.operator import AuditAction, AuditEntry, add_audit_entry, audit_entries_of
from hostler.store.retention import remove_task
from hostler.store.runs import Run, RunState, add_run, find_run
from hostler.store.task_lookup import ids_like, newest_of_issue
from hostler.store.tasks import (
    Flow,
    IssueRef,
    Task,
    TaskState,
    add_task,
    count_states,
    find_task,
    next_order,
)

IDS = ("20260301-101500-a", "20260301-101500-a-2", "20260301-101500-B", "20260302-090000-a%b_c")


@pytest.fixture
def filled(store):
    with store.write("tasks") as tx:
        for name in IDS:
            add_task(tx, task(tx, name))
    return store


def task(tx, name, **more):
    values = {"repo_full_name": None, "issue_number": None, "flow": Flow.TASK, **more}
    return Task(
        id=name,
        project="stable",
        title="Tidy up",
        author="ann",
        state=TaskState.DONE,
        state_since=tx.stamp(),
        order=next_order(tx),
        **values,
    )


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("20260301", set(IDS[:3])),
        ("20260301-101500-a", set(IDS[:2])),
        ("20260301-101500-a-2", {IDS[1]}),
        ("20260301-101500-b", set()),
        ("20260302-090000-a%", {IDS[3]}),
        ("20260302-090000-a_", set()),
        ("%", set()),
        ("", set(IDS)),
        ("2027", set()),
    ],
)
def test_ids_that_begin_so(filled, prefix, found):
    with filled.read() as tx:
        assert set(ids_like(tx, prefix, 10)) == found
        assert len(ids_like(tx, prefix, 1)) == min(1, len(found))


def test_the_newest_task_of_an_issue(filled):
    with filled.write("tasks") as tx:
        for flow in (Flow.DESIGN, Flow.IMPLEMENTATION):
            where = {"repo_full_name": "Octo/Stable", "issue_number": 7, "flow": flow}
            add_task(tx, task(tx, f"t-{flow}", **where))
    with filled.read() as tx:
        issue = IssueRef.of(RepoName("octo", "STABLE"), 7)
        assert newest_of_issue(tx, issue) == "t-implementation"
        assert newest_of_issue(tx, IssueRef.of(issue.repo, 8)) is None


def test_tasks_are_counted_by_state(filled):
    with filled.write("tasks") as tx:
        add_task(tx, replace(task(tx, "new"), state=TaskState.QUEUED))
        assert count_states(tx) == {TaskState.QUEUED: 1, TaskState.DONE: len(IDS)}


def test_a_task_goes_with_its_runs_and_nothing_else(filled):
    first, second = IDS[:2]
    with filled.write("tasks") as tx:
        for number, name in enumerate((first, first, second), start=1):
            add_run(tx, run(tx, f"r{number}", name, number))
            add_audit_entry(tx, name, AuditEntry(tx.stamp(), "ann", AuditAction.STOPPED))
        assert remove_task(tx, first)
        assert not remove_task(tx, first)
    with filled.read() as tx:
        assert find_task(tx, first) is None and find_task(tx, second) is not None
        assert [bool(find_run(tx, f"r{number}")) for number in (1, 2, 3)] == [False, False, True]
        assert (len(audit_entries_of(tx, first)), len(audit_entries_of(tx, second))) == (0, 1)


def test_a_task_with_an_open_run_stays(filled):
    with filled.write("tasks") as tx:
        add_run(tx, run(tx, "r1", IDS[0], 1, RunState.FINISHING))
        assert not remove_task(tx, IDS[0])
    with filled.read() as tx:
        assert find_task(tx, IDS[0]) is not None and find_run(tx, "r1") is not None


def run(tx, name, task, fence, state=RunState.ENDED):
    return Run(
        run=name,
        task_id=task,
        project="stable",
        fence=fence,
        attempt=fence,
        kind="work",
        agent="helper",
        agent_kind="command",
        pool="",
        folder=f"projects/stable/tasks/{task}/runs/{name}",
        admitted_at=tx.stamp(),
        state=state,
    )
