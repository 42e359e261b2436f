"""What the end of a run means for its task. Pure: one table, one function per row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hostler.agents.events import LimitSignal
from hostler.agents.outcomes import Next, Outcome, meaning
from hostler.agents.verdict import DecidedBy, Verdict
from hostler.config.settings import Tasks
from hostler.flows.steps import Effect, PullStands, Step
from hostler.flows.texts import blocked, often, question
from hostler.governor.parking import LONGEST as LONGEST_QUOTA
from hostler.model import parse_stamp, stamp
from hostler.store.pull_requests import PullStatus
from hostler.store.tasks import Task, TaskState

LONGEST_RETRY = timedelta(minutes=5)
# Their provider was not there, or failed: nobody's fault here, however long it lasts.
OUTAGES = frozenset({Outcome.NETWORK, Outcome.SERVER_ERROR})
FIRST_PARKING = timedelta(minutes=1)
# What only the operator can change is looked at now and then: it costs nothing to try.
FIRST_OPERATOR = timedelta(minutes=10)
LONGEST_PARKING = timedelta(hours=1)
EXHAUSTED = "rate-limited requeues exhausted"
# How the word begins that stands for a checkout without any work of ours to lose.
CLEAN = "clean-"


@dataclass(frozen=True, slots=True)
class Facts:
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
class Ended:
    """A run that has ended, with all that a rule may ask for."""

    task: Task
    verdict: Verdict
    facts: Facts
    limits: Tasks


def after_run(task: Task, verdict: Verdict, facts: Facts, limits: Tasks) -> Step:
    """The task after a run whose work is not finished: asked, blocked, retried, parked, stopped."""
    if task.state is not TaskState.RUNNING:
        return Step(task)  # Somebody stopped it meanwhile, and that stands.
    progressed = facts.spoke or has_progressed(task.progress, facts.progress)
    # Neither changed files nor words make a result better that can never be read.
    progressed = progressed and verdict.outcome is not Outcome.BAD_RESULT
    idle = 0 if progressed else task.exits_without_progress
    # Of a run that did not get so far as to work, there is no session to go on with.
    heard = "" if verdict.outcome in (Outcome.CONFIG, Outcome.BAD_REQUEST) else facts.session
    outage = verdict.outcome in OUTAGES and not progressed
    known = replace(
        _given_back(task) if outage else task,
        outages=task.outages + 1 if outage else 0,
        session=heard or task.session,
        progress=facts.progress or task.progress,
        finishing=False,
        exits_without_progress=idle + (meaning(verdict.outcome).counted and not progressed),
    )
    rule = _RULES.get(meaning(verdict.outcome).next)
    if rule is None:
        raise ValueError("work that is done goes to its checks first")
    return rule(Ended(known, verdict, facts, limits))


def _given_back(task: Task) -> Task:
    """An attempt that came to nothing for a reason outside of the task is none."""
    return replace(task, attempt=max(task.attempt - 1, 0))


def has_progressed(before: str, now: str) -> bool:
    """Whether the work has changed. A clean checkout is where everybody starts."""
    return bool(now) and now != before and not (now.startswith(CLEAN) and not before)


def wants_finishing(task: Task, verdict: Verdict) -> bool:
    """Whether the work goes to its checks and on to GitHub.

    A task by hand is done when its agent says so: a good exit alone is one more attempt.
    """
    good = task.state is TaskState.RUNNING and meaning(verdict.outcome).next is Next.FINISH
    return good and (verdict.declared or not task.by_hand)


def most_attempts(task: Task, limits: Tasks) -> int:
    """How often an agent may be started for a task; at least once."""
    return max(limits.max_restarts if task.max_restarts is None else task.max_restarts, 1)


def _ask(end: Ended) -> Step:
    said = end.verdict.result
    asked = said.question.strip() if said else ""
    return ask(end.task, asked or f"{end.verdict.why} How shall it go on?")


def _block(end: Ended) -> Step:
    said = end.verdict.result
    why = (said.question.strip() or said.summary.strip()) if said else ""
    return block(end.task, why or end.verdict.why, end.facts.kept)


def _retry(end: Ended) -> Step:
    task, verdict, limits = end.task, end.verdict, end.limits
    if task.attempt >= most_attempts(task, limits) and not task.outages:
        return fail(task, f"{verdict.why} It was tried {often(task.attempt)}.")
    if task.exits_without_progress >= limits.exits_without_progress:
        return ask(
            task,
            f"The agent ended {often(task.exits_without_progress)} without progress. "
            f"Last time: {verdict.why} How shall it go on?",
        )
    first = timedelta(seconds=limits.restart_delay_seconds)
    wait = doubled(first, task.exits_without_progress, LONGEST_RETRY)
    if task.outages:
        # Longer each time, so that hours of it cost little; and it comes to no end by itself.
        wait = doubled(first, task.outages - 1, LONGEST_PARKING)
    at = end.facts.now + wait
    noted = verdict.why if verdict.outcome is Outcome.BAD_RESULT else task.note
    return Step(later(replace(task, note=noted), TaskState.RETRYING, verdict.why, at))


def _back_off(end: Ended) -> Step:
    """The provider's trouble, not the task's: no attempt is counted, and each wait is longer."""
    verdict, now = end.verdict, end.facts.now
    task = _given_back(end.task)
    if task.requeues >= end.limits.rate_limited_requeue_budget:
        why = f"{EXHAUSTED}: it was sent back {often(task.requeues)}. Last time: {verdict.why}"
        return block(task, why, end.facts.kept)
    at = now + min(FIRST_PARKING * (task.requeues + 1), LONGEST_PARKING)
    # A provider that says "in a second" each time must not use up all waits in a few of them.
    at = max(at, limit_ends(verdict, now) or at)
    again = replace(task, requeues=task.requeues + 1)
    return Step(later(again, TaskState.PARKED, verdict.why, at))


def _park(end: Ended) -> Step:
    now, signal = end.facts.now, end.verdict.limit
    if signal is not None and signal.person:
        return _behind_the_pool(end)
    # An end that is past already would start it again at once, and again.
    until = max(limit_ends(end.verdict, now) or now + LONGEST_PARKING, now + FIRST_PARKING)
    return Step(later(_given_back(end.task), TaskState.PARKED, end.verdict.why, until))


def _behind_the_pool(end: Ended) -> Step:
    """Its pool is closed until an operator opens it; then it goes on at once."""
    at = end.facts.now + FIRST_PARKING
    return Step(later(_given_back(end.task), TaskState.PARKED, end.verdict.why, at))


def _operator(end: Ended) -> Step:
    if end.verdict.outcome is Outcome.AUTH:
        return _behind_the_pool(end)
    if end.task.session and end.verdict.decided_by is not DecidedBy.NOT_STARTED:
        # Perhaps only the session is gone, or too long: once more, from the beginning and at once.
        fresh = replace(_given_back(end.task), session="")
        return Step(later(fresh, TaskState.RETRYING, end.verdict.why, end.facts.now))
    if end.verdict.outcome is Outcome.BAD_REQUEST:
        return block(end.task, end.verdict.why, end.facts.kept)
    at = end.facts.now + doubled(FIRST_OPERATOR, end.task.requeues, LONGEST_PARKING)
    waiting = replace(_given_back(end.task), requeues=end.task.requeues + 1)
    return Step(later(waiting, TaskState.PARKED, end.verdict.why, at))


def _stop(end: Ended) -> Step:
    return stop(end.task, end.verdict.why)


_RULES: dict[Next, Callable[[Ended], Step]] = {
    Next.ASK: _ask,
    Next.BLOCK: _block,
    Next.RETRY: _retry,
    Next.BACK_OFF: _back_off,
    Next.PARK: _park,
    Next.OPERATOR: _operator,
    Next.STOP: _stop,
}


def ask(task: Task, text: str) -> Step:
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
    return Step(asked, (question(task, text),))


def block(task: Task, why: str, kept: str) -> Step:
    """It cannot go on; its work is kept."""
    stuck = replace(task, state=TaskState.BLOCKED, reason=why[:2000], wake_at=None, finishing=False)
    effects: tuple[Effect, ...] = (blocked(task, why, kept),)
    if task.pr_number is not None:
        effects = (*effects, PullStands(PullStatus.BLOCKED))
    return Step(stuck, effects)


def stop(task: Task, why: str) -> Step:
    """Nothing starts for it by itself any more."""
    return Step(replace(task, state=TaskState.STOPPED, reason=why[:2000], wake_at=None))


def fail(task: Task, why: str) -> Step:
    """Given up."""
    over = replace(task, state=TaskState.FAILED, reason=why[:2000], wake_at=None, finishing=False)
    return Step(over)


def later(task: Task, state: TaskState, why: str, at: datetime) -> Task:
    """Again at a time."""
    return replace(task, state=state, reason=why[:2000], wake_at=stamp(at))


def doubled(first: timedelta, times: int, longest: timedelta) -> timedelta:
    """A wait that grows with each time, up to a longest one."""
    return min(first * (1 << min(times, 20)), longest)


def limit_ends(verdict: Verdict, now: datetime) -> datetime | None:
    """When the provider says that its limit ends; never farther than limits really go."""
    return ends_at(verdict.limit, now) if verdict.limit else None


def ends_at(signal: LimitSignal, now: datetime) -> datetime | None:
    """When a limit ends, as far as it says. What only a person can end is not waited for."""
    if signal.person:
        return now + LONGEST_QUOTA
    if signal.retry_after_seconds > 0:
        wait = min(signal.retry_after_seconds, LONGEST_QUOTA.total_seconds())
        return now + timedelta(seconds=wait)
    try:
        return min(max(parse_stamp(signal.resets_at), now), now + LONGEST_QUOTA)
    except ValueError:
        return None
