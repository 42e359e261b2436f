"""A message for a bus, from whatever face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.bus import Bus, MessageType, Sender, Terms
from hostler.bus.place import Place
from hostler.clock import Clock
from hostler.telemetry.redact import redact


@dataclass(frozen=True, slots=True)
class Letter:
    """What is said, and on which bus; without a task it is the project's. `create`: begin it."""

    project: str
    task: str
    type: MessageType
    text: str
    thread: str = ""
    create: bool = False


@dataclass(frozen=True, slots=True)
class Postbox:
    """The buses of a home, for one sender."""

    home: Path
    clock: Clock
    terms: Terms
    sender: Sender

    def post(self, letter: Letter) -> Mapping[str, Any]:
        """Append a message, as it is stored; it is in the file when this returns."""
        bus = Bus(Place(self.home, letter.project, letter.task).path, self.clock, self.terms)
        if letter.create:
            bus.create()
        text = redact(letter.text)
        return bus.post(letter.type, text, self.sender, thread=letter.thread).stored()
