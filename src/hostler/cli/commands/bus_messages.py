"""Parse the options of bus commands, and format messages for the terminal."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import TextIO

from hostler.bus.bus import Bus, BusLocation
from hostler.bus.errors import InvalidBusRequest, InvalidMessage
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
    """Parse a message type, ignoring case."""
    try:
        return MessageType(name.upper().replace("-", "_"))
    except ValueError:
        raise InvalidBusRequest(
            f"Unknown message type {name[:40]!r}.", f"Known types: {', '.join(MessageType)}."
        ) from None


def default_type(sender: MessageSender) -> MessageType:
    """Return the type of a message whose type was not given."""
    return MessageType.USER if sender.kind is SenderKind.PERSON else MessageType.FACT


def parse_id(text: str) -> str:
    """Return a message ID or an empty text; raise InvalidBusRequest for anything else."""
    if text and not is_id(text):
        raise InvalidBusRequest(
            f"Invalid message ID {text[:40]!r}.",
            "IDs look like 20260301-120000-123456; `hostler bus read` shows them.",
        )
    return text


def find_thread(bus: Bus, text: str) -> str:
    """Return the thread of a message."""
    found = bus.get(parse_id(text))
    if found is None:
        raise InvalidBusRequest(f"There is no message {text} on this bus.")
    return found.thread_id


def read_body(text: str | None, file: Path | None, stdin: TextIO) -> str:
    """Read a message from the argument, a file or standard input; raise InvalidMessage if empty."""
    if text is not None and file is not None:
        raise InvalidMessage("Give either a text or --file, not both.")
    if file is not None:
        body = _read_file(file)
    elif text == "-" or (text is None and not stdin.isatty()):
        body = _decode(stdin.buffer.read(MAX_BODY_SIZE + 2))
    else:
        body = text or ""
    if not body.strip():
        raise InvalidMessage(
            "The message is empty.", "Give a text, --file FILE, or - for standard input."
        )
    return body


def _read_file(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return _decode(opened.read(MAX_BODY_SIZE + 2))
    except OSError as error:
        raise InvalidMessage(f"Cannot read {file}: {error.strerror}.") from error


def _decode(data: bytes) -> str:
    # The last newline ends the file, it is not part of the message.
    data = data.removesuffix(b"\n")
    if len(data) > MAX_BODY_SIZE:
        raise InvalidMessage(
            f"The message is longer than {MAX_BODY_SIZE:,} bytes.",
            "Put the text into a file and name the file in the message.",
        )
    return data.decode("utf-8", "replace")


def missing_bus_error(place: BusLocation) -> InvalidBusRequest:
    """Build the error for a missing bus, with a similar name as a hint."""
    folder = place.path.parent
    try:
        names = [path.name for path in folder.parent.iterdir() if path.is_dir()]
    except OSError:
        names = []
    close = get_close_matches(folder.name, names, n=1)
    like = f"Did you mean {close[0]}? " if close else ""
    return InvalidBusRequest(
        f"There is no {place} in {place.home}.",
        f"{like}`hostler bus post --create` creates its bus.",
    )


def format_message(message: Message) -> str:
    """Format a message for the terminal: a heading, then its text."""
    answers = f"  in thread {message.thread}" if message.thread else ""
    head = f"{message.id}  {message.type:<9}  {message.sender}{answers}"
    return "\n".join([head, *(f"  {escape_control(line)}" for line in message.body.split("\n"))])


def format_json_line(message: Message) -> str:
    """Format a message as one line of JSON."""
    return json.dumps(message.stored())


def format_count(value: object) -> str:
    """Format a number, a text or a table of numbers for the terminal."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        value = ", ".join(f"{name} {count:,}" for name, count in sorted(value.items()))
    return str(value) or "-"
