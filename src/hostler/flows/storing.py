"""A step becomes rows: the task, the writes, the answered words, and the status comment."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from hostler.flows.status import publish
from hostler.flows.steps import Answered, Effect, PullStands, Step, Write
from hostler.forge.deeds import OpenPull
from hostler.forge.outbox import enqueue
from hostler.store.inbox import mark_feedback_events_processed
from hostler.store.pull_requests import change_pull, find_pull
from hostler.store.tasks import Task, change_task
from hostler.store.transaction import Transaction


def store_step(tx: Transaction, before: Task, step: Step) -> Task:
    """Make a step true, in the transaction of its cause."""
    after = change_task(tx, before, step.task) if step.task != before else before
    for effect in step.effects:
        _store(tx, after, effect)
    return publish(tx, after)


def _store(tx: Transaction, task: Task, effect: Effect) -> None:
    match effect:
        case Write() if not _has_thread(task, effect):
            return  # nobody on GitHub asked for it: the bus and the task's own state tell of it
        case Write(deed, token, lane, source):
            enqueue(tx, task.repo, deed, token=token, lane=lane, source=source)
        case Answered(keys):
            mark_feedback_events_processed(tx, task.repo, keys)
        case PullStands():
            _pull(tx, task, effect)
        case _:
            assert_never(effect)


def _has_thread(task: Task, write: Write) -> bool:
    """Whether there is a place on GitHub for these words. A pull request makes its own."""
    if task.repo_full_name is None:
        return False
    return bool(task.issue_number or task.pr_number) or isinstance(write.deed, OpenPull)


def _pull(tx: Transaction, task: Task, stands: PullStands) -> None:
    pull = find_pull(tx, task.repo, task.pr_number or 0)
    if pull is None or pull.final:
        return
    after = replace(
        pull,
        status=stands.status,
        last_seen_head_sha=stands.head_sha or pull.last_seen_head_sha,
        turns_without_person=pull.turns_without_person + stands.without_person,
    )
    change_pull(tx, pull, after)
