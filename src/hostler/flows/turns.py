"""What a turn is, and the rows that say that it has begun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from enum import StrEnum

from hostler.checkouts.names import branch_name, slug
from hostler.flows.material import Material, gather, waiting
from hostler.flows.status import publish
from hostler.intake import Remark
from hostler.store.inbox import mark_feedback_events_processed
from hostler.store.tasks import Task, TaskState, change_task
from hostler.store.transaction import Transaction

# From these a turn can begin; a parked or retrying one when its time has come.
STARTABLE = frozenset({TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED})


class Turn(StrEnum):
    """What an agent is asked for this time."""

    WORK = "work"
    FEEDBACK = "feedback"
    CI = "ci"
    ANSWER = "answer"
    REPAIR = "repair"


def turn_of(task: Task, material: Material) -> Turn:
    """Which turn this is. Something to mend comes before everything else."""
    if task.note:
        return Turn.REPAIR
    if is_feedback(task, material):
        return Turn.FEEDBACK if material.remarks else Turn.CI
    return Turn.ANSWER if task.question and material.remarks else Turn.WORK


def is_feedback(task: Task, material: Material) -> bool:
    """Whether a turn is about work that is on a pull request already."""
    return task.pr_number is not None and bool(material.remarks or material.failures)


def begin_turn(tx: Transaction, task: Task) -> Task:
    """The task is running from now on, with all the words that wait; part of its admission."""
    if task.state not in STARTABLE:
        raise ValueError(f"{task.id} is {task.state}: no turn can begin")
    begun = replace(
        task,
        state=TaskState.RUNNING,
        reason="An agent is at work.",
        attempt=task.attempt + 1,
        turn_keys=tuple(waiting(tx, task)),
        branch=task.branch or branch_of(task),
        wake_at=None,
        finishing=False,
    )
    return publish(tx, change_task(tx, task, begun))


def hear_in_turn(tx: Transaction, task: Task, said: Iterable[tuple[str, str]]) -> Task:
    """Words that reached the agent at work belong to its present turn: who said what."""
    if task.state is not TaskState.RUNNING:
        return task
    new = [key for key in waiting(tx, task) if key not in task.turn_keys]
    keys = told(gather(tx, task, new).remarks, said)
    if not keys:
        return task
    return change_task(tx, task, replace(task, turn_keys=(*task.turn_keys, *keys)))


def told(remarks: Iterable[Remark], said: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Keys of the remarks that are among what was said. Pure; the same words twice are two."""
    left = Counter(said)
    found = []
    for remark in remarks:
        words = (remark.row.author, remark.body)
        if left[words] > 0:
            left[words] -= 1
            found.append(remark.row.event_key)
    return tuple(found)


def branch_of(task: Task) -> str:
    """The branch that a task works on; none in a folder."""
    if task.by_hand:
        return f"agent/{task.flow}/{task.id}" if task.repo_full_name else ""
    return branch_name(task.flow, task.number, task.title)


def take_back(tx: Transaction, task: Task) -> Task:
    """The turn never began: its attempt does not count, and its place in the order is kept."""
    if task.state is not TaskState.RUNNING:
        return task
    attempt = max(task.attempt - 1, 0)
    back = replace(task, state=TaskState.QUEUED, reason="", attempt=attempt, finishing=False)
    return change_task(tx, task, back)


def forget(tx: Transaction, task: Task, keys: Collection[str]) -> Task:
    """Words that were taken back need no answer; a turn that was about nothing else ends."""
    mark_feedback_events_processed(tx, task.repo, keys)
    left = tuple(key for key in task.turn_keys if key not in set(keys))
    after = replace(task, turn_keys=left)
    if task.state is TaskState.RUNNING and task.pr_number and not left and not task.note:
        reason = "What was said was taken back."
        after = replace(after, state=TaskState.AWAITING_FEEDBACK, reason=reason)
    return publish(tx, change_task(tx, task, after))


def resume_finishing(tx: Transaction, task: Task) -> Task:
    """Only our own part is left: no agent is needed, and no attempt is counted."""
    if not task.finishing or task.state is not TaskState.PARKED:
        raise ValueError(f"{task.id} is {task.state}: there is nothing to finish")
    again = replace(task, state=TaskState.RUNNING, reason="Its work is on its way.", wake_at=None)
    return change_task(tx, task, again)


def design_path(task: Task) -> str:
    """Where the design of an issue is, and its implementation finds it."""
    return f"docs/design/{task.number}-{slug(task.title)}.md"
