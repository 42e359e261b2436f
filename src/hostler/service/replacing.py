"""One program becomes the next: how it is called, what it is handed, who hears signals."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# The descriptor of the home's lock, for the program that comes after us.
LOCK_VARIABLE = "HOSTLER_INHERITED_LOCK"
LEAVING_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def replace_process(words: Sequence[str], lock: int) -> None:
    """Become the program that is on the disk now. Returns only by raising `OSError`."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    environment = {**os.environ, LOCK_VARIABLE: str(lock)}
    try:
        # A shell would lose the descriptor of the lock.
        os.execve(words[0], [*words], environment)  # noqa: S606
    finally:
        # We are still here: what we start must not keep the lock.
        os.set_inheritable(lock, False)


def program(home: Path, config: Path | None, *, debug: bool = False) -> list[str]:
    """How the program on the disk is called for this home: to be asked, and to take over.

    By whole paths: who stands elsewhere, or in a folder that was made anew, means the same.
    """
    settings = ["--config", str(config)] if config else []
    python = [sys.executable, *called(sys.orig_argv, sys.argv)]
    return [*python, "--home", str(home), *settings, *(["--debug"] if debug else [])]


def called(whole: Sequence[str], ours: Sequence[str]) -> list[str]:
    """What stood between Python and our own words; our name, if that script is gone."""
    between = list(whole[1 : len(whole) - len(ours) + 1])
    if between and between[0].startswith("-"):
        return between
    if between and Path(between[0]).exists():
        return [str(Path(between[0]).absolute()), *between[1:]]
    return ["-m", "hostler"]


def inherited() -> int | None:
    """The lock that was handed over. Taken out of the environment: our children must not see it."""
    lock = os.environ.pop(LOCK_VARIABLE, "")
    return int(lock) if lock.isdigit() else None


@contextmanager
def signals_kept_for_the_next() -> Iterator[None]:
    """Nobody here hears a signal any more: it waits for the program that takes over.

    Only this thread can hold them back. One that another thread gets ends us, which is what it
    asks for; a handler of ours would hear it, and be gone before it has done anything.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, LEAVING_SIGNALS)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in LEAVING_SIGNALS}
    # The next program has no ear for this one at first, and reads the settings anyway.
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, LEAVING_SIGNALS)
