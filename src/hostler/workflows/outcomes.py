"""What the end of a run, or an error on the way, means for its task. Pure functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hostler.agents.events import LimitSignal
from hostler.agents.outcomes import NextAction, Outcome, outcome_meaning
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.checkouts import errors as git
from hostler.checkouts.commands import CommandResult
from hostler.config.settings import Tasks
from hostler.errors import Gone, HostlerError, Moved, RateLimited, ServerFailed, Unreachable
from hostler.governor.parking import MAX_PARK
from hostler.model import format_timestamp, parse_timestamp
from hostler.store.pull_requests import PullStatus
from hostler.store.tasks import Task, TaskState
from hostler.workflows.comments import build_blocked_comment, build_question, times_text
from hostler.workflows.effects import Effect, SetPullStatus, TaskTransition

MAX_RETRY_DELAY = timedelta(minutes=5)
# The provider is unreachable or failing: no attempt is counted, however long it lasts.
OUTAGE_OUTCOMES = frozenset({Outcome.NETWORK, Outcome.SERVER_ERROR})
MIN_PARK = timedelta(minutes=1)
# Waits for something that only the operator can change: retrying from time to time is cheap.
MIN_OPERATOR_PARK = timedelta(minutes=10)
MAX_TASK_PARK = timedelta(hours=1)
REQUEUES_EXHAUSTED = "rate-limited requeues exhausted"
# Prefix of a progress digest: the checkout has no uncommitted or unpushed work.
CLEAN_PREFIX = "clean-"


@dataclass(frozen=True, slots=True)
class RunEndFacts:
    """What is known at the end of a run beside its verdict.

    `progress`: a digest of the work; `has_posted`: the agent posted on a bus; `kept_branch`: the
    branch with blocked work; `finishing`: the agent was done, and only Hostler's own steps are
    left.
    """

    now: datetime
    session: str = ""
    progress: str = ""
    has_posted: bool = False
    kept_branch: str = ""
    finishing: bool = False
    turns_without_person: int = 0


@dataclass(frozen=True, slots=True)
class _EndedRun:
    """A run that has ended, with everything that the rules ask for."""

    task: Task
    verdict: RunVerdict
    facts: RunEndFacts
    limits: Tasks


def decide_after_run(
    task: Task, verdict: RunVerdict, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """Return what follows a run without work to push: ask, block, retry, park or stop."""
    if task.state is not TaskState.RUNNING:
        return TaskTransition(task)  # It was stopped in the meantime.
    progressed = facts.has_posted or _has_progressed(task.progress, facts.progress)
    # An unreadable result is no progress, whatever else the run did.
    progressed = progressed and verdict.outcome is not Outcome.BAD_RESULT
    idle = 0 if progressed else task.exits_without_progress
    # A run that was refused before it could work leaves no session to continue.
    session = "" if verdict.outcome in (Outcome.CONFIG, Outcome.BAD_REQUEST) else facts.session
    outage = verdict.outcome in OUTAGE_OUTCOMES and not progressed
    known = replace(
        _without_attempt(task) if outage else task,
        outages=task.outages + 1 if outage else 0,
        session=session or task.session,
        progress=facts.progress or task.progress,
        finishing=False,
        exits_without_progress=idle + (outcome_meaning(verdict.outcome).counted and not progressed),
    )
    rule = _RULES.get(outcome_meaning(verdict.outcome).next)
    if rule is None:
        raise ValueError("finished work must be checked and pushed first")
    return rule(_EndedRun(known, verdict, facts, limits))


def _without_attempt(task: Task) -> Task:
    """Return the task without its last attempt, which failed for a reason outside of the task."""
    return replace(task, attempt=max(task.attempt - 1, 0))


def _has_progressed(before: str, now: str) -> bool:
    """Return whether the work has changed. A clean checkout is where every task starts."""
    return bool(now) and now != before and not (now.startswith(CLEAN_PREFIX) and not before)


def is_ready_to_finish(task: Task, verdict: RunVerdict) -> bool:
    """Return whether the work can be checked and pushed.

    A manual task is done when its agent says so; exiting successfully is not enough.
    """
    good = (
        task.state is TaskState.RUNNING
        and outcome_meaning(verdict.outcome).next is NextAction.FINISH
    )
    return good and (verdict.declared or not task.by_hand)


def max_attempts(task: Task, limits: Tasks) -> int:
    """Return how many times an agent may be started for a task; at least once."""
    return max(limits.max_restarts if task.max_restarts is None else task.max_restarts, 1)


def _decide_ask(end: _EndedRun) -> TaskTransition:
    result = end.verdict.result
    asked = result.question.strip() if result else ""
    return to_needs_input(end.task, asked or f"{end.verdict.why} How should this continue?")


def _decide_block(end: _EndedRun) -> TaskTransition:
    result = end.verdict.result
    why = (result.question.strip() or result.summary.strip()) if result else ""
    return to_blocked(end.task, why or end.verdict.why, end.facts.kept_branch)


def _decide_retry(end: _EndedRun) -> TaskTransition:
    task, verdict, limits = end.task, end.verdict, end.limits
    if task.attempt >= max_attempts(task, limits) and not task.outages:
        return to_failed(task, f"{verdict.why} Tried {times_text(task.attempt)}.")
    if task.exits_without_progress >= limits.exits_without_progress:
        return to_needs_input(
            task,
            f"The agent exited {times_text(task.exits_without_progress)} without progress. "
            f"Last time: {verdict.why} How should this continue?",
        )
    first = timedelta(seconds=limits.restart_delay_seconds)
    wait = backoff(first, task.exits_without_progress, MAX_RETRY_DELAY)
    if task.outages:
        # Wait longer each time, without a limit on the number of retries.
        wait = backoff(first, task.outages - 1, MAX_TASK_PARK)
    at = end.facts.now + wait
    noted = verdict.why if verdict.outcome is Outcome.BAD_RESULT else task.note
    return TaskTransition(
        schedule_wake(replace(task, note=noted), TaskState.RETRYING, verdict.why, at)
    )


def _decide_back_off(end: _EndedRun) -> TaskTransition:
    """Park the task because its provider failed: no attempt is counted, and each wait is longer."""
    verdict, now = end.verdict, end.facts.now
    task = _without_attempt(end.task)
    if task.requeues >= end.limits.rate_limited_requeue_budget:
        often = times_text(task.requeues)
        why = f"{REQUEUES_EXHAUSTED}: requeued {often}. Last time: {verdict.why}"
        return to_blocked(task, why, end.facts.kept_branch)
    at = now + min(MIN_PARK * (task.requeues + 1), MAX_TASK_PARK)
    # A provider that says "in a second" each time must not use up all retries within seconds.
    at = max(at, limit_end(verdict, now) or at)
    again = replace(task, requeues=task.requeues + 1)
    return TaskTransition(schedule_wake(again, TaskState.PARKED, verdict.why, at))


def _decide_park(end: _EndedRun) -> TaskTransition:
    now, signal = end.facts.now, end.verdict.limit
    if signal is not None and signal.person:
        return _park_with_pool(end)
    # A limit that ended in the past must not restart the task in a loop.
    until = max(limit_end(end.verdict, now) or now + MAX_TASK_PARK, now + MIN_PARK)
    return TaskTransition(
        schedule_wake(_without_attempt(end.task), TaskState.PARKED, end.verdict.why, until)
    )


def _park_with_pool(end: _EndedRun) -> TaskTransition:
    """Park the task until an operator reopens its pool; it then continues at once."""
    at = end.facts.now + MIN_PARK
    return TaskTransition(
        schedule_wake(_without_attempt(end.task), TaskState.PARKED, end.verdict.why, at)
    )


def _decide_operator(end: _EndedRun) -> TaskTransition:
    if end.verdict.outcome is Outcome.AUTH:
        return _park_with_pool(end)
    if end.task.session and end.verdict.decided_by is not DecidedBy.NOT_STARTED:
        # Perhaps only the session is lost or too long: retry at once with a new one.
        fresh = replace(_without_attempt(end.task), session="")
        return TaskTransition(
            schedule_wake(fresh, TaskState.RETRYING, end.verdict.why, end.facts.now)
        )
    if end.verdict.outcome is Outcome.BAD_REQUEST:
        return to_blocked(end.task, end.verdict.why, end.facts.kept_branch)
    at = end.facts.now + backoff(MIN_OPERATOR_PARK, end.task.requeues, MAX_TASK_PARK)
    waiting = replace(_without_attempt(end.task), requeues=end.task.requeues + 1)
    return TaskTransition(schedule_wake(waiting, TaskState.PARKED, end.verdict.why, at))


def _decide_stop(end: _EndedRun) -> TaskTransition:
    return to_stopped(end.task, end.verdict.why)


_RULES: dict[NextAction, Callable[[_EndedRun], TaskTransition]] = {
    NextAction.ASK: _decide_ask,
    NextAction.BLOCK: _decide_block,
    NextAction.RETRY: _decide_retry,
    NextAction.BACK_OFF: _decide_back_off,
    NextAction.PARK: _decide_park,
    NextAction.OPERATOR: _decide_operator,
    NextAction.STOP: _decide_stop,
}


def to_needs_input(task: Task, text: str) -> TaskTransition:
    """Return the transition that asks a user."""
    asked = replace(
        task,
        state=TaskState.NEEDS_INPUT,
        reason="Waiting for an answer.",
        question=text,
        wake_at=None,
        finishing=False,
        exits_without_progress=0,
        requeues=0,
        outages=0,
    )
    return TaskTransition(asked, (build_question(task, text),))


def to_blocked(task: Task, why: str, kept_branch: str) -> TaskTransition:
    """Return the transition that blocks the task; its work is kept."""
    stuck = replace(task, state=TaskState.BLOCKED, reason=why[:2000], wake_at=None, finishing=False)
    effects: tuple[Effect, ...] = (build_blocked_comment(task, why, kept_branch),)
    if task.pr_number is not None:
        effects = (*effects, SetPullStatus(PullStatus.BLOCKED))
    return TaskTransition(stuck, effects)


def to_stopped(task: Task, why: str) -> TaskTransition:
    """Return the transition that stops the task until a user starts it again."""
    return TaskTransition(replace(task, state=TaskState.STOPPED, reason=why[:2000], wake_at=None))


def to_failed(task: Task, why: str) -> TaskTransition:
    """Return the transition that ends the task as failed."""
    over = replace(task, state=TaskState.FAILED, reason=why[:2000], wake_at=None, finishing=False)
    return TaskTransition(over)


def schedule_wake(task: Task, state: TaskState, why: str, at: datetime) -> Task:
    """Return the task in this state until a time."""
    return replace(task, state=state, reason=why[:2000], wake_at=format_timestamp(at))


def backoff(first: timedelta, times: int, longest: timedelta) -> timedelta:
    """Return a delay that doubles with each time, up to a maximum."""
    return min(first * (1 << min(times, 20)), longest)


def limit_end(verdict: RunVerdict, now: datetime) -> datetime | None:
    """Return when the provider says that its limit ends, at most the longest usual limit."""
    return signal_end(verdict.limit, now) if verdict.limit else None


def signal_end(signal: LimitSignal, now: datetime) -> datetime | None:
    """Return when a limit ends, as far as it says.

    One that only a user can end gets the maximum.
    """
    if signal.person:
        return now + MAX_PARK
    if signal.retry_after_seconds > 0:
        wait = min(signal.retry_after_seconds, MAX_PARK.total_seconds())
        return now + timedelta(seconds=wait)
    try:
        return min(max(parse_timestamp(signal.resets_at), now), now + MAX_PARK)
    except ValueError:
        return None


MAX_NOTE_LENGTH = 16_000
# How much of a command's output is shown in a reason.
MAX_OUTPUT_IN_REASON = 1_000


class TestsFailed(HostlerError):
    """A required test did not pass."""

    # Pytest must not collect it because of its name.
    __test__ = False

    def __init__(self, command_result: CommandResult) -> None:
        super().__init__(
            f"The required test `{command_result.command}` {command_result.ending}.",
            safe="Nothing was pushed.",
        )
        self.command_result = command_result


class SetupFailed(HostlerError):
    """The command that prepares a fresh checkout failed."""

    def __init__(self, command_result: CommandResult) -> None:
        super().__init__(
            f"The setup command `{command_result.command}` {command_result.ending}.",
            safe="No agent was started.",
            remedy="Fix `setup_command` of the repository in the settings.",
        )
        self.command_result = command_result


class DesignMissing(HostlerError):
    """The design document is not at its path."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The design document {path} does not exist.",
            safe="Nothing was pushed.",
            remedy=f"Write it to {path}.",
        )
        self.path = path


