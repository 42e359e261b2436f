"""The rules of remarks: which are feedback, an answer, or nothing. Pure."""

from __future__ import annotations

from dataclasses import replace

from hostler.forge.port import ItemKind
from hostler.intake.effects import Decision, Hear, Known, Redirect
from hostler.intake.operator import parse
from hostler.intake.orders import on_command
from hostler.intake.people import Watch, refusal
from hostler.intake.signals import Remark
from hostler.store.pull_requests import PullStatus
from hostler.store.tasks import Task, TaskState

BLOCKED = Decision("The task is blocked; it is heard when it goes on.", waits=True, held=True)


def on_remark(said: Remark, known: Known, watch: Watch) -> Decision:
    """What one version of somebody's words causes."""
    if not known.newest:
        return Decision("It was changed since; the newer version counts.")
    asked = parse(said.body)
    if asked is None:
        return _on_words(said, known, watch)
    decided = on_command(said, asked, known, watch)
    if decided.waits or not said.is_work(watch.obeys(said.row.author)):
        return decided
    # Of somebody who gives no commands, the other words in it are heard like any.
    heard = _on_words(said, known, watch)
    return replace(heard, effects=(*decided.effects, *heard.effects))


def _on_words(said: Remark, known: Known, watch: Watch) -> Decision:
    if not watch.allows(said.row.author):
        return Decision(refusal(said.row.author))
    if said.is_empty:
        return Decision("It asks for nothing.")
    if said.row.updated_at < known.floors.heard_from:
        return Decision("It was said while people had the work.")
    if known.pull is not None and known.pull_task is not None:
        return _on_pull(said, known, known.pull_task)
    if known.present is not None and said.row.kind == ItemKind.ISSUE_COMMENT:
        return _on_issue(said, known, known.present)
    if known.opening:
        return Decision("A pull request is just being opened; it may be about that.", waits=True)
    return Decision("There is no task for it.")


def _on_pull(said: Remark, known: Known, task: Task) -> Decision:
    assert known.pull is not None
    if known.pull.final:
        return Decision(f"The pull request is {known.pull.status}, which is final.")
    if task.over:
        return Decision(f"The task is {task.state}.")
    if known.pull.status is PullStatus.BLOCKED or task.state is TaskState.BLOCKED:
        return BLOCKED
    return Decision(f"{said.row.author} said it.", (Hear(task, said, known.pull.pr_number),))


def _on_issue(said: Remark, known: Known, task: Task) -> Decision:
    if task.over:
        return Decision(f"The task is {task.state}.")
    if task.state is TaskState.BLOCKED:
        return BLOCKED
    if task.state is TaskState.NEEDS_INPUT:
        return Decision(f"{said.row.author} answers.", (Hear(task, said, 0),))
    if task.pr_number is None or _was_told(said, known):
        return Decision(f"{said.row.author} said it on the issue.", (Hear(task, said, 0),))
    if _was_redirected(said, known):
        return Decision("It was sent to the pull request before.")
    return Decision(
        f"The work is talked about on pull request {task.pr_number}.",
        (Redirect(task, said, task.pr_number),),
    )


def _was_told(said: Remark, known: Known) -> bool:
    """What an agent was told before, or was said before there was a pull request, is told."""
    before = said.row.object_id <= known.floors.pre_pr_last_consumed_comment_id
    return known.told or (before and not known.redirected)


def _was_redirected(said: Remark, known: Known) -> bool:
    """An edit gets no second reply. A first version below the floor has only come late."""
    below = said.row.object_id <= known.floors.post_pr_last_redirected_comment_id
    return known.redirected or (below and not known.first)
