"""What an exit code alone can say."""

from __future__ import annotations

import signal

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy, Verdict

# As shells have it, and as our supervisor says it where a program cannot be started.
NOT_EXECUTABLE, NOT_FOUND = 126, 127
_SHELL_SIGNAL = 128


def by_exit_code(code: int | None) -> Verdict:
    """The verdict of a program of which nothing else is known."""
    if code == 0:
        return _verdict(Outcome.SUCCESS, "It exited with 0.")
    if code == NOT_FOUND:
        return _verdict(Outcome.CONFIG, "Its program was not found (exit code 127).")
    if code == NOT_EXECUTABLE:
        return _verdict(Outcome.CONFIG, "Its program cannot be executed (exit code 126).")
    if code is None:
        return _verdict(Outcome.CRASH, "It ended without an exit code.")
    number = -code if code < 0 else code - _SHELL_SIGNAL
    if name := _signal_name(number):
        return _verdict(Outcome.CRASH, f"It was ended by {name}.")
    return _verdict(Outcome.CRASH, f"It exited with {code}.")


def _verdict(outcome: Outcome, why: str) -> Verdict:
    return Verdict(outcome, DecidedBy.EXIT_CODE, why)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
