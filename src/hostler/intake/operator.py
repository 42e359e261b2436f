"""What an operator asks for: `/hostler <verb> [key=value …]` in a comment. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hostler.intake.prose import prose
from hostler.model import RepoName
from hostler.wording import as_code

NAME = "/hostler"
# What a command is called whose verb nobody can tell.
UNKNOWN = "unknown"
LONGEST_QUOTE = 60
_LINE = re.compile(r" {0,3}/hostler(?:[ \t]+(?P<rest>.*))?\s*", re.IGNORECASE)


class Verb(StrEnum):
    """What can be asked for."""

    HELP = "help"
    STATUS = "status"
    WHY = "why"
    UNBLOCK = "unblock"
    RETRY = "retry"
    STOP = "stop"
    RESUME = "resume"
    RESTART = "restart"
    PAUSE = "pause"
    UNPAUSE = "unpause"


@dataclass(frozen=True, slots=True)
class Asked:
    """A command that was understood."""

    verb: Verb
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Misspoken:
    """One that was not, and what to say about it."""

    why: str


class _Wrong(ValueError):
    """Something about a command that is not allowed."""


def parse(text: str) -> Asked | Misspoken | None:
    """The command in a comment; None if there is none."""
    lines = command_lines(text)
    if not lines:
        return None
    try:
        if len(lines) > 1:
            raise _Wrong("A comment can hold one command, and this one holds several.")
        return _asked(lines[0].split())
    except _Wrong as wrong:
        return Misspoken(str(wrong))


def command_lines(text: str) -> list[str]:
    """What follows `/hostler` in each line that begins with it, outside of code and quotes."""
    found = (_LINE.fullmatch(line) for line in prose(text))
    return [line["rest"] or "" for line in found if line is not None]


def has_other_words(text: str) -> bool:
    """Whether something stands there beside commands."""
    return any(line.strip() and not _LINE.fullmatch(line) for line in text.splitlines())


def command_key(repo: RepoName, event_key: str) -> str:
    """One version of one comment of one repository."""
    return f"{repo}:{event_key}"


def usage() -> str:
    """Everything that can be asked for, as a list."""
    lines = [f"- `{_form(verb)}`: {_MEANINGS[verb]}" for verb in Verb]
    return "\n".join(lines)


def _asked(words: list[str]) -> Asked:
    if not words:
        raise _Wrong(f"A command needs a verb. {_verbs()}")
    verb = words[0].lower()
    if verb not in set(Verb):
        raise _Wrong(f"There is no verb {quoted(words[0])}. {_verbs()}")
    return Asked(Verb(verb), _arguments(Verb(verb), words[1:]))


def _arguments(verb: Verb, words: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in _KEYS[verb]:
            raise _Wrong(f"{quoted(word)} is not allowed here. {_allowed(verb)}")
        if key in found:
            raise _Wrong(f"`{key}` is there twice. {_allowed(verb)}")
        found[key] = _CHECKS[key](key, value)
    return found


def _number(key: str, value: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,17}", value):
        raise _Wrong(f"`{key}` is a number, as in `{key}=12`, not {quoted(value)}.")
    return value


def _sha(key: str, value: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}", value):
        raise _Wrong(f"`{key}` is the whole name of a commit, 40 digits, not {quoted(value)}.")
    return value.lower()


def quoted(text: str, most: int = LONGEST_QUOTE) -> str:
    """Somebody else's words, as code and not long."""
    return as_code(text, most)


def _allowed(verb: Verb) -> str:
    return f"Allowed: `{_form(verb)}`."


def _verbs() -> str:
    return "There are: " + ", ".join(f"`{verb}`" for verb in Verb) + "."


def _form(verb: Verb) -> str:
    return " ".join([NAME, verb, *(f"[{key}=]" for key in _KEYS[verb])])


_CHECKS: dict[str, Callable[[str, str], str]] = {
    "pr": _number,
    "issue": _number,
    "head_sha": _sha,
}
_KEYS: dict[Verb, tuple[str, ...]] = dict.fromkeys(Verb, ()) | {
    Verb.UNBLOCK: ("pr", "head_sha"),
    Verb.RETRY: ("issue",),
    Verb.RESUME: ("pr",),
}
_MEANINGS = {
    Verb.HELP: "this list",
    Verb.STATUS: "what is at work, waits and needs a person in this repository",
    Verb.WHY: "what holds the task of this thread",
    Verb.UNBLOCK: "let a blocked task go on",
    Verb.RETRY: "begin a task anew",
    Verb.STOP: "stop the task of this thread; only a person starts it again",
    Verb.RESUME: "go on with a pull request that was closed, or a task that was stopped",
    Verb.RESTART: "restart the service when all work that is under way has come to rest",
    Verb.PAUSE: "start nothing new in this repository",
    Verb.UNPAUSE: "start work in this repository again",
}
