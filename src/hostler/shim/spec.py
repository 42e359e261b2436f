"""What the service asks for, checked before anything is done."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported when the shim runs: it is slow to load
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    T = TypeVar("T")

# Longer than any run: beyond it the kernel's own timers overflow.
LONGEST_SECONDS = 366 * 86400.0
LARGEST_MEMORY_MB = 1 << 24
MOST_WRAPPERS = 8
MARK = "HOSTLER_MARK"
RUN = "HOSTLER_RUN"
_NONE: list[str] = []


class BadSpec(Exception):
    """The spec cannot be followed; the message names the field and what was found."""


class Spec:
    """One run, as asked for."""

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

    def __init__(self, asked: Mapping[str, object]) -> None:
        field = _Fields(asked)
        self.run = field.need("run", _word)
        self.argv = field.need("argv", _argv)
        self.cwd = field.need("cwd", _absolute)
        self.env = field.need("env", _environment)
        self.inherit = field.get("inherit", _texts, _NONE)
        self.stdin = field.get("stdin", _word, "")
        self.wall = field.get("wall_seconds", seconds, 0.0)
        self.silence = field.get("silence_seconds", seconds, 0.0)
        self.grace = field.get("grace_seconds", seconds, 10.0)
        self.tools_apart = field.get("tools_apart", _truth, False)
        self.wrappers = field.get("wrappers", _between(0, MOST_WRAPPERS), 0)
        self.memory = field.get("memory_mb", _between(0, LARGEST_MEMORY_MB), 0) << 20
        self.nice = field.get("nice", _between(0, 19), 0)
        self.oom_score_adj = field.get("oom_score_adj", _between(0, 1000), 0)

    def environment(self, own: Mapping[str, str], mark: str) -> dict[str, str]:
        """The agent's environment: what was asked for, and what we recognise it by."""
        inherited = {name: own[name] for name in self.inherit if name in own}
        return {**inherited, **self.env, RUN: self.run, MARK: mark}


class _Fields:
    def __init__(self, asked: Mapping[str, object]) -> None:
        self._asked = asked

    def need(self, name: str, form: Callable[[object], T]) -> T:
        """A field that must be there."""
        value = self._asked.get(name)
        if value is None:
            raise BadSpec(f"{name} is missing")
        try:
            return form(value)
        except ValueError as error:
            raise BadSpec(f"{name}: {error}, found {repr(value)[:80]}") from None

    def get(self, name: str, form: Callable[[object], T], otherwise: T) -> T:
        """A field that may be left out."""
        return otherwise if self._asked.get(name) is None else self.need(name, form)


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("must be text")
    return value


def _word(value: object) -> str:
    if not _text(value):
        raise ValueError("must not be empty")
    return _text(value)


def _absolute(value: object) -> str:
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


def seconds(value: object) -> float:
    """A length of time that timers can keep."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number of seconds")
    if not 0 <= value <= LONGEST_SECONDS:
        raise ValueError("must be between 0 and a year")
    return float(value)


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _between(least: int, most: int) -> Callable[[object], int]:
    def form(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return value

    return form
