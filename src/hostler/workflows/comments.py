"""Texts posted on GitHub: pull requests, questions, replies, and the receipt after a merge."""

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
BLOCKED_REMEDY = (
    "How should this continue? Reply here, or fix the cause. Then an operator can comment "
    "`/hostler unblock` to continue."
)
_CLOSING_KEYWORD = r"(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)(?=:?\s+#{number}\b)"


def times_text(count: int) -> str:
    """Return a count as words: once, 2 times."""
    return "once" if count == 1 else f"{count} times"


def _pull_token(task: Task) -> str:
    """Return the token of a pull request: one per task and turn."""
    return f"pull:{task.id}:{task.turn}"


def build_pull_write(task: Task, result: AgentResult | None, base: str) -> QueueWrite:
    """Return the write that opens a task's pull request."""
    action = OpenPull(
        number=task.number,
        head=task.branch,
        base=base,
        title=pull_title(task, result),
        body=pull_body(task, result),
    )
    return QueueWrite(action, _pull_token(task), Lane.FEEDBACK, "pull")


def pull_title(task: Task, result: AgentResult | None) -> str:
    """Return the agent's title, else the issue's."""
    text = result.pr_title.strip() if result else ""
    return text or (f"Design: {task.title}" if task.flow is Flow.DESIGN else task.title)


def pull_body(task: Task, result: AgentResult | None) -> str:
    """The agent's words and the link to the issue. Merging a design must not close its issue."""
    text = (result.pr_body.strip() or result.summary.strip()) if result else ""
    if task.by_hand:
        return text or task.prompt.strip()[:MAX_BODY_LENGTH]
    if task.flow is Flow.DESIGN:
        text = re.sub(_CLOSING_KEYWORD.format(number=task.number), "Refs", text)
    word = "Refs" if task.flow is Flow.DESIGN else "Fixes"
    after = "" if task.flow is not Flow.DESIGN else "\n\nMerging this starts the implementation."
    return f"{text}\n\n{word} #{task.number}{after}".strip()


def commit_message(task: Task, result: AgentResult | None) -> str:
    """For what the agent left uncommitted."""
    text = result.commit_message.strip() if result else ""
    refers = f"\n\nRefs #{task.number}" if not task.by_hand else ""
    return text or f"{pull_title(task, result)}{refers}"


def build_question(task: Task, text: str) -> QueueWrite:
    """Return the write that asks a question on the thread of the task."""
    body = f"{text.strip()}\n\n*Reply to this comment to continue.*"
    token = build_token("ask", task.id, task.attempt, text)
    return QueueWrite(CreateComment(_thread_number(task), body), token, Lane.FEEDBACK, "question")


def build_blocked_comment(task: Task, why: str, branch: str) -> QueueWrite:
    """Return the write that says why a task is blocked and where its work is."""
    where = f"\n\nThe work so far is on branch `{branch}`." if branch else ""
    body = f"**Blocked:** {why.strip()}{where}\n\n{BLOCKED_REMEDY}"
    token = build_token("blocked", task.id, task.attempt, why)
    return QueueWrite(CreateComment(_thread_number(task), body), token, Lane.FEEDBACK, "blocked")


def build_replies(
    task: Task, comments: Sequence[CommentEvent], result: AgentResult | None, head: str | None
) -> list[Effect]:
    """Return a reply to each answered comment, and one for the others on the pull request."""
    text = {reply.comment_id: reply.body for reply in result.replies} if result else {}
    answered = [one for one in comments if one.row.object_id in text]
    unanswered = [
        one for one in comments if one.row.object_id not in text and _is_on_pull(task, one)
    ]
    effects: list[Effect] = [_reply(one, text[one.row.object_id]) for one in answered]
    if unanswered:
        token = build_token("turn", *sorted(one.row.event_key for one in unanswered))
        body = _summary_text(unanswered, result, head)
        effects.append(
            QueueWrite(CreateComment(task.pr_number or 0, body), token, Lane.FEEDBACK, "reply")
        )
    return effects


def _reply(text: CommentEvent, body: str) -> QueueWrite:
    token = build_token("reply", text.row.event_key)
    if text.row.kind == ItemKind.REVIEW_COMMENT:
        action: ReplyToReviewComment | CreateComment = ReplyToReviewComment(
            text.row.scope_number, text.thread, body
        )
    else:
        action = CreateComment(text.row.scope_number, f"@{text.row.author}: {body}")
    return QueueWrite(action, token, Lane.FEEDBACK, "reply")


def _summary_text(
    unanswered: Sequence[CommentEvent], result: AgentResult | None, head: str | None
) -> str:
    authors = ", ".join(f"@{name}" for name in sorted({one.row.author for one in unanswered}))
    what = result.summary.strip() if result else ""
    did = f"Done in {head[:7]}." if head else "No changes were needed."
    return f"{authors}: {did} {what}".strip()


def _is_on_pull(task: Task, text: CommentEvent) -> bool:
    return task.pr_number is not None and text.row.scope_number == task.pr_number


def _thread_number(task: Task) -> int:
    return task.pr_number or task.number


def post_receipt(tx: Transaction, task: Task) -> None:
    """Post once on a merged pull request what it cost."""
    if task.state is not TaskState.DONE or task.repo_full_name is None or not task.pr_number:
        return
    pull = find_pull(tx, task.repo, task.pr_number)
    if pull is None or pull.status is not PullStatus.MERGED:
        return
    action = CreateComment(task.pr_number, render_receipt(runs_of(tx, task.id), task.turn))
    token = build_token("receipt", task.id, task.pr_number)
    enqueue_action(tx, task.repo, action, token=token, lane=Lane.STATUS, source="receipt")


def render_receipt(runs: Sequence[Run], turns: int) -> str:
    """Return runs, time, tokens and cost as a table."""
    counted = [run for run in runs if run.counted]
    unpriced = sum(1 for run in counted if not run.usd)
    cost = f"{sum(run.usd for run in counted):.2f} USD"
    if unpriced:
        cost += f" ({_runs_text(unpriced)} reported no cost, counted as 0)"
    tokens = (
        f"{sum(run.input_tokens for run in counted):,} in, "
        f"{sum(run.output_tokens for run in counted):,} out, "
        f"{sum(run.cached_tokens for run in counted):,} cached"
    )
    rows = {
        "agent runs": f"{len(counted)} in {turns} turns",
        "agent time": _duration_text(sum(map(run_seconds, counted))),
        "tokens": tokens,
        "cost": cost,
    }
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(["Cost of this pull request:", "", "| | |", "|---|---|", *lines])


def run_seconds(run: Run) -> float:
    """Return how long an agent was running; 0 if the clock was set back."""
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
