"""Signals to the shim wake it and do nothing else; the files say what to do."""

from __future__ import annotations

import signal

WAKERS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
# A fault of the program itself must stay visible, and cannot be put off.
FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
UNTOUCHABLE = {signal.SIGKILL, signal.SIGSTOP}


def hold() -> None:
    """Block all signals, and undo what whoever started us chose to ignore."""
    signals = signal.valid_signals() - UNTOUCHABLE
    signal.pthread_sigmask(signal.SIG_BLOCK, signals - FAULTS)
    for number in signals:
        signal.signal(number, signal.SIG_DFL)


def wait(seconds: float) -> int:
    """Until a signal wakes us, which is returned, or the time is over."""
    info = signal.sigtimedwait(WAKERS, max(0.0, seconds))
    return info.si_signo if info else 0


def release() -> None:
    """Let all signals through: for the agent."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