class ErrorAction(StrEnum):
    """What is done about an error."""

    REPAIR = "repair"
    AGAIN = "again"
    OPERATOR = "operator"
    BLOCK = "block"
    STOP = "stop"


# The first matching row decides.
ERROR_ACTIONS: tuple[tuple[type[HostlerError], ErrorAction], ...] = (
    (TestsFailed, ErrorAction.REPAIR),
    (DesignMissing, ErrorAction.REPAIR),
    (git.HistoryRefused, ErrorAction.REPAIR),
    (git.FilesTooLarge, ErrorAction.REPAIR),
    (git.PushRaced, ErrorAction.REPAIR),
    (git.PushUnverified, ErrorAction.AGAIN),
    (git.DiskFull, ErrorAction.AGAIN),
    (git.GitTimeout, ErrorAction.AGAIN),
    (git.GitFailed, ErrorAction.AGAIN),
    (git.RemoteUnreachable, ErrorAction.AGAIN),
    (Unreachable, ErrorAction.AGAIN),
    (ServerFailed, ErrorAction.AGAIN),
    (RateLimited, ErrorAction.AGAIN),
    (git.PushRefused, ErrorAction.BLOCK),
    (git.CheckoutTampered, ErrorAction.BLOCK),
    (git.CheckoutMissing, ErrorAction.BLOCK),
    (Gone, ErrorAction.STOP),
    (Moved, ErrorAction.STOP),
    (HostlerError, ErrorAction.OPERATOR),
)


