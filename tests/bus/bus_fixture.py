"""What the tests of the bus share: senders, plain readings of files, real processes.

Children import this, fifty at a time: nothing heavy belongs here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostler.bus.bus import Bus
from hostler.bus.message import Message, MessageDraft, MessageSender, MessageType, parse_line
from loaded_children import CONTEXT

# A child that never answers must fail the test, not hang it.
PATIENCE = 60.0

AGENT = MessageSender.agent("r1", "t1", "stable")
ADA = MessageSender.person("ada")
SERVICE = MessageSender.service(run="r1", task="t1", project="stable")

FACT, INFO, USER = MessageType.FACT, MessageType.INFO, MessageType.USER


def line(message_id: str, body: str = "x", sender: MessageSender = AGENT) -> bytes:
    """A line as our writers make it."""
    return MessageDraft(INFO, body, sender).line(message_id, "2026-03-01T12:00:00.000Z")


def ids(messages: Any) -> list[str]:
    return [message.id for message in messages]


def bodies(messages: Any) -> list[str]:
    return [message.body for message in messages]


def files_of(path: Path) -> list[Path]:
    """All files of a bus, oldest first, found by nothing but their names."""
    return [*sorted(path.parent.glob("bus.*.jsonl")), *([path] if path.exists() else [])]


def plain_messages(path: Path) -> list[Message]:
    """The messages on a bus, by a plain reading of everything."""
    lines = [part for file in files_of(path) for part in file.read_bytes().split(b"\n")[:-1]]
    return [message for part in lines if (message := parse_line(part)) is not None]


def every_line_is_json(path: Path) -> bool:
    """Whether any tool can read the files, line by line."""
    for file in files_of(path):
        for part in file.read_bytes().splitlines():
            assert isinstance(json.loads(part), dict)
    return True


def post_many(bus: Bus, count: int, prefix: str = "m") -> list[Message]:
    return [bus.post(INFO, f"{prefix}{number}", AGENT) for number in range(count)]


class Child:
    """One process, and a pipe to it."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=work, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def hear(self) -> Any:
        """What the child says next."""
        if not self.pipe.poll(PATIENCE):
            raise TimeoutError("the child says nothing")
        return self.pipe.recv()

    def tell(self, word: Any = "go") -> None:
        self.pipe.send(word)

    def everything_heard(self) -> list[Any]:
        """What the child said up to its end."""
        heard = []
        try:
            while True:
                heard.append(self.hear())
        except (EOFError, ConnectionResetError):
            return heard

    def join(self) -> int:
        self.process.join(PATIENCE)
        assert self.process.exitcode is not None, "the child does not end"
        return self.process.exitcode
