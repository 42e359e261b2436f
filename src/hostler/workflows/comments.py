"""Texts posted on GitHub: pull requests, questions, replies, and the receipt of a merge."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hostler.agents.result import AgentResult
from hostler.forge.actions import CreateComment, OpenPull, ReplyToReviewComment
from hostler.forge.outbox.queue import build_token, enqueue_action
from hostler.forge.port import ItemKind
from hostler.intake.model import CommentEvent
from hostler.model import parse_timestamp
from hostler.store.outbox import Lane
from hostler.store.pull_requests import PullStatus, find_pull
from hostler.store.runs import Run, runs_of
from hostler.store.tasks import Flow, Task, TaskState
from hostler.store.transaction import Transaction
from hostler.workflows.effects import Effect, QueueWrite

MAX_BODY_LENGTH = 4000
BLOCKED_QUESTION = (
    "How shall it go on? Say it here with a comment, or change what stands in the way. "
    "It is taken up when an operator says `/hostler unblock`."
)
_CLOSING_KEYWORD = r"(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)(?=:?\s+#{number}\b)"


def times_text(count: int) -> str:
    """How many times, in words."""
    return "once" if count == 1 else f"{count} times"


def pull_token(task: Task) -> str:
    """A pull request is opened once for each stretch of work; a turn of feedback is a new one."""
    return f"pull:{task.id}:{task.turn}"


def build_pull_write(task: Task, result: AgentResult | None, base: str) -> QueueWrite:
    """The pull request of a task's work."""
    deed = OpenPull(
        number=task.number,
        head=task.branch,
        base=base,
        title=pull_title(task, result),
        body=pull_body(task, result),
    )
    return QueueWrite(deed, pull_token(task), Lane.FEEDBACK, "pull")


def pull_title(task: Task, result: AgentResult | None) -> str:
    """The agent's title, else the issue's."""
    said = result.pr_title.strip() if result else ""
    return said or (f"Design: {task.title}" if task.flow is Flow.DESIGN else task.title)


def pull_body(task: Task, result: AgentResult | None) -> str:
    """The agent's words and the link to the issue. Merging a design must not close its issue."""
    said = (result.pr_body.strip() or result.summary.strip()) if result else ""
    if task.by_hand:
        return said or task.prompt.strip()[:MAX_BODY_LENGTH]
    if task.flow is Flow.DESIGN:
        said = re.sub(_CLOSING_KEYWORD.format(number=task.number), "Refs", said)
    word = "Refs" if task.flow is Flow.DESIGN else "Fixes"
    after = "" if task.flow is not Flow.DESIGN else "\n\nMerging this starts the implementation."
    return f"{said}\n\n{word} #{task.number}{after}".strip()


def commit_message(task: Task, result: AgentResult | None) -> str:
    """For what the agent left uncommitted."""
    said = result.commit_message.strip() if result else ""
    refers = f"\n\nRefs #{task.number}" if not task.by_hand else ""
    return said or f"{pull_title(task, result)}{refers}"


def build_question(task: Task, text: str) -> QueueWrite:
    """Ask a person, where the talk about this work is."""
    body = f"{text.strip()}\n\n*Answer here with a comment, and the work goes on.*"
    token = build_token("ask", task.id, task.attempt, text)
    return QueueWrite(CreateComment(_thread_number(task), body), token, Lane.FEEDBACK, "question")


def build_blocked_comment(task: Task, why: str, kept: str) -> QueueWrite:
    """Say that the work cannot go on, and where it is."""
    where = f"\n\nThe work so far is on the branch `{kept}`." if kept else ""
    body = f"The work cannot go on by itself:\n\n{why.strip()}{where}\n\n{BLOCKED_QUESTION}"
    token = build_token("blocked", task.id, task.attempt, why)
    return QueueWrite(CreateComment(_thread_number(task), body), token, Lane.FEEDBACK, "blocked")


