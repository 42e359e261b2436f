"""The inputs of a turn (issue, comments, failing CI), its kind, and how it begins and ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile

from hostler.agents.outcomes import Outcome
from hostler.agents.result import AgentResult
from hostler.checkouts.names import build_branch_name, slugify
from hostler.forge.events import content_as
from hostler.forge.port import Forge, Item, ItemKind, Pull, WorkflowRun, last_lines
from hostler.intake.ci import build_flaky_issue, build_rerun
from hostler.intake.decisions import build_inbox_row
from hostler.intake.model import CommentEvent, IssueEvent, WorkflowRunEvent, parse_event
from hostler.intake.process import thread_number
from hostler.intake.repo_policy import RepoPolicy
from hostler.store.inbox import mark_feedback_events_processed, rows_by_key, waiting_keys
from hostler.store.outbox import Lane
from hostler.store.pull_requests import comment_floors
from hostler.store.runs import Run, RunState, runs_of
from hostler.store.tasks import Task, TaskState, change_task
from hostler.store.transaction import Transaction, normal_stamp
from hostler.workflows.effects import Effect, QueueWrite
from hostler.workflows.status_comment import publish_status_comment

# Logs of this many jobs per run are read; further jobs are only named.
MAX_LOGS = 5
MAX_LOG_LENGTH = 16_000
NO_LOG = "GitHub no longer has its log."
LOG_LEFT_OUT = "Its log was omitted."


@dataclass(frozen=True, slots=True)
class JobLog:
    """The end of a failed job's log."""

    job: str
    conclusion: str
    text: str


@dataclass(frozen=True, slots=True)
class CiFailure:
    """A failed workflow run of the present head. Logs are loaded when they are needed."""

    event: WorkflowRunEvent
    logs: tuple[JobLog, ...] = ()


def _still_fails(forge: Forge, failure: CiFailure) -> bool:
    """Return whether this attempt is still the newest, and its head still the present one."""
    found, event = forge.workflow_run(failure.event.row.object_id), failure.event
    if found is None:
        return False
    now = content_as(found, WorkflowRun)
    if not now.failed or now.attempt != event.run.attempt:
        return False
    return content_as(forge.pull(event.row.scope_number), Pull).head_sha == now.head_sha


def load_logs(forge: Forge, failures: Iterable[CiFailure], lines: int) -> tuple[CiFailure, ...]:
    """Return the failures with the ends of their logs. Queries the code host."""
    return tuple(replace(one, logs=_read_logs(forge, one, lines)) for one in failures)


def _read_logs(forge: Forge, failure: CiFailure, lines: int) -> tuple[JobLog, ...]:
    jobs = forge.failed_jobs(failure.event.run.id)
    read = [(job, forge.job_log(job.id) or NO_LOG) for job in jobs[:MAX_LOGS]]
    rest = [(job, LOG_LEFT_OUT) for job in jobs[MAX_LOGS:]]
    return tuple(
        JobLog(job.name, job.conclusion, last_lines(text, lines, MAX_LOG_LENGTH))
        for job, text in read + rest
    )


def rerun_suspected_flakes(failures: Iterable[CiFailure], summary: str) -> list[Effect]:
    """Return one rerun for each failure that an agent found nothing to change about."""
    report = f"Its summary: {summary.strip()[:1000]}" if summary.strip() else ""
    why = f"An agent found nothing to change. {report}".strip()
    effects: list[Effect] = []
    for one in failures:
        for deed, token in (build_rerun(one.event), build_flaky_issue(one.event, why)):
            effects.append(QueueWrite(deed, token, Lane.FEEDBACK, "ci"))
    return effects


# How many of the last attempts a prompt mentions.
MAX_HISTORY = 3


@dataclass(frozen=True, slots=True)
class TurnInput:
    """Everything from outside that a prompt can contain.

    `comments` are waiting for an answer, `failures` of CI for a fix; `conversation`: earlier
    comments of allowed users; `history`: how the last attempts ended, if they failed; `summary`:
    what the last good one reported. Comments made before `comments_since` are not shown to agents.
    """

    issue: IssueEvent | None = None
    comments: tuple[CommentEvent, ...] = ()
    failures: tuple[CiFailure, ...] = ()
    conversation: tuple[CommentEvent, ...] = ()
    history: tuple[str, ...] = ()
    summary: str = ""
    comments_since: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        rows = [comment.row for comment in self.comments] + [one.event.row for one in self.failures]
        return tuple(row.event_key for row in rows)


