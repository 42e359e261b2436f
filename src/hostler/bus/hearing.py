"""Which words of people the agent of a run was shown on its bus.

Readers of a bus leave no trace on it, and words that nobody read must not be lost. So the program
that shows them to an agent notes their ids in the folder of its run.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from hostler.bus.bus import Bus
from hostler.bus.errors import BusError
from hostler.bus.files import open_to_read
from hostler.bus.message import Message, MessageType

FILE_NAME = "heard"
# The agent can write the file as well: no more of it is read than it could need.
MOST_BYTES = 65_536
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def note_heard(folder: Path, message: Message) -> None:
    """Called before it is shown: what comes after may be cut off. A missing note harms nobody."""
    if message.type is not MessageType.USER:
        return
    with suppress(OSError):
        descriptor = os.open(folder / FILE_NAME, _APPEND, 0o600)
        try:
            os.write(descriptor, f"{message.id}\n".encode())
        finally:
            os.close(descriptor)


def heard(folder: Path, bus: Bus) -> list[Message]:
    """Words of people on a bus that the agent of a run was shown, each once."""
    found = (bus.get(name) for name in _noted(folder / FILE_NAME))
    return [one for one in found if one is not None and one.type is MessageType.USER]


def _noted(path: Path) -> list[str]:
    try:
        file = open_to_read(path)
    except BusError:
        return []
    if file is None:
        return []
    with file:
        text = file.read(MOST_BYTES).decode("ascii", "replace")
    return list(dict.fromkeys(text.split("\n")))
