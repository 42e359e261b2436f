"""Edges that are easy to lose: others' commits, counters after a question, tasks that are over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from workflow_farm import SCOPES, Farm, said

from hostler.checkouts.mirror import fetch_mirror
from hostler.store.outbox import WriteState, open_writes
from hostler.store.tasks import TaskState, change_task, require_task
from hostler.workflows.effects import handle_settled_write
from hostler.workflows.outcomes import to_needs_input


@pytest.mark.parametrize("known", [False, True])
def test_a_persons_commit_on_our_branch_is_never_pushed_over(farm: Farm, known: bool):
    """Somebody pushes to the branch while an agent works on it: the agent is sent back to merge."""
    task = farm.walk()
    farm.hub.pulls[2]["head"]["sha"] = farm.on_remote(task.branch)
    farm.say(2, "Shorter, please.")
    farm.poll()
    begun, checkout = farm.begin(farm.reread(task))
    folder = farm.person()
    farm.git("checkout", "-q", "-B", "theirs", f"origin/{task.branch}", cwd=folder)
    farm.git.commit(folder, "theirs.py", "theirs = True\n")
    farm.git("push", "-q", "origin", f"theirs:{task.branch}", cwd=folder)
    theirs = farm.on_remote(task.branch)
    if known:
        fetch_mirror(farm.desk.mirror, farm.remote)
    farm.git.commit(checkout.path, "ours.py", "ours = True\n")
    after = farm.close(begun, said(reply="Done."))
    assert farm.on_remote(task.branch) == theirs
    assert after.state in (TaskState.RETRYING, TaskState.QUEUED)
    assert f"is at {theirs[:12]}" in after.reason and "Merge the remote's commits" in after.note


def test_after_a_question_the_counters_begin_anew(farm: Farm):
    task = replace(farm.walk(), exits_without_progress=2, requeues=4)
    asked = to_needs_input(task, "Which one?").task
    assert (asked.exits_without_progress, asked.requeues) == (0, 0)


def test_a_pull_request_that_github_refuses_does_not_block_a_task_that_is_over(farm: Farm):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    farm.git.commit(checkout.path, "fix.py", "fixed = True\n")
    farm.close(task, said())
    with farm.store.write(*SCOPES) as tx:
        (row,) = (row for row in open_writes(tx) if row.kind == "open_pull")
        now = require_task(tx, task.id)
        stopped = change_task(tx, now, replace(now, state=TaskState.STOPPED))
        handle_settled_write(tx, replace(row, state=WriteState.FAILED, last_error="No."))
    assert farm.reread(stopped).state is TaskState.STOPPED


def test_a_pull_request_that_github_refuses_blocks_its_task(farm: Farm):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    farm.git.commit(checkout.path, "fix.py", "fixed = True\n")
    farm.close(task, said())
    with farm.store.write(*SCOPES) as tx:
        (row,) = (row for row in open_writes(tx) if row.kind == "open_pull")
        handle_settled_write(tx, replace(row, state=WriteState.FAILED, last_error="No."))
    after = farm.reread(task)
    assert after.state is TaskState.BLOCKED and after.reason.endswith("No.")
