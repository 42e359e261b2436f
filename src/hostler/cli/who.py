"""Who gives a command: the person at this machine, or the agent of a run."""

from __future__ import annotations

import os


def who() -> str:
    """A name for rows that say who did something."""
    task = os.environ.get("HOSTLER_TASK", "")
    return f"the agent of {task}" if task and os.environ.get("HOSTLER_RUN") else person()


def person() -> str:
    """The person at this machine."""
    from hostler.service.persons import person as found

    return found()
