"""Old runs, families, threads and writes: found page by page, and taken out whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.errors import StoreConflict
from hostler.model import RepoName, ScopeKind, TokenStatus
from hostler.store.inbox import (
    FeedbackEvent,
    InboxRow,
    add_inbox_row,
    consume_inbox_rows,
    mark_feedback_events_processed,
    pending_feedback_events,
    record_feedback_event,
)
from hostler.store.operator import AuditAction, AuditEntry, add_audit_entry, audit_entries_of
from hostler.store.outbox import Lane, OutboxRow, WriteState, add_write, find_write, recorded_ids
from hostler.store.pull_requests import (
    Floors,
    PullRow,
    PullStatus,
    add_pull,
    comment_floors,
    find_pull,
    raise_floors,
)
from hostler.store.repositories import Repo
from hostler.store.retention import (
    BARE,
    depended_on,
    empty_writes,
    families,
    look_at_threads,
    newest_issues,
    newest_shown,
    remove_tasks,
    remove_threads,
    remove_writes,
    roots_before,
    runs_before,
    runs_named,
    tasks_of_threads,
    threads_after,
    threads_with_words,
    ties_of,
    writes_before,
    writes_named,
)
from hostler.store.runs import Run, RunState, add_run, find_run
from hostler.store.tasks import Flow, Task, TaskState, add_task, find_task

HERE = RepoName("octo", "stable")
SOON, LATER = "2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z"
PAST, FAR = "2000-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"
ALIKE = {"comment": ("comment", "edit_comment"), "edit_comment": ("comment", "edit_comment")}


def task(name, **more):
    fields = {"repo_full_name": str(HERE), "issue_number": None, "flow": Flow.TASK}
    fields |= {"title": "T", "author": "ann", "state": TaskState.DONE, "state_since": SOON}
    return Task(id=name, project="stable", order=1, prompt="Do it.", **fields | more)


def run(name, of="t1", fence=1, **more):
    fields = {"state": RunState.ENDED, "ended_at": SOON, **more}
    folder = f"projects/stable/tasks/{of}/runs/{name}"
    return Run(name, of, "stable", fence, 1, "work", "a", "command", "p", folder, SOON, **fields)


def event(key, number=7, kind="issue_comment", object_id=1, at=SOON, payload="{}"):
    return InboxRow(str(HERE), key, kind, number, object_id, "ann", at, payload)


def write(token, **more):
    fields = {"state": WriteState.SENT, "kind": "comment", "scope_number": 7, **more}
    return OutboxRow(
        repo_full_name=str(HERE),
        token=token,
        scope_kind=ScopeKind.ISSUE,
        lane=Lane.STATUS,
        payload='{"body": "Hello"}',
        not_before=SOON,
        **fields,
    )


def fill(store, *rows):
    with store.write() as tx:
        for row in rows:
            match row:
                case Task():
                    add_task(tx, row)
                case Run():
                    add_run(tx, row)
                case PullRow():
                    add_pull(tx, row)
                case InboxRow():
                    add_inbox_row(tx, row)
                case FeedbackEvent():
                    record_feedback_event(tx, HERE, row)
                case OutboxRow():
                    add_write(tx, row)
                    Repo(HERE).record_action_token_planned(
                        tx,
                        row.token,
                        scope_kind=row.scope_kind,
                        scope_number=row.scope_number,
                        source="s",
                    )


def pull(number, of="t1", status=PullStatus.MERGED, issue=0):
    return PullRow(str(HERE), number, issue, of, "b", status)


def words(key, pull=0, issue=7):
    return FeedbackEvent(key, pull, issue, "issue_comment", 1, SOON)


def test_runs_come_in_pages_with_their_tasks(store):
    fill(store, task("t1"), run("r1"), run("r2", fence=2), run("r3", of="gone"))
    with store.read() as tx:
        first = runs_before(tx, LATER, "", 2)
        rest = runs_before(tx, LATER, first[-1].run, 2)
        assert runs_before(tx, SOON, "", 9) == []
        assert runs_named(tx, ["r2", "r9"]) == first[1:]
    assert [(one.run, one.newest, one.task_state) for one in first + rest] == [
        ("r1", False, TaskState.DONE),
        ("r2", True, TaskState.DONE),
        ("r3", True, None),
    ]


def test_families_are_found_by_their_roots(store):
    fill(
        store,
        task("a"),
        task("a-1", parent_task="a"),
        task("a-1-1", parent_task="a-1"),
        task("b", parent_task="long gone"),
        task("c"),
    )
    with store.read() as tx:
        assert roots_before(tx, FAR, "", 2) == ["a", "b"]
        assert roots_before(tx, FAR, "b", 2) == ["c"]
        assert roots_before(tx, PAST, "", 2) == []
        found = families(tx, ["a", "b", "nobody"])
    assert {root: [one.id for one in family] for root, family in found.items()} == {
        "a": ["a", "a-1", "a-1-1"],
        "b": ["b"],
    }
    assert found["a"][0].size == len("Do it.") + len("T")


def test_ties_of_tasks(store):
    fill(
        store,
        task("t1", issue_number=7, flow=Flow.BUGFIX),
        task("t2"),
        task("t3"),
        run("r1"),
        run("r2", fence=2, ended_at=LATER),
        run("r3", of="t2", state=RunState.EXITED, ended_at=None),
        pull(8, issue=7),
        pull(9, status=PullStatus.BLOCKED, of="t3"),
        words("k1"),
        words("k2", pull=9, issue=0),
        words("k3", issue=1),
    )
    with store.write() as tx:
        members = [one for family in families(tx, ["t1", "t2", "t3"]).values() for one in family]
        ties = ties_of(tx, members)
        assert ties.open_runs == {"t2"}
        assert ties.ended == {"t1": LATER}
        assert ties.pulls == {"t1": {(str(HERE), 8): True}, "t3": {(str(HERE), 9): False}}
        assert ties.words == {"t1", "t3"}
        mark_feedback_events_processed(tx, HERE, ["k1", "k2"])
        assert ties_of(tx, members).words == set()
        assert threads_with_words(tx, [(str(HERE), 1), (str(HERE), 7)]) == {(str(HERE), 1)}


def test_who_depends_on_what_unless_it_is_done(store):
    fill(
        store,
        task("a", depends_on=("x", "octo/stable#7"), state=TaskState.STOPPED),
        task("b", depends_on=("x",), state=TaskState.QUEUED),
        task("c", depends_on=("y",)),
    )
    with store.read() as tx:
        assert depended_on(tx) == {"x": {"a", "b"}, "octo/stable#7": {"a"}}


def test_a_family_goes_with_everything_that_is_its_own(store):
    other = task("t9", issue_number=9, flow=Flow.BUGFIX)
    fill(
        store,
        task("t1", issue_number=7, flow=Flow.DESIGN),
        task("t2", issue_number=7, flow=Flow.IMPLEMENTATION, parent_task="t1"),
        other,
        run("r1"),
        run("r9", of="t9"),
        pull(8, issue=7),
        pull(10, of="t9", issue=9),
        words("k1"),
        words("k2", pull=8),
        words("k9", issue=9),
    )
    with store.write() as tx:
        raise_floors(tx, HERE, 7, Floors(3, 4))
        raise_floors(tx, HERE, 9, Floors(5, 6))
        for name in ("t1", "t9"):
            add_audit_entry(tx, name, AuditEntry(tx.stamp(), "ann", AuditAction.STOPPED))
        remove_tasks(tx, families(tx, ["t1"])["t1"])
    with store.read() as tx:
        assert (len(audit_entries_of(tx, "t1")), len(audit_entries_of(tx, "t9"))) == (0, 1)
        assert [find_task(tx, name) for name in ("t1", "t2")] == [None, None]
        assert find_run(tx, "r1") is None and find_pull(tx, HERE, 8) is None
        assert comment_floors(tx, HERE, 7) == Floors()
        assert pending_feedback_events(tx, HERE, 8) == []
        assert find_task(tx, "t9") is not None and find_run(tx, "r9") is not None
        assert find_pull(tx, HERE, 10) is not None and comment_floors(tx, HERE, 9) == Floors(5, 6)
        assert [one.event_key for one in pending_feedback_events(tx, HERE, 0)] == ["k9"]


def test_what_an_issue_keeps_as_long_as_one_of_its_tasks_stays(store):
    fill(
        store,
        task("t1", issue_number=7, flow=Flow.DESIGN),
        task("t2", issue_number=7, flow=Flow.BUGFIX),
        words("k1"),
    )
    with store.write() as tx:
        raise_floors(tx, HERE, 7, Floors(3, 4))
        remove_tasks(tx, families(tx, ["t1"])["t1"])
        assert comment_floors(tx, HERE, 7) == Floors(3, 4)
        assert len(pending_feedback_events(tx, HERE, 0)) == 1


def test_a_family_with_an_open_run_stays_whole(store):
    child = task("t2", parent_task="t1")
    fill(store, task("t1"), child, run("r1"), run("r2", of="t2", state=RunState.RUNNING))
    with pytest.raises(StoreConflict), store.write() as tx:
        remove_tasks(tx, families(tx, ["t1"])["t1"])
    with store.read() as tx:
        assert find_task(tx, "t1") and find_task(tx, "t2") and find_run(tx, "r1")


def test_threads_come_in_pages_with_all_that_decides(store):
    fill(
        store,
        event("i1", kind="issue", payload='{"v": 1}'),
        event("i2", kind="issue", at=LATER, payload='{"v": 2}'),
        event("c1"),
        event("p1", number=8, kind="pull", object_id=5),
        event("c2", number=9),
        task("t1", issue_number=7, flow=Flow.BUGFIX),
        task("t2", state=TaskState.STOPPED),
        pull(8, of="t2", status=PullStatus.AWAITING_FEEDBACK),
        words("c1"),
    )
    with store.write() as tx:
        consume_inbox_rows(tx, HERE, ["i1", "i2", "c1", "p1"])
    name = str(HERE)
    with store.read() as tx:
        assert threads_after(tx, ("", -1), 2) == [(name, 7), (name, 8)]
        assert threads_after(tx, (name, 8), 2) == [(name, 9)]
        seven, eight, nine = look_at_threads(tx, [(name, 7), (name, 8), (name, 9), (name, 99)])
        assert newest_shown(tx, name) == LATER and newest_shown(tx, "no/body") == ""
        newest = newest_issues(tx, [(name, 7), (name, 8)])
        assert {key: row.event_key for key, row in newest.items()} == {(name, 7): "i2"}
    assert (seven.rows, seven.size) == (3, 18)
    assert seven.shown == {"issue": LATER, "issue_comment": SOON}
    assert [row.event_key for row in seven.telling] == ["i2"]
    assert seven.tasks == {"t1": TaskState.DONE} and seven.words and not seven.watched_pull
    assert eight.tasks == {"t2": TaskState.STOPPED} and eight.watched_pull and not eight.words
    assert not seven.pending and not eight.pending and nine.pending
    assert nine.tasks == {} and seven.last > PAST


def test_the_newest_version_is_the_one_that_arrived_last_in_a_second(store):
    fill(store, event("i1", kind="issue"), event("i2", kind="issue"))
    with store.read() as tx:
        (found,) = look_at_threads(tx, [(str(HERE), 7)])
    assert [row.event_key for row in found.telling] == ["i2"]


def test_a_thread_goes_whole_and_alone(store):
    fill(store, event("a"), event("b", kind="issue"), event("c", number=8), words("a"), words("c"))
    with store.write() as tx:
        remove_threads(tx, [])
        remove_threads(tx, [(str(HERE), 7), (str(HERE), 99)])
        assert threads_after(tx, ("", -1), 9) == [(str(HERE), 8)]
        assert [one.event_key for one in pending_feedback_events(tx, HERE, 0)] == ["c"]
        # The same version would be news again: that is for the rules to prevent.
        assert add_inbox_row(tx, event("a"))


def test_tasks_of_threads_by_issue_and_by_pull_request(store):
    design = task("t1", issue_number=7, flow=Flow.DESIGN)
    bugfix = task("t2", issue_number=7, flow=Flow.BUGFIX, state=TaskState.FAILED)
    fill(store, design, bugfix, pull(8, of="t2"), pull(9, of="gone"))
    name = str(HERE)
    with store.read() as tx:
        found = tasks_of_threads(tx, [(name, 7), (name, 8), (name, 9)])
    both = {"t1": TaskState.DONE, "t2": TaskState.FAILED}
    assert found == {(name, 7): both, (name, 8): {"t2": TaskState.FAILED}}


def test_writes_come_in_pages_with_what_needs_them(store):
    fill(
        store,
        write("w1", result_id=5),
        write("w2", result_id=5, kind="edit_comment"),
        write("w3", result_id=5, kind="reply"),
        write("w4", state=WriteState.QUEUED, depends_on="w3"),
        write("w5", state=WriteState.FAILED),
    )
    with store.read() as tx:
        first = writes_before(tx, FAR, 0, 3, ALIKE)
        rest = writes_before(tx, FAR, first[-1].sequence, 3, ALIKE)
        assert writes_before(tx, PAST, 0, 9, ALIKE) == []
        assert writes_named(tx, [first[0].sequence, 10**6], ALIKE) == first[:1]
    found = {one.token: one for one in first + rest}
    assert {token for token, one in found.items() if one.superseded} == {"w1"}
    assert {token for token, one in found.items() if one.needed} == {"w3"}
    assert {token for token, one in found.items() if not one.settled} == {"w4"}
    assert found["w1"].size == len('{"body": "Hello"}') and not found["w1"].bare


def test_writes_go_with_their_tokens_or_lose_their_text_alone(store):
    fill(store, write("w1", result_id=5), write("w2", result_id=6))
    with store.write() as tx:
        one, two = writes_before(tx, FAR, 0, 9, ALIKE)
        remove_writes(tx, [one])
        empty_writes(tx, [two])
    with store.write() as tx:
        assert find_write(tx, HERE, "w1") is None
        assert Repo(HERE).get_action_token(tx, "w1") is None
        left = find_write(tx, HERE, "w2")
        assert (left.payload, left.result_id, left.state) == (BARE, 6, WriteState.SENT)
        assert Repo(HERE).get_action_token(tx, "w2").status is TokenStatus.PLANNED
        assert recorded_ids(tx, HERE, ["comment"], [5, 6]) == {6}
        (found,) = writes_before(tx, FAR, 0, 9, ALIKE)
        assert found.bare


@pytest.mark.parametrize("state", [WriteState.QUEUED, WriteState.SENDING, WriteState.UNCLEAR])
def test_what_is_not_settled_is_never_touched(store, state):
    fill(store, write("w1", state=state))
    with store.write() as tx:
        (one,) = writes_before(tx, FAR, 0, 9, ALIKE)
        remove_writes(tx, [one])
        empty_writes(tx, [one])
        assert find_write(tx, HERE, "w1").payload == replace(write("w1")).payload