def build_replies(
    task: Task, remarks: Sequence[CommentEvent], result: AgentResult | None, head: str | None
) -> list[Effect]:
    """One answer per remark, in its own thread; one for all those the agent did not answer."""
    said = {reply.comment_id: reply.body for reply in result.replies} if result else {}
    answered = [one for one in remarks if one.row.object_id in said]
    silent = [one for one in remarks if one.row.object_id not in said and _is_on_pull(task, one)]
    effects: list[Effect] = [_reply(one, said[one.row.object_id]) for one in answered]
    if silent:
        token = build_token("turn", *sorted(one.row.event_key for one in silent))
        body = _summary_text(silent, result, head)
        effects.append(
            QueueWrite(CreateComment(task.pr_number or 0, body), token, Lane.FEEDBACK, "reply")
        )
    return effects


def _reply(said: CommentEvent, body: str) -> QueueWrite:
    token = build_token("reply", said.row.event_key)
    if said.row.kind == ItemKind.REVIEW_COMMENT:
        deed: ReplyToReviewComment | CreateComment = ReplyToReviewComment(
            said.row.scope_number, said.thread, body
        )
    else:
        deed = CreateComment(said.row.scope_number, f"@{said.row.author}: {body}")
    return QueueWrite(deed, token, Lane.FEEDBACK, "reply")


def _summary_text(
    silent: Sequence[CommentEvent], result: AgentResult | None, head: str | None
) -> str:
    who = ", ".join(f"@{name}" for name in sorted({one.row.author for one in silent}))
    what = result.summary.strip() if result else ""
    did = f"Taken up in {head}." if head else "Looked at; nothing was changed."
    return f"{who}: {did} {what}".strip()


def _is_on_pull(task: Task, said: CommentEvent) -> bool:
    return task.pr_number is not None and said.row.scope_number == task.pr_number


def _thread_number(task: Task) -> int:
    return task.pr_number or task.number


def post_receipt(tx: Transaction, task: Task) -> None:
    """Say once on a merged pull request what it took."""
    if task.state is not TaskState.DONE or task.repo_full_name is None or not task.pr_number:
        return
    pull = find_pull(tx, task.repo, task.pr_number)
    if pull is None or pull.status is not PullStatus.MERGED:
        return
    deed = CreateComment(task.pr_number, render_receipt(runs_of(tx, task.id), task.turn))
    token = build_token("receipt", task.id, task.pr_number)
    enqueue_action(tx, task.repo, deed, token=token, lane=Lane.STATUS, source="receipt")


def render_receipt(runs: Sequence[Run], turns: int) -> str:
    """Runs, time, tokens and cost, as a table. Pure."""
    at_work = [run for run in runs if run.counted]
    unpriced = sum(1 for run in at_work if not run.usd)
    cost = f"{sum(run.usd for run in at_work):.2f} USD"
    if unpriced:
        cost += f" ({_runs_text(unpriced)} named no cost, and count as nothing)"
    tokens = (
        f"{sum(run.input_tokens for run in at_work):,} in, "
        f"{sum(run.output_tokens for run in at_work):,} out, "
        f"{sum(run.cached_tokens for run in at_work):,} cached"
    )
    rows = {
        "runs of an agent": f"{len(at_work)}, in {turns} turns",
        "time at work": _duration_text(sum(map(run_seconds, at_work))),
        "tokens": tokens,
        "cost": cost,
    }
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(["What this pull request took:", "", "| | |", "|---|---|", *lines])


def run_seconds(run: Run) -> float:
    """How long an agent was at work; clocks that were set back count as nothing."""
    if run.running_at is None or run.exited_at is None:
        return 0.0
    return max(
        (parse_timestamp(run.exited_at) - parse_timestamp(run.running_at)).total_seconds(), 0.0
    )


def _runs_text(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _duration_text(total: float) -> str:
    minutes = int(total // 60)
    if minutes < 1:
        return f"{int(total)} s"
    hours = f"{minutes // 60} h " if minutes >= 60 else ""
    return f"{hours}{minutes % 60} min"
