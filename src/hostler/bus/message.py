"""Messages, their senders and ids, and their encoding as one line of JSON. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any

from hostler.bus.errors import InvalidMessage
from hostler.model import parse_timestamp

# Sorts before every id.
BEGINNING = ""
_ID_PATTERN = re.compile(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)-(\d{6})", re.ASCII)
_ONE_MICROSECOND = timedelta(microseconds=1)


def id_from_time(timestamp: datetime) -> str:
    """Return a timestamp as an id: `20260301-120000-123456`."""
    return id_and_timestamp(timestamp)[0]


def id_and_timestamp(timestamp: datetime) -> tuple[str, str]:
    """Return a timestamp as an id and as text, formatted once: this runs under the lock."""
    # 2026-03-01T12:00:00.123456+00:00
    text = timestamp.astimezone(UTC).isoformat(timespec="microseconds")
    day, time = text[:4] + text[5:7] + text[8:10], text[11:13] + text[14:16] + text[17:19]
    return f"{day}-{time}-{text[20:26]}", f"{text[:23]}Z"


def time_from_id(message_id: str) -> datetime:
    """Return the timestamp of an id. Raise ValueError if it is not an id."""
    found = _ID_PATTERN.fullmatch(message_id)
    if found is None:
        raise ValueError(f"not the id of a message: {message_id[:40]!r}")
    return datetime(*map(int, found.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]


def is_id(text: str) -> bool:
    """Return whether a text is an id."""
    try:
        time_from_id(text)
    except ValueError:
        return False
    return True


def next_id(last: str, now: datetime) -> str:
    """Return an id for now that comes after `last`. Raise OverflowError if none is left."""
    return id_after(last, id_from_time(now))


def id_after(last: str, new: str) -> str:
    """Return `new`, or the id after `last` if `new` does not come after it."""
    return new if new > last else id_from_time(time_from_id(last) + _ONE_MICROSECOND)


def previous_id(message_id: str) -> str:
    """Return the largest id before an id."""
    try:
        return id_from_time(time_from_id(message_id) - _ONE_MICROSECOND)
    except OverflowError:
        return BEGINNING


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MAX_PERSON_LENGTH = 100


class MessageType(StrEnum):
    """What a message is for."""

    FACT = "FACT"
    PROGRESS = "PROGRESS"
    DECISION = "DECISION"
    QUESTION = "QUESTION"
    ERROR = "ERROR"
    WARNING = "WARNING"
    INFO = "INFO"
    USER = "USER"
    REVIEW = "REVIEW"
    RUN_START = "RUN_START"
    RUN_STOP = "RUN_STOP"
    RUN_CRASH = "RUN_CRASH"


class SenderKind(StrEnum):
    """What kind of sender posted a message."""

    AGENT = "agent"
    PERSON = "person"
    SERVICE = "service"


_REQUIRED_SENDER = {
    MessageType.USER: SenderKind.PERSON,
    MessageType.RUN_START: SenderKind.SERVICE,
    MessageType.RUN_STOP: SenderKind.SERVICE,
    MessageType.RUN_CRASH: SenderKind.SERVICE,
}


def may_post(kind: SenderKind, type_: MessageType) -> bool:
    """Return whether a kind of sender may use a type: only the service reports run events."""
    return _REQUIRED_SENDER.get(type_, kind) is kind


def allowed_types(kind: SenderKind) -> list[MessageType]:
    """Return the message types that a kind of sender may use."""
    return [type_ for type_ in MessageType if may_post(kind, type_)]


def is_valid_name(text: str) -> bool:
    """Return whether a text is valid as the name of a project, task or run, and so of a folder."""
    return bool(_NAME.fullmatch(text)) and ".." not in text and not text.endswith((".", ".lock"))


def is_valid_person(text: str) -> bool:
    """Return whether a text is valid as a user name: short, without control characters."""
    return 0 < len(text) <= _MAX_PERSON_LENGTH and text.isprintable()


@dataclass(frozen=True, slots=True)
class MessageSender:
    """Who sent a message. Use one of the three constructors."""

    kind: SenderKind
    name: str = ""
    run: str = ""
    task: str = ""
    project: str = ""

    @classmethod
    def agent(cls, run: str, task: str = "", project: str = "") -> MessageSender:
        """Return the sender for the agent of a run."""
        if not run:
            raise ValueError("an agent speaks for a run")
        return cls(SenderKind.AGENT, "", *_require_names(run, task, project))

    @classmethod
    def person(cls, name: str) -> MessageSender:
        """Return the sender for a user: of this machine (`ada`) or elsewhere (`github:ada`)."""
        if not is_valid_person(name):
            raise ValueError(f"not the name of a person: {name[:60]!r}")
        return cls(SenderKind.PERSON, name=name)

    @classmethod
    def service(cls, run: str = "", task: str = "", project: str = "") -> MessageSender:
        """Return the sender for Hostler itself, about this run or task."""
        return cls(SenderKind.SERVICE, "", *_require_names(run, task, project))

    @classmethod
    def of(cls, value: object) -> MessageSender:
        """Parse the stored form. Raise ValueError if it is invalid."""
        if not isinstance(value, dict):
            raise ValueError("a sender is an object")
        said = [value.get(key, "") for key in ("name", "run", "task", "project")]
        if not all(isinstance(word, str) for word in said):
            raise ValueError("a sender is made of texts")
        return _cached_sender(SenderKind(value["kind"]), *said)

    def stored(self) -> dict[str, str]:
        """Return the form that is written to the file."""
        said = {"name": self.name, "run": self.run, "task": self.task, "project": self.project}
        return {"kind": self.kind.value, **{key: word for key, word in said.items() if word}}

    def __str__(self) -> str:
        if self.kind is SenderKind.PERSON:
            return self.name
        return f"{self.kind.value} {self.run or self.task}".rstrip()


@lru_cache(maxsize=256)
def _cached_sender(kind: SenderKind, name: str, run: str, task: str, project: str) -> MessageSender:
    """Return one shared object per sender: thousands of lines have the same few senders."""
    if kind is SenderKind.PERSON:
        return MessageSender.person(name)
    if kind is SenderKind.AGENT:
        return MessageSender.agent(run, task, project)
    return MessageSender.service(run, task, project)


def _require_names(*names: str) -> tuple[str, ...]:
    for name in names:
        if name and not is_valid_name(name):
            raise ValueError(f"not the name of a run, task or project: {name[:60]!r}")
    return names


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a bus."""

    id: str
    at: str
    type: MessageType
    sender: MessageSender
    body: str
    thread: str = ""
    attempts: int = 1

    @property
    def thread_id(self) -> str:
        """Return the id of its thread: its own id if it starts one."""
        return self.thread or self.id

    def stored(self) -> Mapping[str, Any]:
        """Return the form that is written to the file."""
        values: dict[str, Any] = {"id": self.id, "at": self.at, "type": self.type.value}
        values["sender"] = self.sender.stored()
        if self.thread:
            values["thread"] = self.thread
        if self.attempts > 1:
            values["attempts"] = self.attempts
        return {**values, "body": self.body}


