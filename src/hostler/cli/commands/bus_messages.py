"""Parse what users type for a bus message, and format messages for the terminal."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import TextIO

from hostler.bus.bus import Bus, BusLocation
from hostler.bus.errors import BadMessage, BadRequest
from hostler.bus.message import (
    MAX_BODY_SIZE,
    Message,
    MessageSender,
    MessageType,
    SenderKind,
    is_id,
)
from hostler.text import escape_control


def parse_type(name: str) -> MessageType:
    """The type that a person means, in whatever case."""
    try:
        return MessageType(name.upper().replace("-", "_"))
    except ValueError:
        raise BadRequest(
            f"There is no type {name[:40]!r} of messages.", f"There are: {', '.join(MessageType)}."
        ) from None


def default_type(sender: MessageSender) -> MessageType:
    """What a message is that nobody called anything else."""
    return MessageType.USER if sender.kind is SenderKind.PERSON else MessageType.FACT


def parse_id(text: str) -> str:
    """An id, or nothing; anything else is refused."""
    if text and not is_id(text):
        raise BadRequest(
            f"{text[:40]!r} is not the id of a message.",
            "Ids look like 20260301-120000-123456; `hostler bus read` shows them.",
        )
    return text


def find_thread(bus: Bus, text: str) -> str:
    """The thread to which a message belongs."""
    found = bus.get(parse_id(text))
    if found is None:
        raise BadRequest(f"There is no message {text} on this bus.")
    return found.thread_id


def read_body(text: str | None, file: Path | None, stdin: TextIO) -> str:
    """The message: from the argument, a file or standard input; never empty."""
    if text is not None and file is not None:
        raise BadMessage("There is a text and a --file; a message has one of them.")
    if file is not None:
        body = _read_file(file)
    elif text == "-" or (text is None and not stdin.isatty()):
        body = _decode(stdin.buffer.read(MAX_BODY_SIZE + 2))
    else:
        body = text or ""
    if not body.strip():
        raise BadMessage("The message is empty.", "Give a text, --file FILE, or - to read one.")
    return body


def _read_file(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return _decode(opened.read(MAX_BODY_SIZE + 2))
    except OSError as error:
        raise BadMessage(f"{file} cannot be read: {error.strerror}.") from error


def _decode(data: bytes) -> str:
    # The last newline belongs to the file, and not to what it says.
    data = data.removesuffix(b"\n")
    if len(data) > MAX_BODY_SIZE:
        raise BadMessage(
            f"A message has {MAX_BODY_SIZE:,} bytes at most; this one has more.",
            "Leave it in a file, and name that in the message.",
        )
    return data.decode("utf-8", "replace")


def missing_bus_error(place: BusLocation) -> BadRequest:
    """Why there is no such bus, with names that look alike."""
    folder = place.path.parent
    try:
        names = [path.name for path in folder.parent.iterdir() if path.is_dir()]
    except OSError:
        names = []
    close = get_close_matches(folder.name, names, n=1)
    like = f"Did you mean {close[0]}? " if close else ""
    return BadRequest(
        f"There is no {place} in {place.home}.",
        f"{like}`hostler bus post --create` begins its bus all the same.",
    )


def format_message(message: Message) -> str:
    """A message for people: a line about it, then its text."""
    answers = f"  in thread {message.thread}" if message.thread else ""
    head = f"{message.id}  {message.type:<9}  {message.sender}{answers}"
    return "\n".join([head, *(f"  {escape_control(line)}" for line in message.body.split("\n"))])


def format_json_line(message: Message) -> str:
    """A message for programs, on one line."""
    return json.dumps(message.stored())


def format_count(value: object) -> str:
    """A number, a text or a table of numbers, for people."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        value = ", ".join(f"{name} {count:,}" for name, count in sorted(value.items()))
    return str(value) or "-"
