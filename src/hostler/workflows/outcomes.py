"""What the end of a run, or an error on the way, means for its task. Pure functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hostler.agents.events import LimitSignal
from hostler.agents.outcomes import NextAction, Outcome, outcome_meaning
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.backoff import backoff
from hostler.checkouts import errors as git
from hostler.checkouts.commands import CommandResult as Ran
from hostler.config.settings import Tasks
from hostler.errors import Gone, HostlerError, Moved, RateLimited, ServerFailed, Unreachable
from hostler.governor.parking import MAX_PARK as LONGEST_QUOTA
from hostler.model import format_timestamp, parse_timestamp
from hostler.store.pull_requests import PullStatus
from hostler.store.tasks import Task, TaskState
from hostler.workflows.comments import build_blocked_comment, build_question, times_text
from hostler.workflows.effects import Effect, SetPullStatus, TaskTransition

MAX_RETRY_DELAY = timedelta(minutes=5)
# Their provider was not there, or failed: nobody's fault here, however long it lasts.
OUTAGES = frozenset({Outcome.NETWORK, Outcome.SERVER_ERROR})
MIN_PARK = timedelta(minutes=1)
# What only the operator can change is looked at now and then: it costs nothing to try.
MIN_OPERATOR_PARK = timedelta(minutes=10)
MAX_TASK_PARK = timedelta(hours=1)
REQUEUES_EXHAUSTED = "rate-limited requeues exhausted"
# How the word begins that stands for a checkout without any work of ours to lose.
CLEAN_PREFIX = "clean-"


@dataclass(frozen=True, slots=True)
class RunEndFacts:
    """What is known at the end of a run beside the verdict.

    `progress` tells one state of the work from another; `spoke`: its agent has posted on a bus;
    `kept` names the branch that keeps blocked work; `finishing`: the agent was done, and what is
    left is ours.
    """

    now: datetime
    session: str = ""
    progress: str = ""
    spoke: bool = False
    kept: str = ""
    finishing: bool = False
    turns_without_person: int = 0


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended, with all that a rule may ask for."""

    task: Task
    verdict: RunVerdict
    facts: RunEndFacts
    limits: Tasks


