"""The rules of pull requests: merged, closed, or another head. Pure."""

from __future__ import annotations

from hostler.intake.effects import Begin, Decision, Effect, Known, Move, PullIs
from hostler.intake.people import Watch, is_ignored
from hostler.intake.signals import PullSeen
from hostler.store.pull_requests import PullRow, PullStatus
from hostler.store.tasks import Flow, Task, TaskState


def on_pull(seen: PullSeen, known: Known, watch: Watch) -> Decision:
    """What one version of a pull request causes."""
    if not known.newest:
        return Decision("A newer version of the pull request is known.")
    if known.pull is None or known.pull_task is None:
        if known.opening:
            return Decision("A pull request is just being opened; it may be this.", waits=True)
        return Decision("It is not ours.")
    if known.pull.final:
        return Decision(f"It is {known.pull.status}, which is final.")
    if seen.merged:
        return _merged(seen, known, known.pull, known.pull_task, watch)
    if not seen.is_open:
        return _closed(seen, known.pull, known.pull_task)
    if seen.head_sha == known.pull.last_seen_head_sha:
        return Decision("Nothing that matters here has changed.")
    moved = PullIs(known.pull, known.pull.status, seen.head_sha)
    return Decision("It has a new head.", (moved,))


def _merged(seen: PullSeen, known: Known, pull: PullRow, task: Task, watch: Watch) -> Decision:
    effects: list[Effect] = [PullIs(pull, PullStatus.MERGED, seen.head_sha)]
    if task.state is not TaskState.DONE:
        effects.append(Move(task, TaskState.DONE, f"Pull request {pull.pr_number} was merged."))
    if task.flow is Flow.DESIGN:
        effects += _implementation(seen, known, task, watch)
    return Decision("It was merged.", tuple(effects))


def _implementation(seen: PullSeen, known: Known, design: Task, watch: Watch) -> list[Effect]:
    """Begin the implementation of a merged design.

    Not if its issue is closed, or if the issue or the pull request carries the ignore label:
    then people have the work.
    """
    issue = known.issue
    if issue is None or not issue.is_open or is_ignored(watch, {*issue.labels, *seen.labels}):
        return []
    if any(task.flow is Flow.IMPLEMENTATION for task in known.tasks):
        return []
    return [
        Begin(
            Flow.IMPLEMENTATION,
            issue,
            design.approved_by,
            parent=design,
            heard_from=seen.merged_at,
        )
    ]


def _closed(seen: PullSeen, pull: PullRow, task: Task) -> Decision:
    reason = f"Pull request {pull.pr_number} was closed without merging."
    effects: list[Effect] = [PullIs(pull, PullStatus.CLOSED, seen.head_sha)]
    if not task.over:
        effects.append(Move(task, TaskState.STOPPED, reason))
    return Decision(reason, tuple(effects))
