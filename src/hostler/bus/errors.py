"""Errors of the message bus.

HostlerError
└── BusError              a message could not be posted or read
    ├── InvalidBusRequest the bus, message or type is ambiguous or unknown
    │   └── InvalidMessage the message is invalid
    ├── BusMissing        the task or project has no folder
    ├── BusLocked         another process holds the lock for too long
    ├── BusFull           no space is left
    ├── BusUnusable       the file is not a regular file, or access is denied
    ├── BusUnsynced       posted, but the disk did not confirm it
    └── IdsExhausted      no id is left after the last one
"""

from __future__ import annotations

from pathlib import Path

from hostler.errors import HostlerError

_NOTHING_POSTED = "Nothing was posted."


class BusError(HostlerError):
    """A message could not be posted or read."""


class InvalidBusRequest(BusError):
    """The bus, message or type is ambiguous or unknown."""

    exit_code = 2

    def __init__(self, what: str, remedy: str = "", safe: str = "") -> None:
        super().__init__(what, safe=safe, remedy=remedy)


class InvalidMessage(InvalidBusRequest):
    """The message is invalid and was not posted."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy, _NOTHING_POSTED)


class BusMissing(BusError):
    """The bus has no folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"There is no folder {path.parent}.",
            safe=_NOTHING_POSTED,
            remedy="Check the names of project and task; it may have been deleted.",
        )
        self.path = path


class BusLocked(BusError):
    """Another process held the lock for longer than the timeout."""

    def __init__(self, path: Path, holder: str, attempts: int, waited_seconds: float) -> None:
        super().__init__(
            f"The bus {path} is locked: {holder} holds the lock"
            f" ({attempts} attempts, {waited_seconds:.1f} s).",
            safe=_NOTHING_POSTED,
            remedy="Try again; if it persists, check that process.",
        )
        self.path = path
        self.holder = holder
        self.attempts = attempts
        self.waited_seconds = waited_seconds


class BusFull(BusError):
    """The disk has no space for the message."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"No space is left for {path}.", safe=_NOTHING_POSTED, remedy="Free some space."
        )
        self.path = path


class BusUnusable(BusError):
    """The file of the bus is not a regular file, or access is denied."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"The bus {path} cannot be used: {why}.",
            remedy="Check its owner, permissions and file type.",
        )
        self.path = path


class BusUnsynced(BusError):
    """The message is in the file, but the disk did not confirm it."""

    def __init__(self, path: Path, message_id: str, why: str) -> None:
        super().__init__(
            f"The disk did not confirm message {message_id} of {path}: {why}.",
            safe="It was posted and can be read; a power failure may lose it.",
            remedy="Check the disk.",
        )
        self.path = path
        self.message_id = message_id


class IdsExhausted(BusError):
    """No id is left after the last id in the file."""

    def __init__(self, path: Path, last: str) -> None:
        super().__init__(
            f"No id comes after {last}, the last one of {path}.",
            safe=_NOTHING_POSTED,
            remedy="The last message id is invalid (far in the future). "
            "Check the last line, and move the file away.",
        )
        self.path = path
        self.last = last