def decide_after_run(
    task: Task, verdict: RunVerdict, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """The task after a run whose work is not finished: asked, blocked, retried, parked, stopped."""
    if task.state is not TaskState.RUNNING:
        return TaskTransition(task)  # Somebody stopped it meanwhile, and that stands.
    progressed = facts.spoke or has_progressed(task.progress, facts.progress)
    # Neither changed files nor words make a result better that can never be read.
    progressed = progressed and verdict.outcome is not Outcome.BAD_RESULT
    idle = 0 if progressed else task.exits_without_progress
    # Of a run that did not get so far as to work, there is no session to go on with.
    heard = "" if verdict.outcome in (Outcome.CONFIG, Outcome.BAD_REQUEST) else facts.session
    outage = verdict.outcome in OUTAGES and not progressed
    known = replace(
        _without_attempt(task) if outage else task,
        outages=task.outages + 1 if outage else 0,
        session=heard or task.session,
        progress=facts.progress or task.progress,
        finishing=False,
        exits_without_progress=idle + (outcome_meaning(verdict.outcome).counted and not progressed),
    )
    rule = _RULES.get(outcome_meaning(verdict.outcome).next)
    if rule is None:
        raise ValueError("work that is done goes to its checks first")
    return rule(EndedRun(known, verdict, facts, limits))


def _without_attempt(task: Task) -> Task:
    """An attempt that came to nothing for a reason outside of the task is none."""
    return replace(task, attempt=max(task.attempt - 1, 0))


def has_progressed(before: str, now: str) -> bool:
    """Whether the work has changed. A clean checkout is where everybody starts."""
    return bool(now) and now != before and not (now.startswith(CLEAN_PREFIX) and not before)


def is_ready_to_finish(task: Task, verdict: RunVerdict) -> bool:
    """Whether the work goes to its checks and on to GitHub.

    A task by hand is done when its agent says so: a good exit alone is one more attempt.
    """
    good = (
        task.state is TaskState.RUNNING
        and outcome_meaning(verdict.outcome).next is NextAction.FINISH
    )
    return good and (verdict.declared or not task.by_hand)


def max_attempts(task: Task, limits: Tasks) -> int:
    """How often an agent may be started for a task; at least once."""
    return max(limits.max_restarts if task.max_restarts is None else task.max_restarts, 1)


def _decide_ask(end: EndedRun) -> TaskTransition:
    said = end.verdict.result
    asked = said.question.strip() if said else ""
    return to_needs_input(end.task, asked or f"{end.verdict.why} How shall it go on?")


def _decide_block(end: EndedRun) -> TaskTransition:
    said = end.verdict.result
    why = (said.question.strip() or said.summary.strip()) if said else ""
    return to_blocked(end.task, why or end.verdict.why, end.facts.kept)


def _decide_retry(end: EndedRun) -> TaskTransition:
    task, verdict, limits = end.task, end.verdict, end.limits
    if task.attempt >= max_attempts(task, limits) and not task.outages:
        return to_failed(task, f"{verdict.why} It was tried {times_text(task.attempt)}.")
    if task.exits_without_progress >= limits.exits_without_progress:
        return to_needs_input(
            task,
            f"The agent ended {times_text(task.exits_without_progress)} without progress. "
            f"Last time: {verdict.why} How shall it go on?",
        )
    first = timedelta(seconds=limits.restart_delay_seconds)
    wait = backoff(task.exits_without_progress, first, MAX_RETRY_DELAY)
    if task.outages:
        # Longer each time, so that hours of it cost little; and it comes to no end by itself.
        wait = backoff(task.outages - 1, first, MAX_TASK_PARK)
    at = end.facts.now + wait
    noted = verdict.why if verdict.outcome is Outcome.BAD_RESULT else task.note
    return TaskTransition(
        schedule_wake(replace(task, note=noted), TaskState.RETRYING, verdict.why, at)
    )


def _decide_back_off(end: EndedRun) -> TaskTransition:
    """The provider's trouble, not the task's: no attempt is counted, and each wait is longer."""
    verdict, now = end.verdict, end.facts.now
    task = _without_attempt(end.task)
    if task.requeues >= end.limits.rate_limited_requeue_budget:
        often = times_text(task.requeues)
        why = f"{REQUEUES_EXHAUSTED}: it was sent back {often}. Last time: {verdict.why}"
        return to_blocked(task, why, end.facts.kept)
    at = now + min(MIN_PARK * (task.requeues + 1), MAX_TASK_PARK)
    # A provider that says "in a second" each time must not use up all waits in a few of them.
    at = max(at, limit_end(verdict, now) or at)
    again = replace(task, requeues=task.requeues + 1)
    return TaskTransition(schedule_wake(again, TaskState.PARKED, verdict.why, at))


def _decide_park(end: EndedRun) -> TaskTransition:
    now, signal = end.facts.now, end.verdict.limit
    if signal is not None and signal.person:
        return _park_with_pool(end)
    # An end that is past already would start it again at once, and again.
    until = max(limit_end(end.verdict, now) or now + MAX_TASK_PARK, now + MIN_PARK)
    return TaskTransition(
        schedule_wake(_without_attempt(end.task), TaskState.PARKED, end.verdict.why, until)
    )


def _park_with_pool(end: EndedRun) -> TaskTransition:
    """Its pool is closed until an operator opens it; then it goes on at once."""
    at = end.facts.now + MIN_PARK
    return TaskTransition(
        schedule_wake(_without_attempt(end.task), TaskState.PARKED, end.verdict.why, at)
    )


def _decide_operator(end: EndedRun) -> TaskTransition:
    if end.verdict.outcome is Outcome.AUTH:
        return _park_with_pool(end)
    if end.task.session and end.verdict.decided_by is not DecidedBy.NOT_STARTED:
        # Perhaps only the session is gone, or too long: once more, from the beginning and at once.
        fresh = replace(_without_attempt(end.task), session="")
        return TaskTransition(
            schedule_wake(fresh, TaskState.RETRYING, end.verdict.why, end.facts.now)
        )
    if end.verdict.outcome is Outcome.BAD_REQUEST:
        return to_blocked(end.task, end.verdict.why, end.facts.kept)
    at = end.facts.now + backoff(end.task.requeues, MIN_OPERATOR_PARK, MAX_TASK_PARK)
    waiting = replace(_without_attempt(end.task), requeues=end.task.requeues + 1)
    return TaskTransition(schedule_wake(waiting, TaskState.PARKED, end.verdict.why, at))


def _decide_stop(end: EndedRun) -> TaskTransition:
    return to_stopped(end.task, end.verdict.why)


_RULES: dict[NextAction, Callable[[EndedRun], TaskTransition]] = {
    NextAction.ASK: _decide_ask,
    NextAction.BLOCK: _decide_block,
    NextAction.RETRY: _decide_retry,
    NextAction.BACK_OFF: _decide_back_off,
    NextAction.PARK: _decide_park,
    NextAction.OPERATOR: _decide_operator,
    NextAction.STOP: _decide_stop,
}


def to_needs_input(task: Task, text: str) -> TaskTransition:
    """A person has to say something."""
    asked = replace(
        task,
        state=TaskState.NEEDS_INPUT,
        reason="A person's answer is needed.",
        question=text,
        wake_at=None,
        finishing=False,
        exits_without_progress=0,
        requeues=0,
        outages=0,
    )
    return TaskTransition(asked, (build_question(task, text),))


def to_blocked(task: Task, why: str, kept: str) -> TaskTransition:
    """It cannot go on; its work is kept."""
    stuck = replace(task, state=TaskState.BLOCKED, reason=why[:2000], wake_at=None, finishing=False)
    effects: tuple[Effect, ...] = (build_blocked_comment(task, why, kept),)
    if task.pr_number is not None:
        effects = (*effects, SetPullStatus(PullStatus.BLOCKED))
    return TaskTransition(stuck, effects)


def to_stopped(task: Task, why: str) -> TaskTransition:
    """Nothing starts for it by itself any more."""
    return TaskTransition(replace(task, state=TaskState.STOPPED, reason=why[:2000], wake_at=None))


def to_failed(task: Task, why: str) -> TaskTransition:
    """Given up."""
    over = replace(task, state=TaskState.FAILED, reason=why[:2000], wake_at=None, finishing=False)
    return TaskTransition(over)


def schedule_wake(task: Task, state: TaskState, why: str, at: datetime) -> Task:
    """Again at a time."""
    return replace(task, state=state, reason=why[:2000], wake_at=format_timestamp(at))


def limit_end(verdict: RunVerdict, now: datetime) -> datetime | None:
    """When the provider says that its limit ends; never farther than limits really go."""
    return signal_end(verdict.limit, now) if verdict.limit else None


def signal_end(signal: LimitSignal, now: datetime) -> datetime | None:
    """When a limit ends, as far as it says. What only a person can end is not waited for."""
    if signal.person:
        return now + LONGEST_QUOTA
    if signal.retry_after_seconds > 0:
        wait = min(signal.retry_after_seconds, LONGEST_QUOTA.total_seconds())
        return now + timedelta(seconds=wait)
    try:
        return min(max(parse_timestamp(signal.resets_at), now), now + LONGEST_QUOTA)
    except ValueError:
        return None


MAX_NOTE_LENGTH = 16_000
# How much of what a command said goes with the reason of a wait.
MAX_OUTPUT_IN_REASON = 1_000


class TestsFailed(HostlerError):
    """A required test did not pass."""

    # Not a test itself, whatever collectors of tests think of the name.
    __test__ = False

    def __init__(self, ran: Ran) -> None:
        super().__init__(
            f"The required test `{ran.command}` {ran.ending}.", safe="Nothing was pushed."
        )
        self.ran = ran


class SetupFailed(HostlerError):
    """The command that prepares a fresh checkout did not pass."""

    def __init__(self, ran: Ran) -> None:
        super().__init__(
            f"The setup command `{ran.command}` {ran.ending}.",
            safe="No agent was started.",
            remedy="Mend `setup_command` of the repository.",
        )
        self.ran = ran


class DesignMissing(HostlerError):
    """The design is not where it belongs."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"There is no design document at {path}.",
            safe="Nothing was pushed.",
            remedy=f"Write it to {path}.",
        )
        self.path = path


class ErrorAction(StrEnum):
    """What is done about it."""

    REPAIR = "repair"
    AGAIN = "again"
    OPERATOR = "operator"
    BLOCK = "block"
    STOP = "stop"


# The first row that fits decides.
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
    """What is done about an error."""
    return next(answer for kind, answer in ERROR_ACTIONS if isinstance(error, kind))


def decide_after_error(
    task: Task, error: HostlerError, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """The task after its work, or the way to it, met an error."""
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
            return to_blocked(known, error_text(error), facts.kept)
        case ErrorAction.STOP:
            return to_stopped(known, f"Its issue is not there any more. {error_text(error)}")
        case ErrorAction.AGAIN:
            first = MIN_PARK
        case ErrorAction.OPERATOR:
            first = MIN_OPERATOR_PARK
    at = facts.now + backoff(known.requeues, first, MAX_TASK_PARK)
    if isinstance(error, RateLimited):
        at = max(at, min(error.until, facts.now + MAX_TASK_PARK))
    waiting = replace(known, requeues=known.requeues + 1, finishing=facts.finishing)
    why = f"{error_text(error)}\n\n{_output_tail(error, MAX_OUTPUT_IN_REASON)}".strip()
    return TaskTransition(schedule_wake(waiting, TaskState.PARKED, why, at))


def _decide_repair(
    task: Task, error: HostlerError, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """The agent is told what to mend, a few times; then its work is kept and a person is called."""
    if task.repair_rounds >= limits.repair_rounds:
        rounds = (
            f"It was sent back {times_text(task.repair_rounds)} to mend this."
            if task.repair_rounds
            else ""
        )
        return to_blocked(
            task, f"{error_text(error)} {rounds}\n\n{_output_tail(error)}".strip(), facts.kept
        )
    if facts.turns_without_person >= limits.pr_turns_without_person:
        turns = f"{facts.turns_without_person} turns passed without a person's word."
        kept = f" What was not taken is on the branch `{facts.kept}`." if facts.kept else ""
        return to_needs_input(task, f"{error_text(error)} {turns}{kept} How shall it go on?")
    mending = replace(
        task,
        state=TaskState.RETRYING,
        reason=f"{error.what} The agent is asked to mend it.",
        wake_at=None,
        note=f"{error_text(error)}\n\n{_output_tail(error)}".strip()[:MAX_NOTE_LENGTH],
        repair_rounds=task.repair_rounds + 1,
        finishing=False,
    )
    effects: tuple[Effect, ...] = ()
    if task.pr_number is not None:
        effects = (SetPullStatus(PullStatus.AWAITING_FEEDBACK, without_person=True),)
    return TaskTransition(mending, effects)


def ask_about_no_change(task: Task, summary: str) -> TaskTransition:
    """The agent says that it is done, and there is nothing to show for it."""
    said = f"It says:\n\n> {summary.strip()[:4000]}\n\n" if summary.strip() else ""
    return to_needs_input(
        task, f"The agent says that it is done, but changed nothing. {said}Is that right?"
    )


def error_text(error: HostlerError) -> str:
    """What happened, what is safe, what to do."""
    return " ".join(error.lines())


def _output_tail(error: HostlerError, longest: int = 8000) -> str:
    if not isinstance(error, TestsFailed | SetupFailed) or not error.ran.tail.strip():
        return ""
    lines = error.ran.tail.strip()[-longest:].splitlines()
    return "\n".join(["The end of what it said:", "", *(f"    {line}" for line in lines)])
