"""From a message to its line and back. No text can leave its place in a line."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from hostler.bus.errors import BadMessage
from hostler.bus.ids import is_id
from hostler.bus.message import Message, MessageType, Sender, SenderKind, may_say, types_of
from hostler.model import parse_stamp

LARGEST_BODY = 64 * 1024
# An escaped character takes six times its bytes at most; the rest has names of bounded length.
LONGEST_LINE = 6 * LARGEST_BODY + 4096
# What a torn line is covered with: an object that says nothing.
MENDED = b"{}"
_BEGINNING = '{"id":"'
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


def whole_characters(text: str) -> str:
    """The text without halves of surrogate pairs, which no file and no terminal can hold."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def checked_body(body: str) -> str:
    """The text as it can be posted; `BadMessage` where it is too large."""
    body = whole_characters(body)
    if _is_too_large(body):
        raise BadMessage(
            f"A message has {LARGEST_BODY:,} bytes at most; this text has {len(body.encode()):,}.",
            "Put it into a file and name that.",
        )
    return body


def _is_too_large(body: str) -> bool:
    # A character has four bytes at most, so that few texts need to be encoded to know.
    return len(body) * 4 > LARGEST_BODY and len(body.encode()) > LARGEST_BODY


def checked_type(type_: MessageType, sender: Sender) -> MessageType:
    """The type; `BadMessage` where this sender may not use it."""
    if not may_say(sender.kind, type_):
        allowed = ", ".join(types_of(sender.kind))
        who = "An agent" if sender.kind is SenderKind.AGENT else f"A {sender.kind}"
        raise BadMessage(f"{who} cannot post {type_}.", f"Use one of: {allowed}.")
    return type_


@lru_cache(maxsize=256)
def _encoded(sender: Sender) -> str:
    return json.dumps(sender.stored())


class Draft:
    """A message without its id: encoded before the lock is taken, so that it is held shortly."""

    __slots__ = ("_rest", "body", "sender", "thread", "type")

    def __init__(self, type_: MessageType, body: str, sender: Sender, thread: str = "") -> None:
        self.type = checked_type(type_, sender)
        self.body = checked_body(body)
        self.sender = sender
        self.thread = thread
        answers = f'"thread":"{thread}",' if thread else ""
        who = f'"type":"{type_.value}","sender":{_encoded(sender)}'
        self._rest = f'{who},{answers}"body":{json.dumps(self.body)}}}\n'

    def line(self, message_id: str, at: str, attempts: int = 1) -> bytes:
        """The line of this message, with its end."""
        tried = f'"attempts":{attempts},' if attempts > 1 else ""
        return f'{_BEGINNING}{message_id}","at":"{at}",{tried}{self._rest}'.encode("ascii")

    def message(self, message_id: str, at: str, attempts: int = 1) -> Message:
        """The message itself."""
        return Message(message_id, at, self.type, self.sender, self.body, self.thread, attempts)


def id_in(line: bytes | None) -> str:
    """The id of a line that begins as ours do, or nothing. The rest of it is not looked at."""
    text = line[: len(_BEGINNING) + 22].decode("ascii", "replace") if line else ""
    found = text.removeprefix(_BEGINNING)
    return found if text != found and is_id(found) else ""


def parse(line: bytes) -> Message | None:
    """The message that a line holds, or None: lines may be anything."""
    try:
        found = json.loads(line.decode())
        return _message(found) if isinstance(found, dict) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _message(found: dict[str, Any]) -> Message:
    thread, attempts = found.get("thread", ""), found.get("attempts", 1)
    texts = (found["id"], found["at"], found["type"], found["body"], thread)
    if not all(isinstance(text, str) for text in texts) or type(attempts) is not int:
        raise ValueError("a value of another kind")
    message = Message(
        found["id"],
        found["at"],
        MessageType(found["type"]),
        Sender.of(found["sender"]),
        whole_characters(found["body"]),
        thread,
        attempts,
    )
    if not _is_sound(message):
        raise ValueError("a value that nobody may give")
    return message


def _is_sound(message: Message) -> bool:
    parse_stamp(message.at)
    return (
        # Python takes many forms for a moment, some of which a terminal would obey.
        bool(_STAMP.fullmatch(message.at))
        and is_id(message.id)
        and (not message.thread or is_id(message.thread))
        and message.attempts >= 1
        and may_say(message.sender.kind, message.type)
        and not _is_too_large(message.body)
    )
