"""Parse operator commands: `/hostler <verb> [key=value …]` in a comment. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hostler.intake.markdown import plain_lines
from hostler.model import RepoName
from hostler.text import format_code

COMMAND_PREFIX = "/hostler"
# What a command is called whose verb nobody can tell.
UNKNOWN_VERB = "unknown"
MAX_QUOTE_LENGTH = 60
_COMMAND_LINE = re.compile(r" {0,3}/hostler(?:[ \t]+(?P<rest>.*))?\s*", re.IGNORECASE)


class OperatorVerb(StrEnum):
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
class ParsedCommand:
    """A command that was understood."""

    verb: OperatorVerb
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InvalidCommand:
    """One that was not, and what to say about it."""

    why: str


class _CommandMistake(ValueError):
    """Something about a command that is not allowed."""


def parse_command(text: str) -> ParsedCommand | InvalidCommand | None:
    """The command in a comment; None if there is none."""
    lines = command_lines(text)
    if not lines:
        return None
    try:
        if len(lines) > 1:
            raise _CommandMistake("A comment can hold one command, and this one holds several.")
        return _parse_words(lines[0].split())
    except _CommandMistake as wrong:
        return InvalidCommand(str(wrong))


def command_lines(text: str) -> list[str]:
    """What follows `/hostler` in each line that begins with it, outside of code and quotes."""
    found = (_COMMAND_LINE.fullmatch(line) for line in plain_lines(text))
    return [line["rest"] or "" for line in found if line is not None]


def has_other_text(text: str) -> bool:
    """Whether something stands there beside commands."""
    return any(line.strip() and not _COMMAND_LINE.fullmatch(line) for line in text.splitlines())


def command_key(repo: RepoName, event_key: str) -> str:
    """One version of one comment of one repository."""
    return f"{repo}:{event_key}"


def render_usage() -> str:
    """Everything that can be asked for, as a list."""
    lines = [f"- `{_command_form(verb)}`: {_VERB_HELP[verb]}" for verb in OperatorVerb]
    return "\n".join(lines)


def _parse_words(words: list[str]) -> ParsedCommand:
    if not words:
        raise _CommandMistake(f"A command needs a verb. {_verbs_text()}")
    verb = words[0].lower()
    if verb not in set(OperatorVerb):
        raise _CommandMistake(f"There is no verb {quote_text(words[0])}. {_verbs_text()}")
    return ParsedCommand(OperatorVerb(verb), _parse_arguments(OperatorVerb(verb), words[1:]))


def _parse_arguments(verb: OperatorVerb, words: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in _KEYS_BY_VERB[verb]:
            raise _CommandMistake(f"{quote_text(word)} is not allowed here. {_allowed_text(verb)}")
        if key in found:
            raise _CommandMistake(f"`{key}` is there twice. {_allowed_text(verb)}")
        found[key] = _VALUE_CHECKS[key](key, value)
    return found


def _check_number(key: str, value: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,17}", value):
        raise _CommandMistake(f"`{key}` is a number, as in `{key}=12`, not {quote_text(value)}.")
    return value


def _check_sha(key: str, value: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}", value):
        raise _CommandMistake(
            f"`{key}` is the whole name of a commit, 40 digits, not {quote_text(value)}."
        )
    return value.lower()


def quote_text(text: str, most: int = MAX_QUOTE_LENGTH) -> str:
    """Somebody else's words, as code and not long."""
    return format_code(text, most)


def _allowed_text(verb: OperatorVerb) -> str:
    return f"Allowed: `{_command_form(verb)}`."


def _verbs_text() -> str:
    return "There are: " + ", ".join(f"`{verb}`" for verb in OperatorVerb) + "."


def _command_form(verb: OperatorVerb) -> str:
    return " ".join([COMMAND_PREFIX, verb, *(f"[{key}=]" for key in _KEYS_BY_VERB[verb])])


_VALUE_CHECKS: dict[str, Callable[[str, str], str]] = {
    "pr": _check_number,
    "issue": _check_number,
    "head_sha": _check_sha,
}
_KEYS_BY_VERB: dict[OperatorVerb, tuple[str, ...]] = dict.fromkeys(OperatorVerb, ()) | {
    OperatorVerb.UNBLOCK: ("pr", "head_sha"),
    OperatorVerb.RETRY: ("issue",),
    OperatorVerb.RESUME: ("pr",),
}
_VERB_HELP = {
    OperatorVerb.HELP: "this list",
    OperatorVerb.STATUS: "what is at work, waits and needs a person in this repository",
    OperatorVerb.WHY: "what holds the task of this thread",
    OperatorVerb.UNBLOCK: "let a blocked task go on",
    OperatorVerb.RETRY: "begin a task anew",
    OperatorVerb.STOP: "stop the task of this thread; only a person starts it again",
    OperatorVerb.RESUME: "go on with a pull request that was closed, or a task that was stopped",
    OperatorVerb.RESTART: "restart the service when all work that is under way has come to rest",
    OperatorVerb.PAUSE: "start nothing new in this repository",
    OperatorVerb.UNPAUSE: "start work in this repository again",
}
