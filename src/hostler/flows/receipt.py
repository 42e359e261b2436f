"""What a merged pull request has cost, as one comment at its end."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.forge.deeds import Comment
from hostler.forge.outbox import enqueue, token_of
from hostler.model import parse_stamp
from hostler.store.outbox import Lane
from hostler.store.pull_requests import PullStatus, find_pull
from hostler.store.runs import Run, runs_of
from hostler.store.tasks import Task, TaskState
from hostler.store.transaction import Transaction


def leave_receipt(tx: Transaction, task: Task) -> None:
    """Say once on a merged pull request what it took."""
    if task.state is not TaskState.DONE or task.repo_full_name is None or not task.pr_number:
        return
    pull = find_pull(tx, task.repo, task.pr_number)
    if pull is None or pull.status is not PullStatus.MERGED:
        return
    deed = Comment(task.pr_number, receipt(runs_of(tx, task.id), task.turn))
    token = token_of("receipt", task.id, task.pr_number)
    enqueue(tx, task.repo, deed, token=token, lane=Lane.STATUS, source="receipt")


def receipt(runs: Sequence[Run], turns: int) -> str:
    """Runs, time, tokens and cost, as a table. Pure."""
    at_work = [run for run in runs if run.counted]
    unpriced = sum(1 for run in at_work if not run.usd)
    cost = f"{sum(run.usd for run in at_work):.2f} USD"
    if unpriced:
        cost += f" ({_runs(unpriced)} named no cost, and count as nothing)"
    tokens = (
        f"{sum(run.input_tokens for run in at_work):,} in, "
        f"{sum(run.output_tokens for run in at_work):,} out, "
        f"{sum(run.cached_tokens for run in at_work):,} cached"
    )
    rows = {
        "runs of an agent": f"{len(at_work)}, in {turns} turns",
        "time at work": _time(sum(map(seconds, at_work))),
        "tokens": tokens,
        "cost": cost,
    }
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(["What this pull request took:", "", "| | |", "|---|---|", *lines])


def seconds(run: Run) -> float:
    """How long an agent was at work; clocks that were set back count as nothing."""
    if run.running_at is None or run.exited_at is None:
        return 0.0
    return max((parse_stamp(run.exited_at) - parse_stamp(run.running_at)).total_seconds(), 0.0)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _time(total: float) -> str:
    minutes = int(total // 60)
    if minutes < 1:
        return f"{int(total)} s"
    hours = f"{minutes // 60} h " if minutes >= 60 else ""
    return f"{hours}{minutes % 60} min"
