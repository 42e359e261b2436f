"""What this room refuses.

HostlerError
└── BusError              a message could not be posted or read
    ├── BadRequest        it is not clear which bus, message or type is meant
    │   └── BadMessage    what was to be posted cannot be
    ├── BusMissing        the task or project has no folder
    ├── BusLocked         another process holds the lock for too long
    ├── BusFull           no space is left
    ├── BusUnusable       its file is no plain file, or may not be touched
    ├── BusUnsynced       posted, but a power cut may lose it
    └── IdsExhausted      the last id leaves no room for another
"""

from __future__ import annotations

from pathlib import Path

from hostler.errors import HostlerError

_NOTHING_POSTED = "Nothing was posted."


class BusError(HostlerError):
    """A message could not be posted or read."""


class BadRequest(BusError):
    """It is not clear which bus, message or type is meant."""

    exit_code = 2

    def __init__(self, what: str, remedy: str = "", safe: str = "") -> None:
        super().__init__(what, safe=safe, remedy=remedy)


class BadMessage(BadRequest):
    """What was to be posted cannot be."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy, _NOTHING_POSTED)


class BusMissing(BusError):
    """There is no folder for this bus."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"There is no folder {path.parent}.",
            safe=_NOTHING_POSTED,
            remedy="Look at the names of project and task: perhaps it was removed.",
        )
        self.path = path


class BusLocked(BusError):
    """Another process kept the lock for longer than we wait."""

    def __init__(self, path: Path, holder: str, attempts: int, waited_seconds: float) -> None:
        super().__init__(
            f"The bus {path} is locked: {holder} does not let go"
            f" ({attempts} attempts, {waited_seconds:.1f} s).",
            safe=_NOTHING_POSTED,
            remedy="Try again; if it stays so, look at that process.",
        )
        self.path = path
        self.holder = holder
        self.attempts = attempts
        self.waited_seconds = waited_seconds


class BusFull(BusError):
    """No space is left for the message."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"No space is left for {path}.", safe=_NOTHING_POSTED, remedy="Free some space."
        )
        self.path = path


class BusUnusable(BusError):
    """The bus's file is not a plain file, or may not be touched."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"The bus {path} cannot be used: {why}.",
            remedy="Look at its owner, permissions and kind.",
        )
        self.path = path


class BusUnsynced(BusError):
    """The message is in the file, but the disk did not confirm it."""

    def __init__(self, path: Path, message_id: str, why: str) -> None:
        super().__init__(
            f"The disk did not confirm message {message_id} of {path}: {why}.",
            safe="It is posted and can be read; a power cut may lose it.",
            remedy="Look at the disk.",
        )
        self.path = path
        self.message_id = message_id


class IdsExhausted(BusError):
    """The last id of the file leaves no room for another."""

    def __init__(self, path: Path, last: str) -> None:
        super().__init__(
            f"No id comes after {last}, the last one of {path}.",
            safe=_NOTHING_POSTED,
            remedy="No clock wrote that: look at the line, and move the file away.",
        )
        self.path = path
        self.last = last