def action_for_error(error: HostlerError) -> ErrorAction:
    """Return what is done about an error."""
    return next(answer for kind, answer in ERROR_ACTIONS if isinstance(error, kind))


def decide_after_error(
    task: Task, error: HostlerError, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """Return what follows when preparing or finishing the task's work met an error."""
    if task.state is not TaskState.RUNNING:
        return TaskTransition(task)
    known = replace(
        task,
        session=facts.session or task.session,
        progress=facts.progress or task.progress,
    )
    match action_for_error(error):
        case ErrorAction.REPAIR:
            return _decide_repair(known, error, facts, limits)
        case ErrorAction.BLOCK:
            return to_blocked(known, _error_text(error), facts.kept_branch)
        case ErrorAction.STOP:
            return to_stopped(known, f"Its issue no longer exists. {_error_text(error)}")
        case ErrorAction.AGAIN:
            first = MIN_PARK
        case ErrorAction.OPERATOR:
            first = MIN_OPERATOR_PARK
    at = facts.now + backoff(first, known.requeues, MAX_TASK_PARK)
    if isinstance(error, RateLimited):
        at = max(at, min(error.until, facts.now + MAX_TASK_PARK))
    waiting = replace(known, requeues=known.requeues + 1, finishing=facts.finishing)
    why = f"{_error_text(error)}\n\n{_output_tail(error, MAX_OUTPUT_IN_REASON)}".strip()
    return TaskTransition(schedule_wake(waiting, TaskState.PARKED, why, at))


def _decide_repair(
    task: Task, error: HostlerError, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """Send the work back to the agent a few times; then keep it on a branch and ask a user."""
    if task.repair_rounds >= limits.repair_rounds:
        rounds = (
            f"The agent was asked {times_text(task.repair_rounds)} to fix this."
            if task.repair_rounds
            else ""
        )
        return to_blocked(
            task,
            f"{_error_text(error)} {rounds}\n\n{_output_tail(error)}".strip(),
            facts.kept_branch,
        )
    if facts.turns_without_person >= limits.pr_turns_without_person:
        turns = f"{facts.turns_without_person} turns passed without a comment from a user."
        kept = (
            f" The unpushed work is on branch `{facts.kept_branch}`." if facts.kept_branch else ""
        )
        why = f"{_error_text(error)} {turns}{kept}"
        return to_needs_input(task, f"{why} How should this continue?")
    repairing = replace(
        task,
        state=TaskState.RETRYING,
        reason=f"{error.what} The agent is asked to fix it.",
        wake_at=None,
        note=f"{_error_text(error)}\n\n{_output_tail(error)}".strip()[:MAX_NOTE_LENGTH],
        repair_rounds=task.repair_rounds + 1,
        finishing=False,
    )
    effects: tuple[Effect, ...] = ()
    if task.pr_number is not None:
        effects = (SetPullStatus(PullStatus.AWAITING_FEEDBACK, without_person=True),)
    return TaskTransition(repairing, effects)


def ask_about_no_change(task: Task, summary: str) -> TaskTransition:
    """Ask a user because the agent says that it is done, but changed nothing."""
    quoted = f"Its summary:\n\n> {summary.strip()[:4000]}\n\n" if summary.strip() else ""
    text = f"The agent reports that it is done, but changed nothing. {quoted}Is that correct?"
    return to_needs_input(task, text)


def _error_text(error: HostlerError) -> str:
    """Return what happened, what is safe, and what to do."""
    return " ".join(error.lines())


def _output_tail(error: HostlerError, longest: int = 8000) -> str:
    if not isinstance(error, TestsFailed | SetupFailed) or not error.command_result.tail.strip():
        return ""
    lines = error.command_result.tail.strip()[-longest:].splitlines()
    return "\n".join(["Last lines of its output:", "", *(f"    {line}" for line in lines)])
