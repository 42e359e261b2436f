"""Decide the outcome of a run from its exit, DONE file, result and stream. Pure functions.

What Hostler did itself comes first (stop, time limit, silence), then the DONE file, then
result.json, then what the agent's program says by its stream and exit code.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from hostler.agents.events import LimitSignal, StreamTally
from hostler.agents.outcomes import Outcome
from hostler.agents.result import AgentResult, DoneFile, ResultFault, ResultReading, ResultStatus
from hostler.text import format_code


class EndedBy(StrEnum):
    """Why the agent's processes ended, as the supervisor reports it.

    `lost`: the supervisor itself was gone, so the reason is unknown.
    """

    EXIT = "exit"
    STOP = "stop"
    WALL_TIMEOUT = "wall_timeout"
    STALL = "stall"
    NOT_STARTED = "not_started"
    SHIM_FAILED = "shim_failed"
    LOST = "lost"


class DecidedBy(StrEnum):
    """Which fact decided the verdict."""

    STOP = "stop"
    WALL_TIMEOUT = "wall_timeout"
    STALL = "stall"
    NOT_STARTED = "not_started"
    DONE = "done"
    RESULT = "result"
    STREAM = "stream"
    EXIT_CODE = "exit_code"
    LOST = "lost"


MAX_REASON_LENGTH = 500
NO_RESULT = ResultReading(None, ResultFault.MISSING)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """What is known when no process of an agent is left.

    The exit code of a signal is negative; `reason` is the supervisor's message, if any.
    """

    ended_by: EndedBy
    exit_code: int | None = None
    tally: StreamTally = field(default_factory=StreamTally)
    result: ResultReading = NO_RESULT
    done: DoneFile = field(default_factory=DoneFile)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The outcome, the fact that decided it, and a sentence for users.

    `result` is the agent's valid result, whatever decided; `limit` the last limit signal.
    """

    outcome: Outcome
    decided_by: DecidedBy
    why: str
    result: AgentResult | None = None
    limit: LimitSignal | None = None

    @property
    def declared(self) -> bool:
        """Return whether the agent declared how it ended; an exit code alone does not count."""
        return self.decided_by in {DecidedBy.DONE, DecidedBy.RESULT}


ProgramVerdict = Callable[[int | None, StreamTally], RunVerdict]


def judge_run(end: RunEnd, program_verdict: ProgramVerdict) -> RunVerdict:
    """Decide the outcome of a run. `program_verdict`: from the exit code and the stream."""
    verdict = (
        _judge_ended_by_hostler(end)
        or _judge_done_file(end)
        or _judge_result(end)
        or _judge_program(end, program_verdict)
    )
    return replace(verdict, result=end.result.result, limit=verdict.limit or end.tally.limit)


_ENDED_BY_HOSTLER = {
    EndedBy.STOP: RunVerdict(Outcome.INTERRUPTED, DecidedBy.STOP, "It was stopped on request."),
    EndedBy.WALL_TIMEOUT: RunVerdict(
        Outcome.TIMEOUT, DecidedBy.WALL_TIMEOUT, "It reached its time limit and was stopped."
    ),
    EndedBy.STALL: RunVerdict(
        Outcome.STALLED, DecidedBy.STALL, "It was silent for too long and was stopped."
    ),
    EndedBy.NOT_STARTED: RunVerdict(
        Outcome.CONFIG,
        DecidedBy.NOT_STARTED,
        "Its program could not be started: install it, or fix the agent's `command`.",
    ),
}


def _judge_ended_by_hostler(end: RunEnd) -> RunVerdict | None:
    own_verdict = _ENDED_BY_HOSTLER.get(end.ended_by)
    return _with_reason(own_verdict, end.reason) if own_verdict else None


def _with_reason(verdict: RunVerdict, reason: str) -> RunVerdict:
    # The agent can write to this file, and its text may be published on GitHub.
    quoted = f" ({format_code(reason, MAX_REASON_LENGTH)})" if reason.strip() else ""
    return replace(verdict, why=f"{verdict.why}{quoted}")


