"""Inputs of a turn (issue, comments, failing CI), its kind, and beginning and ending it."""

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

# Jobs of one run whose logs are read; the others are named.
MAX_LOGS = 5
MAX_LOG_LENGTH = 16_000
NO_LOG = "GitHub has no log of it any more."
LOG_LEFT_OUT = "Its log was left out."


@dataclass(frozen=True, slots=True)
class JobLog:
    """The end of a failed job's log."""

    job: str
    conclusion: str
    text: str


@dataclass(frozen=True, slots=True)
class CiFailure:
    """A run of the present head that failed; its logs come when they are needed."""

    seen: WorkflowRunEvent
    logs: tuple[JobLog, ...] = ()


def still_fails(forge: Forge, failure: CiFailure) -> bool:
    """Whether this very attempt is still the newest, of a head that is still the present one."""
    found, seen = forge.workflow_run(failure.seen.row.object_id), failure.seen
    if found is None:
        return False
    now = content_as(found, WorkflowRun)
    if not now.failed or now.attempt != seen.run.attempt:
        return False
    return content_as(forge.pull(seen.row.scope_number), Pull).head_sha == now.head_sha


def load_logs(forge: Forge, failures: Iterable[CiFailure], lines: int) -> tuple[CiFailure, ...]:
    """The same, with the ends of the logs of what failed. Asks the network."""
    return tuple(replace(one, logs=_read_logs(forge, one, lines)) for one in failures)


def _read_logs(forge: Forge, failure: CiFailure, lines: int) -> tuple[JobLog, ...]:
    jobs = forge.failed_jobs(failure.seen.run.id)
    read = [(job, forge.job_log(job.id) or NO_LOG) for job in jobs[:MAX_LOGS]]
    rest = [(job, LOG_LEFT_OUT) for job in jobs[MAX_LOGS:]]
    return tuple(
        JobLog(job.name, job.conclusion, last_lines(text, lines, MAX_LOG_LENGTH))
        for job, text in read + rest
    )


def rerun_suspected_flakes(failures: Iterable[CiFailure], summary: str) -> list[Effect]:
    """An agent has looked at these and found nothing to change: each is run once more."""
    said = f"It says: {summary.strip()[:1000]}" if summary.strip() else ""
    why = f"An agent has looked at it and found nothing to change. {said}".strip()
    effects: list[Effect] = []
    for one in failures:
        for deed, token in (build_rerun(one.seen), build_flaky_issue(one.seen, why)):
            effects.append(QueueWrite(deed, token, Lane.FEEDBACK, "ci"))
    return effects


# So many of the last attempts are told of.
MAX_HISTORY = 3


@dataclass(frozen=True, slots=True)
class TurnInput:
    """Everything foreign that a prompt may hold.

    `remarks` wait for an answer, `failures` of CI for mending; `conversation` is what else was
    said on the issue by people who are allowed to; `history` says how the last attempts ended, if
    they came to nothing, `summary` what the last good one said of its work. What was said before
    `heard_from` is not for agents.
    """

    issue: IssueEvent | None = None
    remarks: tuple[CommentEvent, ...] = ()
    failures: tuple[CiFailure, ...] = ()
    conversation: tuple[CommentEvent, ...] = ()
    history: tuple[str, ...] = ()
    summary: str = ""
    heard_from: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        rows = [remark.row for remark in self.remarks] + [one.seen.row for one in self.failures]
        return tuple(row.event_key for row in rows)


def load_turn_input(tx: Transaction, task: Task, keys: Iterable[str] | None = None) -> TurnInput:
    """The approved version of the issue, and the words of this turn (`task.turn_keys`)."""
    runs = runs_of(tx, task.id)
    history, summary = describe_failed_attempts(runs), find_last_summary(runs)
    if task.repo_full_name is None:
        return TurnInput(history=history, summary=summary)
    wanted = task.turn_keys if keys is None else tuple(keys)
    signals = [parse_event(row) for row in rows_by_key(tx, task.repo, [task.issue_key, *wanted])]
    issue = next((seen for seen in signals if isinstance(seen, IssueEvent)), None)
    remarks = tuple(seen for seen in signals if isinstance(seen, CommentEvent))
    floors = comment_floors(tx, task.repo, thread_number(task))
    failures = tuple(CiFailure(seen) for seen in signals if isinstance(seen, WorkflowRunEvent))
    known = TurnInput(issue, remarks, failures, history=history, summary=summary)
    return replace(known, heard_from=floors.heard_from)


def describe_failed_attempts(runs: Sequence[Run]) -> tuple[str, ...]:
    """How the newest attempts ended, the last one last, back to one that went well."""
    ended = [run for run in runs if run.state is RunState.ENDED and run.counted]
    bad = list(takewhile(lambda run: run.outcome != Outcome.SUCCESS, reversed(ended)))
    return tuple(
        f"Attempt {run.attempt} ended as {run.outcome}. {run.why or ''}".strip()
        for run in reversed(bad[:MAX_HISTORY])
    )


def find_last_summary(runs: Sequence[Run]) -> str:
    """What the newest run that said anything of its work said."""
    told = (
        AgentResult.model_validate_json(run.result).summary for run in reversed(runs) if run.result
    )
    return next((text.strip() for text in told if text.strip()), "")


def pending_event_keys(tx: Transaction, task: Task) -> list[str]:
    """Keys of everything said to a task that is not answered yet."""
    if task.repo_full_name is None:
        return []
    return waiting_keys(tx, task.repo, task.number, task.pr_number)


