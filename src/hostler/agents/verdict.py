"""How a run ended: one pure decision from everything that is known at its end.

Who ended it comes first (we: stop, wall limit, silence), then the DONE marker, then result.json,
then what the agent's program itself says by its stream and exit code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from hostler.agents.donefile import Done
from hostler.agents.events import LimitSignal
from hostler.agents.outcomes import Outcome
from hostler.agents.result import Result, Status
from hostler.agents.resultfile import Fault, Reading
from hostler.agents.tally import Tally
from hostler.wording import as_code


class EndedBy(StrEnum):
    """Why the process tree is gone, as its supervisor says.

    `lost` is our own word: the supervisor went first, so nobody can tell.
    """

    EXIT = "exit"
    STOP = "stop"
    WALL_TIMEOUT = "wall_timeout"
    STALL = "stall"
    NOT_STARTED = "not_started"
    SHIM_FAILED = "shim_failed"
    LOST = "lost"


class DecidedBy(StrEnum):
    """Which fact the verdict rests on."""

    STOP = "stop"
    WALL_TIMEOUT = "wall_timeout"
    STALL = "stall"
    NOT_STARTED = "not_started"
    DONE = "done"
    RESULT = "result"
    STREAM = "stream"
    EXIT_CODE = "exit_code"
    LOST = "lost"


LONGEST_REASON = 500
NO_RESULT = Reading(None, Fault.MISSING)


@dataclass(frozen=True, slots=True)
class End:
    """What is known when nothing of an agent's processes is left.

    The exit code of a signal is negative; `reason` is the supervisor's sentence, if it has one.
    """

    ended_by: EndedBy
    exit_code: int | None = None
    tally: Tally = field(default_factory=Tally)
    result: Reading = NO_RESULT
    done: Done = field(default_factory=Done)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome, the fact it rests on, and a sentence for a person.

    `result` is the agent's valid result whatever decided; `limit` the signal that stood at the end.
    """

    outcome: Outcome
    decided_by: DecidedBy
    why: str
    result: Result | None = None
    limit: LimitSignal | None = None

    @property
    def declared(self) -> bool:
        """The agent itself said how it ended; an exit code alone is only a claim."""
        return self.decided_by in {DecidedBy.DONE, DecidedBy.RESULT}


OwnWord = Callable[[int | None, Tally], Verdict]


def judge(end: End, own_word: OwnWord) -> Verdict:
    """The verdict on a run. `own_word`: what its kind reads from the exit code and the stream."""
    verdict = _ended_by_us(end) or _marked(end) or _declared(end) or _by_itself(end, own_word)
    return replace(verdict, result=end.result.result, limit=verdict.limit or end.tally.limit)


_OURS = {
    EndedBy.STOP: Verdict(Outcome.INTERRUPTED, DecidedBy.STOP, "It was stopped on request."),
    EndedBy.WALL_TIMEOUT: Verdict(
        Outcome.TIMEOUT, DecidedBy.WALL_TIMEOUT, "It reached its time limit and was ended."
    ),
    EndedBy.STALL: Verdict(
        Outcome.STALLED, DecidedBy.STALL, "It was silent for too long and was ended."
    ),
    EndedBy.NOT_STARTED: Verdict(
        Outcome.CONFIG,
        DecidedBy.NOT_STARTED,
        "Its program could not be started: install it, or mend the agent's `command`.",
    ),
}


def _ended_by_us(end: End) -> Verdict | None:
    ours = _OURS.get(end.ended_by)
    return _with_reason(ours, end.reason) if ours else None


def _with_reason(verdict: Verdict, reason: str) -> Verdict:
    # It stands in a file that the agent can write to, and may come to be read on GitHub.
    said = f" ({as_code(reason, LONGEST_REASON)})" if reason.strip() else ""
    return replace(verdict, why=f"{verdict.why}{said}")


def _marked(end: End) -> Verdict | None:
    if end.done.wrong:
        return Verdict(Outcome.BAD_RESULT, DecidedBy.DONE, end.done.wrong)
    if end.done.marked:
        return Verdict(Outcome.SUCCESS, DecidedBy.DONE, "It marked its task as done.")
    return None


_STATUSES = {
    Status.DONE: (Outcome.SUCCESS, "It says that its work is done."),
    Status.NEEDS_INPUT: (Outcome.NEEDS_INPUT, "It asks a question."),
    Status.BLOCKED: (Outcome.BLOCKED, "It says that it cannot go on."),
}


def _declared(end: End) -> Verdict | None:
    if end.result.result is None:
        return None
    outcome, why = _STATUSES[end.result.result.status]
    return Verdict(outcome, DecidedBy.RESULT, why)


def _by_itself(end: End, own_word: OwnWord) -> Verdict:
    """A result that cannot be used spoils a success; a failure stays what it is and says so too."""
    seen = end.ended_by is EndedBy.EXIT
    own = own_word(end.exit_code, end.tally) if seen else _with_reason(_LOST, end.reason)
    if not end.result.wrong:
        return own
    if own.outcome is Outcome.SUCCESS:
        return Verdict(Outcome.BAD_RESULT, DecidedBy.RESULT, end.result.sentence)
    return replace(own, why=f"{own.why} {end.result.sentence}")


_LOST = Verdict(Outcome.CRASH, DecidedBy.LOST, "It was lost together with its supervisor.")