MAX_BODY_SIZE = 64 * 1024
# JSON escapes take at most six bytes per character; the other fields have a maximum length.
MAX_LINE_SIZE = 6 * MAX_BODY_SIZE + 4096
# Overwrites a torn line: a JSON object without content.
REPAIRED_LINE = b"{}"
_LINE_START = '{"id":"'
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


def replace_lone_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded or printed."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def require_body(body: str) -> str:
    """Return the text if it can be posted. Raise `InvalidMessage` if it is too large."""
    body = replace_lone_surrogates(body)
    if _is_too_large(body):
        raise InvalidMessage(
            f"A message has {MAX_BODY_SIZE:,} bytes at most; this text has {len(body.encode()):,}.",
            "Write it to a file and post its path.",
        )
    return body


def _is_too_large(body: str) -> bool:
    # A character has at most four bytes, so most texts need not be encoded to know their size.
    return len(body) * 4 > MAX_BODY_SIZE and len(body.encode()) > MAX_BODY_SIZE


def require_type(type_: MessageType, sender: MessageSender) -> MessageType:
    """Return the type. Raise `InvalidMessage` if this sender may not use it."""
    if not may_post(sender.kind, type_):
        allowed = ", ".join(allowed_types(sender.kind))
        who = "An agent" if sender.kind is SenderKind.AGENT else f"A {sender.kind}"
        raise InvalidMessage(f"{who} cannot post {type_}.", f"Use one of: {allowed}.")
    return type_


@lru_cache(maxsize=256)
def _encode_sender(sender: MessageSender) -> str:
    return json.dumps(sender.stored())


class MessageDraft:
    """A message without an id, encoded before the lock is taken to keep the lock time short."""

    __slots__ = ("_rest", "body", "sender", "thread", "type")

    def __init__(
        self, type_: MessageType, body: str, sender: MessageSender, thread: str = ""
    ) -> None:
        self.type = require_type(type_, sender)
        self.body = require_body(body)
        self.sender = sender
        self.thread = thread
        answers = f'"thread":"{thread}",' if thread else ""
        who = f'"type":"{type_.value}","sender":{_encode_sender(sender)}'
        self._rest = f'{who},{answers}"body":{json.dumps(self.body)}}}\n'

    def line(self, message_id: str, at: str, attempts: int = 1) -> bytes:
        """Return the encoded line with its newline."""
        tried = f'"attempts":{attempts},' if attempts > 1 else ""
        return f'{_LINE_START}{message_id}","at":"{at}",{tried}{self._rest}'.encode("ascii")

    def message(self, message_id: str, at: str, attempts: int = 1) -> Message:
        """Return the message with this id."""
        return Message(message_id, at, self.type, self.sender, self.body, self.thread, attempts)


def read_line_id(line: bytes | None) -> str:
    """Return the id at the start of a line, or None. The rest of the line is not parsed."""
    text = line[: len(_LINE_START) + 22].decode("ascii", "replace") if line else ""
    found = text.removeprefix(_LINE_START)
    return found if text != found and is_id(found) else ""


def parse_line(line: bytes) -> Message | None:
    """Return the message in a line, or None if the line is not a valid message."""
    try:
        found = json.loads(line.decode())
        return _build_message(found) if isinstance(found, dict) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _build_message(found: dict[str, Any]) -> Message:
    thread, attempts = found.get("thread", ""), found.get("attempts", 1)
    texts = (found["id"], found["at"], found["type"], found["body"], thread)
    if not all(isinstance(text, str) for text in texts) or type(attempts) is not int:
        raise ValueError("a value of another kind")
    message = Message(
        found["id"],
        found["at"],
        MessageType(found["type"]),
        MessageSender.of(found["sender"]),
        replace_lone_surrogates(found["body"]),
        thread,
        attempts,
    )
    if not _is_valid(message):
        raise ValueError("a value that nobody may give")
    return message


def _is_valid(message: Message) -> bool:
    parse_timestamp(message.at)
    return (
        # Python accepts many timestamp formats, some with control characters.
        bool(_TIMESTAMP.fullmatch(message.at))
        and is_id(message.id)
        and (not message.thread or is_id(message.thread))
        and message.attempts >= 1
        and may_post(message.sender.kind, message.type)
        and not _is_too_large(message.body)
    )
