"""The words that people read on GitHub: questions, blocks, pull requests, replies. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hostler.agents.result import Result
from hostler.flows.steps import Effect, Write
from hostler.forge.deeds import Comment, OpenPull, Reply
from hostler.forge.outbox import token_of
from hostler.forge.port import ItemKind
from hostler.intake import Remark
from hostler.store.outbox import Lane
from hostler.store.tasks import Flow, Task

LONGEST_BODY = 4000
BLOCKED_QUESTION = (
    "How shall it go on? Say it here with a comment, or change what stands in the way. "
    "It is taken up when an operator says `/hostler unblock`."
)
_CLOSING = r"(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)(?=:?\s+#{number}\b)"


def often(count: int) -> str:
    """How many times, in words."""
    return "once" if count == 1 else f"{count} times"


def pull_token(task: Task) -> str:
    """A pull request is opened once for each stretch of work; a turn of feedback is a new one."""
    return f"pull:{task.id}:{task.turn}"


def open_pull(task: Task, result: Result | None, base: str) -> Write:
    """The pull request of a task's work."""
    deed = OpenPull(
        number=task.number,
        head=task.branch,
        base=base,
        title=pull_title(task, result),
        body=pull_body(task, result),
    )
    return Write(deed, pull_token(task), Lane.FEEDBACK, "pull")


def pull_title(task: Task, result: Result | None) -> str:
    """The agent's title, else the issue's."""
    said = result.pr_title.strip() if result else ""
    return said or (f"Design: {task.title}" if task.flow is Flow.DESIGN else task.title)


def pull_body(task: Task, result: Result | None) -> str:
    """The agent's words and the link to the issue. Merging a design must not close its issue."""
    said = (result.pr_body.strip() or result.summary.strip()) if result else ""
    if task.by_hand:
        return said or task.prompt.strip()[:LONGEST_BODY]
    if task.flow is Flow.DESIGN:
        said = re.sub(_CLOSING.format(number=task.number), "Refs", said)
    word = "Refs" if task.flow is Flow.DESIGN else "Fixes"
    after = "" if task.flow is not Flow.DESIGN else "\n\nMerging this starts the implementation."
    return f"{said}\n\n{word} #{task.number}{after}".strip()


def commit_message(task: Task, result: Result | None) -> str:
    """For what the agent left uncommitted."""
    said = result.commit_message.strip() if result else ""
    refers = f"\n\nRefs #{task.number}" if not task.by_hand else ""
    return said or f"{pull_title(task, result)}{refers}"


def question(task: Task, text: str) -> Write:
    """Ask a person, where the talk about this work is."""
    body = f"{text.strip()}\n\n*Answer here with a comment, and the work goes on.*"
    token = token_of("ask", task.id, task.attempt, text)
    return Write(Comment(_thread(task), body), token, Lane.FEEDBACK, "question")


def blocked(task: Task, why: str, kept: str) -> Write:
    """Say that the work cannot go on, and where it is."""
    where = f"\n\nThe work so far is on the branch `{kept}`." if kept else ""
    body = f"The work cannot go on by itself:\n\n{why.strip()}{where}\n\n{BLOCKED_QUESTION}"
    token = token_of("blocked", task.id, task.attempt, why)
    return Write(Comment(_thread(task), body), token, Lane.FEEDBACK, "blocked")


def replies(
    task: Task, remarks: Sequence[Remark], result: Result | None, head: str | None
) -> list[Effect]:
    """One answer per remark, in its own thread; one for all those the agent did not answer."""
    said = {reply.comment_id: reply.body for reply in result.replies} if result else {}
    answered = [one for one in remarks if one.row.object_id in said]
    silent = [one for one in remarks if one.row.object_id not in said and _on_pull(task, one)]
    effects: list[Effect] = [_reply(one, said[one.row.object_id]) for one in answered]
    if silent:
        token = token_of("turn", *sorted(one.row.event_key for one in silent))
        body = _summary(silent, result, head)
        effects.append(Write(Comment(task.pr_number or 0, body), token, Lane.FEEDBACK, "reply"))
    return effects


def _reply(said: Remark, body: str) -> Write:
    token = token_of("reply", said.row.event_key)
    if said.row.kind == ItemKind.REVIEW_COMMENT:
        deed: Reply | Comment = Reply(said.row.scope_number, said.thread, body)
    else:
        deed = Comment(said.row.scope_number, f"@{said.row.author}: {body}")
    return Write(deed, token, Lane.FEEDBACK, "reply")


def _summary(silent: Sequence[Remark], result: Result | None, head: str | None) -> str:
    who = ", ".join(f"@{name}" for name in sorted({one.row.author for one in silent}))
    what = result.summary.strip() if result else ""
    did = f"Taken up in {head}." if head else "Looked at; nothing was changed."
    return f"{who}: {did} {what}".strip()


def _on_pull(task: Task, said: Remark) -> bool:
    return task.pr_number is not None and said.row.scope_number == task.pr_number


def _thread(task: Task) -> int:
    return task.pr_number or task.number