def _judge_done_file(end: RunEnd) -> RunVerdict | None:
    if end.done.wrong:
        return RunVerdict(Outcome.BAD_RESULT, DecidedBy.DONE, end.done.wrong)
    if end.done.marked:
        return RunVerdict(Outcome.SUCCESS, DecidedBy.DONE, "It marked its task as done.")
    return None


_OUTCOMES_BY_STATUS = {
    ResultStatus.DONE: (Outcome.SUCCESS, "It reported that its work is done."),
    ResultStatus.NEEDS_INPUT: (Outcome.NEEDS_INPUT, "It asked a question."),
    ResultStatus.BLOCKED: (Outcome.BLOCKED, "It reported that it is blocked."),
}


def _judge_result(end: RunEnd) -> RunVerdict | None:
    if end.result.result is None:
        return None
    outcome, why = _OUTCOMES_BY_STATUS[end.result.result.status]
    return RunVerdict(outcome, DecidedBy.RESULT, why)


def _judge_program(end: RunEnd, program_verdict: ProgramVerdict) -> RunVerdict:
    """Judge by the program. An invalid result makes success a failure, and is noted otherwise."""
    has_exited = end.ended_by is EndedBy.EXIT
    own = (
        program_verdict(end.exit_code, end.tally)
        if has_exited
        else _with_reason(_LOST_VERDICT, end.reason)
    )
    if not end.result.wrong:
        return own
    if own.outcome is Outcome.SUCCESS:
        return RunVerdict(Outcome.BAD_RESULT, DecidedBy.RESULT, end.result.sentence)
    return replace(own, why=f"{own.why} {end.result.sentence}")


_LOST_VERDICT = RunVerdict(
    Outcome.CRASH, DecidedBy.LOST, "It was lost together with its supervisor."
)


_MAX_EXIT_REASON = 500


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How the process ended. The code of a signal is negative."""

    ended_by: EndedBy
    code: int | None = None
    reason: str = ""


# There is no exit record: the supervisor itself is gone.
LOST_EXIT = ProcessExit(EndedBy.LOST)


def parse_exit(exit_record: Mapping[str, object]) -> ProcessExit:
    """Parse exit.json. An unknown value of a newer supervisor counts as `lost`."""
    ended_by, reason = exit_record.get("ended_by"), exit_record.get("reason")
    known = isinstance(ended_by, str) and ended_by in set(EndedBy)
    quoted = " ".join(reason.split())[:_MAX_EXIT_REASON] if isinstance(reason, str) else ""
    return ProcessExit(
        EndedBy(str(ended_by)) if known else EndedBy.LOST, _parse_code(exit_record), quoted
    )


def _parse_code(exit_record: Mapping[str, object]) -> int | None:
    code, name = exit_record.get("exit_code"), exit_record.get("signal")
    if isinstance(code, int) and not isinstance(code, bool):
        return code
    if isinstance(name, str) and name in signal.Signals.__members__:
        return -signal.Signals[name].value
    return None


# Shells use these codes, and the supervisor does if a program cannot be started.
NOT_EXECUTABLE, NOT_FOUND = 126, 127
_SHELL_SIGNAL_BASE = 128


def judge_exit_code(code: int | None) -> RunVerdict:
    """Judge a program by its exit code alone."""
    if code == 0:
        return _exit_code_verdict(Outcome.SUCCESS, "It exited with 0.")
    if code == NOT_FOUND:
        return _exit_code_verdict(Outcome.CONFIG, "Its program was not found (exit code 127).")
    if code == NOT_EXECUTABLE:
        return _exit_code_verdict(Outcome.CONFIG, "Its program cannot be executed (exit code 126).")
    if code is None:
        return _exit_code_verdict(Outcome.CRASH, "It ended without an exit code.")
    number = -code if code < 0 else code - _SHELL_SIGNAL_BASE
    if name := _signal_name(number):
        return _exit_code_verdict(Outcome.CRASH, f"It was ended by {name}.")
    return _exit_code_verdict(Outcome.CRASH, f"It exited with {code}.")


def _exit_code_verdict(outcome: Outcome, why: str) -> RunVerdict:
    return RunVerdict(outcome, DecidedBy.EXIT_CODE, why)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
