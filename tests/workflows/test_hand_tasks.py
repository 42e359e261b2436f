"""Tasks by hand as rows: submitting, lineage, and what people do with tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.errors import HostlerError
from hostler.runs import NewRun, admit_run
from hostler.store.operator import AuditAction, AuditEntry, audit_entries_of
from hostler.store.runs import find_run
from hostler.store.tasks import TaskState, change_task, require_task
from hostler.workflows import commands
from hostler.workflows.commands import (
    CommandRefused,
    active_children,
    ancestors,
    descendants,
    is_in_tree,
)
from hostler.workflows.manual_tasks import NotSubmitted, TaskSubmission, submit_task

SCOPES = ("admission", "tasks", "outbox")


def order(prompt="Tidy up.", **more):
    return TaskSubmission("stable", prompt, "ann", **{"cwd": "/somewhere", **more})


def put(store, task, state, **more):
    with store.write(*SCOPES) as tx:
        present = require_task(tx, task.id)
        return change_task(tx, present, replace(present, state=state, **more))


def begin(store, task):
    with store.write(*SCOPES) as tx:
        change_task(tx, task, replace(task, state=TaskState.RUNNING))
        return admit_run(tx, NewRun(task.id, "stable", "work", "a", "command"))


@pytest.fixture
def store(yard):
    return yard.store


@pytest.fixture
def family(store):
    """A task, its two children, and a grandchild."""
    with store.write(*SCOPES) as tx:
        top = submit_task(tx, order("top"))
        left = submit_task(tx, order("left", parent_task=top.id))
        right = submit_task(tx, order("right", parent_task=top.id, depends_on=(left.id,)))
        low = submit_task(tx, order("low", parent_task=left.id))
    return top, left, right, low


def test_a_submitted_task_waits_at_the_end_of_the_queue(family, store):
    top, left, right, low = family
    assert [task.order for task in family] == [1, 2, 3, 4]
    assert {task.state for task in family} == {TaskState.QUEUED}
    assert right.depends_on == (left.id,)
    assert top.by_hand and top.title == "top" and top.prompt == "top"
    with store.read() as tx:
        assert [one.id for one in descendants(tx, top.id)] == [left.id, low.id, right.id]
        assert list(ancestors(tx, low)) == [left.id, top.id]
        assert is_in_tree(tx, low, {top.id}) and is_in_tree(tx, low, {low.id})
        assert not is_in_tree(tx, right, {left.id})
        assert active_children(tx, top.id) == []


def test_a_child_needs_a_parent(store):
    with pytest.raises(NotSubmitted, match="nobody does not exist"), store.write(*SCOPES) as tx:
        submit_task(tx, order(parent_task="nobody"))


def test_children_with_a_run_are_active(family, store):
    top, left, right, _ = family
    begin(store, left)
    with store.read() as tx:
        assert [one.id for one in active_children(tx, top.id)] == [left.id]
    assert right


def test_a_stop_reaches_everything_below_and_every_run(family, store):
    top, left, _right, low = family
    run = begin(store, low)
    put(store, left, TaskState.DONE)
    with store.write(*SCOPES) as tx:
        changed = commands.stop_task(tx, require_task(tx, top.id), "ann", "enough")
    assert len(changed) == 3
    with store.read() as tx:
        states = [require_task(tx, one.id).state for one in family]
        assert states == [TaskState.STOPPED, TaskState.DONE, TaskState.STOPPED, TaskState.STOPPED]
        assert require_task(tx, low.id).reason == "Stopped by ann: enough"
        assert find_run(tx, run.run).stop_why == "Stopped by ann: enough"
    with pytest.raises(CommandRefused), store.write(*SCOPES) as tx:
        commands.stop_task(tx, require_task(tx, top.id), "ann")


def test_a_stopped_task_is_resumed_where_it_was(family, store):
    top = put(store, family[0], TaskState.STOPPED, session="s", attempt=3, requeues=2)
    with store.write(*SCOPES) as tx:
        again = commands.resume_task(tx, top, "ann")
    assert (again.state, again.session, again.attempt) == (TaskState.QUEUED, "s", 3)
    assert again.requeues == 0
    with pytest.raises(CommandRefused), store.write(*SCOPES) as tx:
        commands.resume_task(tx, again, "ann")


def test_a_question_is_answered_once(family, store):
    asking = put(store, family[0], TaskState.NEEDS_INPUT, question="Which colour?", session="s")
    with store.write(*SCOPES) as tx:
        with pytest.raises(HostlerError, match="empty"):
            commands.answer_question(tx, asking, "ann", "  ")
        told = commands.answer_question(tx, asking, "ann", "Blue.")
    assert (told.state, told.note, told.session) == (TaskState.QUEUED, "ann answers: Blue.", "s")
    assert told.question == "Which colour?"
    with pytest.raises(CommandRefused), store.write(*SCOPES) as tx:
        commands.answer_question(tx, told, "ann", "Red.")


def test_what_people_did_is_kept_with_who_when_and_their_words(family, store):
    asking = put(store, family[0], TaskState.NEEDS_INPUT, question="Which colour?")
    with store.write(*SCOPES) as tx:
        told = commands.answer_question(tx, asking, "ann", " Blue. ")
        commands.stop_task(tx, told, "bob", "too dear")
        again = commands.resume_task(tx, require_task(tx, told.id), "cid")
        commands.cancel_task(tx, again, "dan")
        commands.retry_task(tx, require_task(tx, told.id), "eve", "once more")
        now, deeds = tx.stamp(), audit_entries_of(tx, told.id)
    assert deeds == (
        AuditEntry(now, "ann", AuditAction.ANSWERED, "Blue.", "Which colour?", asking.state_since),
        AuditEntry(now, "bob", AuditAction.STOPPED, "too dear"),
        AuditEntry(now, "cid", AuditAction.RESUMED),
        AuditEntry(now, "dan", AuditAction.CANCELLED),
        AuditEntry(now, "eve", AuditAction.RETRIED, "once more"),
    )
    with store.read() as tx:
        # Its children were stopped with it.
        assert [one.by for one in audit_entries_of(tx, family[1].id)] == ["bob"]


def test_what_is_refused_is_no_deed(family, store):
    with pytest.raises(CommandRefused), store.write(*SCOPES) as tx:
        commands.retry_task(tx, family[0], "ann")
    with store.read() as tx:
        assert audit_entries_of(tx, family[0].id) == ()


def test_a_cancelled_task_is_not_resumed_but_can_be_retried(family, store):
    top = family[0]
    with store.write(*SCOPES) as tx:
        commands.cancel_task(tx, top, "ann")
        cancelled = require_task(tx, top.id)
        assert cancelled.state is TaskState.STOPPED
        with pytest.raises(CommandRefused, match="cannot be resumed"):
            commands.resume_task(tx, cancelled, "ann")
        again = commands.retry_task(tx, replace(cancelled), "ann")
    assert (again.state, again.attempt, again.session) == (TaskState.QUEUED, 0, "")


def test_a_stopped_task_may_still_be_cancelled_and_a_done_one_not(family, store):
    top = put(store, family[0], TaskState.STOPPED, reason="Stopped by bob.")
    with store.write(*SCOPES) as tx:
        assert commands.cancel_task(tx, top, "ann")
        assert require_task(tx, top.id).reason == "Cancelled by ann."
    done = put(store, family[1], TaskState.DONE)
    with pytest.raises(CommandRefused), store.write(*SCOPES) as tx:
        commands.cancel_task(tx, done, "ann")


@pytest.mark.parametrize("state", TaskState)
def test_each_command_has_states_in_which_it_means_something(family, store, state):
    moved = put(store, family[3], state)
    verbs = {commands.resume_task: commands.RESUMABLE, commands.retry_task: commands.RETRIABLE}
    for verb, allowed in verbs.items():
        if state not in allowed:
            with pytest.raises(CommandRefused, match="and cannot be"), store.write(*SCOPES) as tx:
                verb(tx, moved, "ann")


def test_nothing_starts_again_while_its_last_run_has_not_ended(family, store):
    top = family[0]
    begin(store, top)
    with store.write(*SCOPES) as tx:
        commands.stop_task(tx, require_task(tx, top.id), "ann")
        stopped = require_task(tx, top.id)
        for verb in (commands.resume_task, commands.retry_task):
            with pytest.raises(CommandRefused) as refused:
                verb(tx, stopped, "ann")
            assert "has not ended" in refused.value.remedy
