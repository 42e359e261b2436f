"""Parse and validate `spec.json` (what to run) and `stop.json` (a request to stop)."""

from __future__ import annotations

import os

from . import run_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    T = TypeVar("T")


# Longer than any run: larger values overflow the kernel's timers.
MAX_SECONDS = 366 * 86400.0
MAX_MEMORY_MB = 1 << 24
MAX_WRAPPERS = 8
MARK_VARIABLE = "HOSTLER_MARK"
RUN_VARIABLE = "HOSTLER_RUN"
_NO_NAMES: list[str] = []


class InvalidSpec(Exception):
    """The spec is invalid; the message names the field and the value."""


class RunSpec:
    """One run as requested."""

    __slots__ = (
        "argv",
        "cwd",
        "env",
        "grace",
        "inherit",
        "memory",
        "nice",
        "oom_score_adj",
        "run",
        "silence",
        "stdin",
        "tools_apart",
        "wall",
        "wrappers",
    )

    def __init__(self, requested: Mapping[str, object]) -> None:
        field = _Fields(requested)
        self.run = field.need("run", _nonempty_text)
        self.argv = field.need("argv", _argv)
        self.cwd = field.need("cwd", _absolute_path)
        self.env = field.need("env", _environment)
        self.inherit = field.get("inherit", _texts, _NO_NAMES)
        self.stdin = field.get("stdin", _nonempty_text, "")
        self.wall = field.get("wall_seconds", parse_seconds, 0.0)
        self.silence = field.get("silence_seconds", parse_seconds, 0.0)
        self.grace = field.get("grace_seconds", parse_seconds, 10.0)
        self.tools_apart = field.get("tools_apart", _boolean, False)
        self.wrappers = field.get("wrappers", _int_between(0, MAX_WRAPPERS), 0)
        self.memory = field.get("memory_mb", _int_between(0, MAX_MEMORY_MB), 0) << 20
        self.nice = field.get("nice", _int_between(0, 19), 0)
        self.oom_score_adj = field.get("oom_score_adj", _int_between(0, 1000), 0)

    def environment(self, own: Mapping[str, str], mark: str) -> dict[str, str]:
        """Return the requested environment plus the mark that identifies the run."""
        inherited = {name: own[name] for name in self.inherit if name in own}
        return {**inherited, **self.env, RUN_VARIABLE: self.run, MARK_VARIABLE: mark}


class _Fields:
    def __init__(self, requested: Mapping[str, object]) -> None:
        self._requested = requested

    def need(self, name: str, form: Callable[[object], T]) -> T:
        """Return a required field."""
        value = self._requested.get(name)
        if value is None:
            raise InvalidSpec(f"{name} is missing")
        try:
            return form(value)
        except ValueError as error:
            raise InvalidSpec(f"{name}: {error}, found {repr(value)[:80]}") from None

    def get(self, name: str, form: Callable[[object], T], otherwise: T) -> T:
        """Return an optional field."""
        return otherwise if self._requested.get(name) is None else self.need(name, form)


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("must be text")
    return value


def _nonempty_text(value: object) -> str:
    if not _text(value):
        raise ValueError("must not be empty")
    return _text(value)


def _absolute_path(value: object) -> str:
    if not _text(value).startswith("/"):
        raise ValueError("must be an absolute path")
    return _text(value)


def _texts(value: object) -> list[str]:
    if not isinstance(value, list):
        raise ValueError("must be a list of texts")
    return [_text(item) for item in value]


def _argv(value: object) -> list[str]:
    argv = _texts(value)
    if not argv or not argv[0]:
        raise ValueError("must name a program")
    return argv


def _environment(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("must be an object of texts")
    if any(not name or "=" in name for name in value):
        raise ValueError("has a name that is empty or contains '='")
    return {_text(name): _text(item) for name, item in value.items()}


def parse_seconds(value: object) -> float:
    """Parse a duration that fits into a timer."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number of seconds")
    if not 0 <= value <= MAX_SECONDS:
        raise ValueError("must be between 0 and a year")
    return float(value)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _int_between(minimum: int, maximum: int) -> Callable[[object], int]:
    def form(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return value

    return form


class StopFile:
    """A request to end the run."""

    __slots__ = ("grace", "why")

    def __init__(self, why: str, grace: float | None = None) -> None:
        self.why = why[: run_files.MAX_TEXT_LENGTH]
        self.grace = grace


def read_stop_file(path: str = run_files.STOP_FILE) -> StopFile | None:
    """Return the stop request in a file, or None. An unreadable file counts as a request."""
    if not os.path.lexists(path):
        return None
    try:
        requested = run_files.read_json(path) or {}
    except run_files.UnreadableRunFile as error:
        return StopFile(str(error))
    why = requested.get("why")
    try:
        grace = parse_seconds(requested["grace_seconds"])
    except (KeyError, ValueError):
        grace = None
    return StopFile(why if isinstance(why, str) else "", grace)
