"""The run's lock: held means that its shim lives."""

from __future__ import annotations

import fcntl
import os
import time

NAME = "run.lock"
# Somebody who tests the lock holds it for a moment: that is no other shim.
PATIENCE_SECONDS = 0.25


class Taken(Exception):
    """Another shim has this run."""


def take() -> int:
    """Take the run in this folder for life: the descriptor is never closed."""
    descriptor = os.open(NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    until = time.monotonic() + PATIENCE_SECONDS
    while not _try(descriptor, fcntl.LOCK_EX):
        if time.monotonic() >= until:
            os.close(descriptor)
            raise Taken
        time.sleep(0.01)
    return descriptor


def held(folder: str | os.PathLike[str]) -> bool:
    """Whether a shim lives for the run in `folder`."""
    try:
        descriptor = os.open(f"{os.fspath(folder)}/{NAME}", os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        return not _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
