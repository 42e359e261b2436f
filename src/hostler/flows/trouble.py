"""What goes wrong between an agent's work and GitHub, and what each means for the task. Pure."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from hostler.checkouts import errors as git
from hostler.checkouts.commands import Result as Ran
from hostler.config.settings import Tasks
from hostler.errors import Gone, HostlerError, Moved, RateLimited, ServerFailed, Unreachable
from hostler.flows.outcomes import (
    FIRST_OPERATOR,
    FIRST_PARKING,
    LONGEST_PARKING,
    Facts,
    ask,
    block,
    doubled,
    later,
    stop,
)
from hostler.flows.steps import Effect, PullStands, Step
from hostler.flows.texts import often
from hostler.store.pull_requests import PullStatus
from hostler.store.tasks import Task, TaskState

LONGEST_NOTE = 16_000
# How much of what a command said goes with the reason of a wait.
LONGEST_GLIMPSE = 1_000


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


class Answer(StrEnum):
    """What is done about it."""

    REPAIR = "repair"
    AGAIN = "again"
    OPERATOR = "operator"
    BLOCK = "block"
    STOP = "stop"


# The first row that fits decides.
ANSWERS: tuple[tuple[type[HostlerError], Answer], ...] = (
    (TestsFailed, Answer.REPAIR),
    (DesignMissing, Answer.REPAIR),
    (git.HistoryRefused, Answer.REPAIR),
    (git.FilesTooLarge, Answer.REPAIR),
    (git.PushRaced, Answer.REPAIR),
    (git.PushUnverified, Answer.AGAIN),
    (git.DiskFull, Answer.AGAIN),
    (git.GitTimeout, Answer.AGAIN),
    (git.GitFailed, Answer.AGAIN),
    (git.RemoteUnreachable, Answer.AGAIN),
    (Unreachable, Answer.AGAIN),
    (ServerFailed, Answer.AGAIN),
    (RateLimited, Answer.AGAIN),
    (git.PushRefused, Answer.BLOCK),
    (git.CheckoutTampered, Answer.BLOCK),
    (git.CheckoutMissing, Answer.BLOCK),
    (Gone, Answer.STOP),
    (Moved, Answer.STOP),
    (HostlerError, Answer.OPERATOR),
)


def answer_to(error: HostlerError) -> Answer:
    """What is done about an error."""
    return next(answer for kind, answer in ANSWERS if isinstance(error, kind))


def after_trouble(task: Task, error: HostlerError, facts: Facts, limits: Tasks) -> Step:
    """The task after its work, or the way to it, met an error."""
    if task.state is not TaskState.RUNNING:
        return Step(task)
    known = replace(
        task,
        session=facts.session or task.session,
        progress=facts.progress or task.progress,
    )
    match answer_to(error):
        case Answer.REPAIR:
            return _repair(known, error, facts, limits)
        case Answer.BLOCK:
            return block(known, sentences(error), facts.kept)
        case Answer.STOP:
            return stop(known, f"Its issue is not there any more. {sentences(error)}")
        case Answer.AGAIN:
            first = FIRST_PARKING
        case Answer.OPERATOR:
            first = FIRST_OPERATOR
    at = facts.now + doubled(first, known.requeues, LONGEST_PARKING)
    if isinstance(error, RateLimited):
        at = max(at, min(error.until, facts.now + LONGEST_PARKING))
    waiting = replace(known, requeues=known.requeues + 1, finishing=facts.finishing)
    why = f"{sentences(error)}\n\n{_tail(error, LONGEST_GLIMPSE)}".strip()
    return Step(later(waiting, TaskState.PARKED, why, at))


def _repair(task: Task, error: HostlerError, facts: Facts, limits: Tasks) -> Step:
    """The agent is told what to mend, a few times; then its work is kept and a person is called."""
    if task.repair_rounds >= limits.repair_rounds:
        rounds = (
            f"It was sent back {often(task.repair_rounds)} to mend this."
            if task.repair_rounds
            else ""
        )
        return block(task, f"{sentences(error)} {rounds}\n\n{_tail(error)}".strip(), facts.kept)
    if facts.turns_without_person >= limits.pr_turns_without_person:
        turns = f"{facts.turns_without_person} turns passed without a person's word."
        kept = f" What was not taken is on the branch `{facts.kept}`." if facts.kept else ""
        return ask(task, f"{sentences(error)} {turns}{kept} How shall it go on?")
    mending = replace(
        task,
        state=TaskState.RETRYING,
        reason=f"{error.what} The agent is asked to mend it.",
        wake_at=None,
        note=f"{sentences(error)}\n\n{_tail(error)}".strip()[:LONGEST_NOTE],
        repair_rounds=task.repair_rounds + 1,
        finishing=False,
    )
    effects: tuple[Effect, ...] = ()
    if task.pr_number is not None:
        effects = (PullStands(PullStatus.AWAITING_FEEDBACK, without_person=True),)
    return Step(mending, effects)


def nothing_done(task: Task, summary: str) -> Step:
    """The agent says that it is done, and there is nothing to show for it."""
    said = f"It says:\n\n> {summary.strip()[:4000]}\n\n" if summary.strip() else ""
    return ask(task, f"The agent says that it is done, but changed nothing. {said}Is that right?")


def sentences(error: HostlerError) -> str:
    """What happened, what is safe, what to do."""
    return " ".join(error.lines())


def _tail(error: HostlerError, longest: int = 8000) -> str:
    if not isinstance(error, TestsFailed | SetupFailed) or not error.ran.tail.strip():
        return ""
    lines = error.ran.tail.strip()[-longest:].splitlines()
    return "\n".join(["The end of what it said:", "", *(f"    {line}" for line in lines)])
