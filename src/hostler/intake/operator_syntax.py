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
# Stored as the verb of an invalid command.
UNKNOWN_VERB = "unknown"
MAX_QUOTE_LENGTH = 60
_COMMAND_LINE = re.compile(r" {0,3}/hostler(?:[ \t]+(?P<rest>.*))?\s*", re.IGNORECASE)


class OperatorVerb(StrEnum):
    """The commands."""

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
    """A valid command."""

    verb: OperatorVerb
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InvalidCommand:
    """An invalid command, and why."""

    why: str


class _CommandMistake(ValueError):
    """The command is invalid."""


def parse_command(text: str) -> ParsedCommand | InvalidCommand | None:
    """Return the command in a comment; None if there is none."""
    lines = command_lines(text)
    if not lines:
        return None
    try:
        if len(lines) > 1:
            raise _CommandMistake("A comment can contain only one command.")
        return _parse_words(lines[0].split())
    except _CommandMistake as wrong:
        return InvalidCommand(str(wrong))


def command_lines(text: str) -> list[str]:
    """Return what follows `/hostler` at the start of lines outside of code and quotes."""
    found = (_COMMAND_LINE.fullmatch(line) for line in plain_lines(text))
    return [line["rest"] or "" for line in found if line is not None]


def has_other_text(text: str) -> bool:
    """Return whether there is text beside commands."""
    return any(line.strip() and not _COMMAND_LINE.fullmatch(line) for line in text.splitlines())


def command_key(repo: RepoName, event_key: str) -> str:
    """Return the key of a command: one per version of a comment."""
    return f"{repo}:{event_key}"


def render_usage() -> str:
    """Return all commands as a Markdown list."""
    lines = [f"- `{_command_form(verb)}`: {_VERB_HELP[verb]}" for verb in OperatorVerb]
    return "\n".join(lines)


def _parse_words(words: list[str]) -> ParsedCommand:
    if not words:
        raise _CommandMistake(f"The command is missing. {_verbs_text()}")
    verb = words[0].lower()
    if verb not in set(OperatorVerb):
        raise _CommandMistake(f"Unknown command {quote_text(words[0])}. {_verbs_text()}")
    return ParsedCommand(OperatorVerb(verb), _parse_arguments(OperatorVerb(verb), words[1:]))


def _parse_arguments(verb: OperatorVerb, words: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in _KEYS_BY_VERB[verb]:
            raise _CommandMistake(f"Unexpected argument {quote_text(word)}. {_allowed_text(verb)}")
        if key in found:
            raise _CommandMistake(f"`{key}` is given twice. {_allowed_text(verb)}")
        found[key] = _VALUE_CHECKS[key](key, value)
    return found


def _check_number(key: str, value: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,17}", value):
        example = f"`{key}=12`"
        raise _CommandMistake(
            f"`{key}` must be a number, as in {example}, not {quote_text(value)}."
        )
    return value


def _check_sha(key: str, value: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}", value):
        raise _CommandMistake(f"`{key}` must be a full commit SHA, not {quote_text(value)}.")
    return value.lower()


def quote_text(text: str, most: int = MAX_QUOTE_LENGTH) -> str:
    """Return text from outside as code, shortened."""
    return format_code(text, most)


def _allowed_text(verb: OperatorVerb) -> str:
    return f"Usage: `{_command_form(verb)}`."


def _verbs_text() -> str:
    return "Commands: " + ", ".join(f"`{verb}`" for verb in OperatorVerb) + "."


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
    OperatorVerb.HELP: "list all commands",
    OperatorVerb.STATUS: "show what is running, queued and waiting for a user in this repository",
    OperatorVerb.WHY: "show why this thread's task is not running",
    OperatorVerb.UNBLOCK: "continue a blocked task",
    OperatorVerb.RETRY: "retry the task from scratch",
    OperatorVerb.STOP: "stop this thread's task until a user starts it again",
    OperatorVerb.RESUME: "continue with a pull request that was closed, or a task that was stopped",
    OperatorVerb.RESTART: "restart the service when all running work has finished",
    OperatorVerb.PAUSE: "start no new work in this repository",
    OperatorVerb.UNPAUSE: "start new work in this repository again",
}
