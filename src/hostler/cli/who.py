"""Who gives a command: the person at this machine, or the agent of a run."""

from __future__ import annotations

import os
from getpass import getuser


def who() -> str:
    """A name for rows that say who did something."""
    task = os.environ.get("HOSTLER_TASK", "")
    return f"the agent of {task}" if task and os.environ.get("HOSTLER_RUN") else person()


def person() -> str:
    """The person at this machine."""
    try:
        return getuser()
    except (KeyError, OSError):  # a user without a name
        return f"user {os.getuid()}"
