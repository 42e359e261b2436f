"""A message: what it is, who sent it, and the rule who may say what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LONGEST_PERSON = 100


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
    """What kind of being sent a message."""

    AGENT = "agent"
    PERSON = "person"
    SERVICE = "service"


_ONLY_FROM = {
    MessageType.USER: SenderKind.PERSON,
    MessageType.RUN_START: SenderKind.SERVICE,
    MessageType.RUN_STOP: SenderKind.SERVICE,
    MessageType.RUN_CRASH: SenderKind.SERVICE,
}


def may_say(kind: SenderKind, type_: MessageType) -> bool:
    """Agents do not speak as people, and only the service tells of runs."""
    return _ONLY_FROM.get(type_, kind) is kind


def types_of(kind: SenderKind) -> list[MessageType]:
    """All that such a sender may say."""
    return [type_ for type_ in MessageType if may_say(kind, type_)]


def is_name(text: str) -> bool:
    """Whether a text can name a project, task or run, and thus a folder."""
    return bool(_NAME.fullmatch(text)) and ".." not in text and not text.endswith((".", ".lock"))


def is_person(text: str) -> bool:
    """Whether a text can name a person: short, and nothing that a terminal would obey."""
    return 0 < len(text) <= _LONGEST_PERSON and text.isprintable()


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent a message. Made by one of the three constructors."""

    kind: SenderKind
    name: str = ""
    run: str = ""
    task: str = ""
    project: str = ""

    @classmethod
    def agent(cls, run: str, task: str = "", project: str = "") -> Sender:
        """The agent of a run."""
        if not run:
            raise ValueError("an agent speaks for a run")
        return cls(SenderKind.AGENT, "", *_names(run, task, project))

    @classmethod
    def person(cls, name: str) -> Sender:
        """A person: a user of this machine (`ada`), or of another place (`github:ada`)."""
        if not is_person(name):
            raise ValueError(f"not the name of a person: {name[:60]!r}")
        return cls(SenderKind.PERSON, name=name)

    @classmethod
    def service(cls, run: str = "", task: str = "", project: str = "") -> Sender:
        """Hostler itself, about this run or task."""
        return cls(SenderKind.SERVICE, "", *_names(run, task, project))

    @classmethod
    def of(cls, value: object) -> Sender:
        """From the stored form; ValueError for what is none."""
        if not isinstance(value, dict):
            raise ValueError("a sender is an object")
        said = [value.get(key, "") for key in ("name", "run", "task", "project")]
        if not all(isinstance(word, str) for word in said):
            raise ValueError("a sender is made of texts")
        return _known(SenderKind(value["kind"]), *said)

    def stored(self) -> dict[str, str]:
        """As it stands in the file."""
        said = {"name": self.name, "run": self.run, "task": self.task, "project": self.project}
        return {"kind": self.kind.value, **{key: word for key, word in said.items() if word}}

    def __str__(self) -> str:
        if self.kind is SenderKind.PERSON:
            return self.name
        return f"{self.kind.value} {self.run or self.task}".rstrip()


@lru_cache(maxsize=256)
def _known(kind: SenderKind, name: str, run: str, task: str, project: str) -> Sender:
    """The same few senders stand in thousands of lines."""
    if kind is SenderKind.PERSON:
        return Sender.person(name)
    if kind is SenderKind.AGENT:
        return Sender.agent(run, task, project)
    return Sender.service(run, task, project)


def _names(*names: str) -> tuple[str, ...]:
    for name in names:
        if name and not is_name(name):
            raise ValueError(f"not the name of a run, task or project: {name[:60]!r}")
    return names


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it stands on a bus."""

    id: str
    at: str
    type: MessageType
    sender: Sender
    body: str
    thread: str = ""
    attempts: int = 1

    @property
    def thread_id(self) -> str:
        """The thread it belongs to; its own where it begins one."""
        return self.thread or self.id

    def stored(self) -> Mapping[str, Any]:
        """As it stands in the file."""
        words: dict[str, Any] = {"id": self.id, "at": self.at, "type": self.type.value}
        words["sender"] = self.sender.stored()
        if self.thread:
            words["thread"] = self.thread
        if self.attempts > 1:
            words["attempts"] = self.attempts
        return {**words, "body": self.body}
