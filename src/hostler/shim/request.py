"""What `stop.json` asks for. That it exists is the request; what it says is detail."""

from __future__ import annotations

import os

from . import files, spec


class Stop:
    """A request to end the run."""

    __slots__ = ("grace", "why")

    def __init__(self, why: str, grace: float | None = None) -> None:
        self.why = why[: files.LONGEST_TEXT]
        self.grace = grace


def read(path: str = files.STOP) -> Stop | None:
    """The request in a file, if there is one; one that cannot be understood is one too."""
    if not os.path.lexists(path):
        return None
    try:
        asked = files.read(path) or {}
    except files.Unreadable as error:
        return Stop(str(error))
    why = asked.get("why")
    try:
        grace = spec.seconds(asked["grace_seconds"])
    except (KeyError, ValueError):
        grace = None
    return Stop(why if isinstance(why, str) else "", grace)