def load_turn_input(tx: Transaction, task: Task, keys: Iterable[str] | None = None) -> TurnInput:
    """Read the approved version of the issue and the events of this turn (`task.turn_keys`)."""
    runs = runs_of(tx, task.id)
    history, summary = describe_failed_attempts(runs), _find_last_summary(runs)
    if task.repo_full_name is None:
        return TurnInput(history=history, summary=summary)
    wanted = task.turn_keys if keys is None else tuple(keys)
    signals = [parse_event(row) for row in rows_by_key(tx, task.repo, [task.issue_key, *wanted])]
    issue = next((event for event in signals if isinstance(event, IssueEvent)), None)
    comments = tuple(event for event in signals if isinstance(event, CommentEvent))
    floors = comment_floors(tx, task.repo, thread_number(task))
    failures = tuple(CiFailure(event) for event in signals if isinstance(event, WorkflowRunEvent))
    known = TurnInput(issue, comments, failures, history=history, summary=summary)
    return replace(known, comments_since=floors.comments_since)


def describe_failed_attempts(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return how the newest attempts ended, oldest first, back to the last successful one."""
    ended = [run for run in runs if run.state is RunState.ENDED and run.counted]
    bad = list(takewhile(lambda run: run.outcome != Outcome.SUCCESS, reversed(ended)))
    return tuple(
        f"Attempt {run.attempt} ended as {run.outcome}. {run.why or ''}".strip()
        for run in reversed(bad[:MAX_HISTORY])
    )


def _find_last_summary(runs: Sequence[Run]) -> str:
    """Return the newest summary that a run reported."""
    summaries = (
        AgentResult.model_validate_json(run.result).summary for run in reversed(runs) if run.result
    )
    return next((text.strip() for text in summaries if text.strip()), "")


def pending_event_keys(tx: Transaction, task: Task) -> list[str]:
    """Return the keys of all events of a task that were not processed yet."""
    if task.repo_full_name is None:
        return []
    return waiting_keys(tx, task.repo, task.number, task.pr_number)


def add_conversation(
    turn_input: TurnInput, policy: RepoPolicy, thread: Iterable[Item]
) -> TurnInput:
    """Return the input with earlier comments of allowed users, except those of a takeover."""
    known = {comment.row.object_id for comment in turn_input.comments}
    earlier = [
        parse_event(build_inbox_row(policy, item)) for item in thread if policy.allows(item.author)
    ]
    comments = (
        one
        for one in earlier
        if isinstance(one, CommentEvent) and one.has_agent_text(policy.is_operator(one.row.author))
    )
    recent = (
        one for one in comments if normal_stamp(one.row.updated_at) >= turn_input.comments_since
    )
    return replace(
        turn_input, conversation=tuple(one for one in recent if one.row.object_id not in known)
    )


def drop_withdrawn(forge: Forge, turn_input: TurnInput) -> tuple[TurnInput, tuple[str, ...]]:
    """Return the input without withdrawn events, and their keys. Queries the code host."""
    passed = [one for one in turn_input.failures if not _still_fails(forge, one)]
    gone = [one for one in turn_input.comments if not _exists(forge, one)]
    for number in sorted({one.row.scope_number for one in gone}):
        forge.issue(number)  # Raises if the whole thread is hidden: then nothing was withdrawn.
    left = replace(
        turn_input,
        comments=tuple(one for one in turn_input.comments if one not in gone),
        failures=tuple(one for one in turn_input.failures if one not in passed),
    )
    return left, tuple(key for key in turn_input.keys if key not in left.keys)


def _exists(forge: Forge, comment: CommentEvent) -> bool:
    kind = ItemKind(comment.row.kind)
    if kind is ItemKind.REVIEW:
        return True  # A submitted review cannot be deleted.
    return forge.get_comment(kind, comment.row.object_id) is not None


# A turn can begin in these states.
STARTABLE = frozenset({TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED})


class TurnKind(StrEnum):
    """What an agent is asked for in this turn."""

    WORK = "work"
    FEEDBACK = "feedback"
    CI = "ci"
    ANSWER = "answer"
    REPAIR = "repair"


def turn_kind(task: Task, turn_input: TurnInput) -> TurnKind:
    """Return which turn this is. A repair comes before everything else."""
    if task.note:
        return TurnKind.REPAIR
    if is_feedback(task, turn_input):
        return TurnKind.FEEDBACK if turn_input.comments else TurnKind.CI
    return TurnKind.ANSWER if task.question and turn_input.comments else TurnKind.WORK


def is_feedback(task: Task, turn_input: TurnInput) -> bool:
    """Return whether the turn is about work that is already on a pull request."""
    return task.pr_number is not None and bool(turn_input.comments or turn_input.failures)


def begin_turn(tx: Transaction, task: Task) -> Task:
    """Set the task running, with all pending events. Part of its admission."""
    if task.state not in STARTABLE:
        raise ValueError(f"{task.id} is {task.state}: a turn cannot begin")
    begun = replace(
        task,
        state=TaskState.RUNNING,
        reason="An agent is working.",
        attempt=task.attempt + 1,
        turn_keys=tuple(pending_event_keys(tx, task)),
        branch=task.branch or branch_for(task),
        wake_at=None,
        finishing=False,
    )
    return publish_status_comment(tx, change_task(tx, task, begun))


def add_delivered_comments(
    tx: Transaction, task: Task, delivered: Iterable[tuple[str, str]]
) -> Task:
    """Add comments that reached the running agent, as (author, text), to its present turn."""
    if task.state is not TaskState.RUNNING:
        return task
    new = [key for key in pending_event_keys(tx, task) if key not in task.turn_keys]
    keys = _match_comments(load_turn_input(tx, task, new).comments, delivered)
    if not keys:
        return task
    return change_task(tx, task, replace(task, turn_keys=(*task.turn_keys, *keys)))


def _match_comments(
    comments: Iterable[CommentEvent], delivered: Iterable[tuple[str, str]]
) -> tuple[str, ...]:
    """Return the keys of the delivered comments; the same text twice matches two comments."""
    left = Counter(delivered)
    keys = []
    for comment in comments:
        message = (comment.row.author, comment.body)
        if left[message] > 0:
            left[message] -= 1
            keys.append(comment.row.event_key)
    return tuple(keys)


def branch_for(task: Task) -> str:
    """Return the branch that a task works on; empty in a folder."""
    if task.by_hand:
        return f"agent/{task.flow}/{task.id}" if task.repo_full_name else ""
    return build_branch_name(task.flow, task.number, task.title)


def requeue_unstarted(tx: Transaction, task: Task) -> Task:
    """Put the task back to its position in the queue: the turn did not begin, no attempt counts."""
    if task.state is not TaskState.RUNNING:
        return task
    attempt = max(task.attempt - 1, 0)
    back = replace(task, state=TaskState.QUEUED, reason="", attempt=attempt, finishing=False)
    return change_task(tx, task, back)


def drop_events(tx: Transaction, task: Task, keys: Collection[str]) -> Task:
    """Drop withdrawn events; end a turn that was about nothing else."""
    mark_feedback_events_processed(tx, task.repo, keys)
    left = tuple(key for key in task.turn_keys if key not in set(keys))
    after = replace(task, turn_keys=left)
    if task.state is TaskState.RUNNING and task.pr_number and not left and not task.note:
        reason = "The comments were withdrawn."
        after = replace(after, state=TaskState.AWAITING_FEEDBACK, reason=reason)
    return publish_status_comment(tx, change_task(tx, task, after))


def resume_finishing(tx: Transaction, task: Task) -> Task:
    """Set a task running for Hostler's own last steps: no agent starts, and no attempt counts."""
    if not task.finishing or task.state is not TaskState.PARKED:
        raise ValueError(f"{task.id} is {task.state}: it has no work to finish")
    again = replace(task, state=TaskState.RUNNING, reason="Pushing the work.", wake_at=None)
    return change_task(tx, task, again)


def design_path(task: Task) -> str:
    """Return the path of an issue's design document."""
    return f"docs/design/{task.number}-{slugify(task.title)}.md"