def add_conversation(material: TurnInput, watch: RepoPolicy, thread: Iterable[Item]) -> TurnInput:
    """The same, with what allowed people said on the issue before.

    Strangers are left out, and words of a takeover.
    """
    known = {remark.row.object_id for remark in material.remarks}
    earlier = [
        parse_event(build_inbox_row(watch, item)) for item in thread if watch.allows(item.author)
    ]
    said = (
        one
        for one in earlier
        if isinstance(one, CommentEvent) and one.is_work(watch.is_operator(one.row.author))
    )
    heard = (one for one in said if normal_stamp(one.row.updated_at) >= material.heard_from)
    return replace(
        material, conversation=tuple(one for one in heard if one.row.object_id not in known)
    )


def drop_withdrawn(forge: Forge, material: TurnInput) -> tuple[TurnInput, tuple[str, ...]]:
    """The same without what was taken back meanwhile, and the keys of that. Asks the network."""
    passed = [one for one in material.failures if not still_fails(forge, one)]
    gone = [one for one in material.remarks if not _exists(forge, one)]
    for number in sorted({one.row.scope_number for one in gone}):
        forge.issue(number)  # Where all is hidden from us, nothing was taken back: this raises.
    left = replace(
        material,
        remarks=tuple(one for one in material.remarks if one not in gone),
        failures=tuple(one for one in material.failures if one not in passed),
    )
    return left, tuple(key for key in material.keys if key not in left.keys)


def _exists(forge: Forge, said: CommentEvent) -> bool:
    kind = ItemKind(said.row.kind)
    if kind is ItemKind.REVIEW:
        return True  # A submitted review cannot be taken back.
    return forge.get_comment(kind, said.row.object_id) is not None


# From these a turn can begin; a parked or retrying one when its time has come.
STARTABLE = frozenset({TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED})


class TurnKind(StrEnum):
    """What an agent is asked for this time."""

    WORK = "work"
    FEEDBACK = "feedback"
    CI = "ci"
    ANSWER = "answer"
    REPAIR = "repair"


def turn_kind(task: Task, material: TurnInput) -> TurnKind:
    """Which turn this is. Something to mend comes before everything else."""
    if task.note:
        return TurnKind.REPAIR
    if is_feedback(task, material):
        return TurnKind.FEEDBACK if material.remarks else TurnKind.CI
    return TurnKind.ANSWER if task.question and material.remarks else TurnKind.WORK


def is_feedback(task: Task, material: TurnInput) -> bool:
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
        turn_keys=tuple(pending_event_keys(tx, task)),
        branch=task.branch or branch_for(task),
        wake_at=None,
        finishing=False,
    )
    return publish_status_comment(tx, change_task(tx, task, begun))


def add_delivered_comments(tx: Transaction, task: Task, said: Iterable[tuple[str, str]]) -> Task:
    """Words that reached the agent at work belong to its present turn: who said what."""
    if task.state is not TaskState.RUNNING:
        return task
    new = [key for key in pending_event_keys(tx, task) if key not in task.turn_keys]
    keys = match_comments(load_turn_input(tx, task, new).remarks, said)
    if not keys:
        return task
    return change_task(tx, task, replace(task, turn_keys=(*task.turn_keys, *keys)))


def match_comments(
    remarks: Iterable[CommentEvent], said: Iterable[tuple[str, str]]
) -> tuple[str, ...]:
    """Keys of the remarks that are among what was said. Pure; the same words twice are two."""
    left = Counter(said)
    found = []
    for remark in remarks:
        words = (remark.row.author, remark.body)
        if left[words] > 0:
            left[words] -= 1
            found.append(remark.row.event_key)
    return tuple(found)


def branch_for(task: Task) -> str:
    """The branch that a task works on; none in a folder."""
    if task.by_hand:
        return f"agent/{task.flow}/{task.id}" if task.repo_full_name else ""
    return build_branch_name(task.flow, task.number, task.title)


def requeue_unstarted(tx: Transaction, task: Task) -> Task:
    """The turn never began: its attempt does not count, and its place in the order is kept."""
    if task.state is not TaskState.RUNNING:
        return task
    attempt = max(task.attempt - 1, 0)
    back = replace(task, state=TaskState.QUEUED, reason="", attempt=attempt, finishing=False)
    return change_task(tx, task, back)


def drop_events(tx: Transaction, task: Task, keys: Collection[str]) -> Task:
    """Words that were taken back need no answer; a turn that was about nothing else ends."""
    mark_feedback_events_processed(tx, task.repo, keys)
    left = tuple(key for key in task.turn_keys if key not in set(keys))
    after = replace(task, turn_keys=left)
    if task.state is TaskState.RUNNING and task.pr_number and not left and not task.note:
        reason = "What was said was taken back."
        after = replace(after, state=TaskState.AWAITING_FEEDBACK, reason=reason)
    return publish_status_comment(tx, change_task(tx, task, after))


def resume_finishing(tx: Transaction, task: Task) -> Task:
    """Only our own part is left: no agent is needed, and no attempt is counted."""
    if not task.finishing or task.state is not TaskState.PARKED:
        raise ValueError(f"{task.id} is {task.state}: there is nothing to finish")
    again = replace(task, state=TaskState.RUNNING, reason="Its work is on its way.", wake_at=None)
    return change_task(tx, task, again)


def design_path(task: Task) -> str:
    """Where the design of an issue is, and its implementation finds it."""
    return f"docs/design/{task.number}-{slugify(task.title)}.md"
