"""Read and validate scripts of the scripted agent. Standard library only."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from hostler.agents.agent_files import NotRegularFile, read_regular_file
from hostler.agents.errors import ScriptError
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome
from hostler.errors import Problem

ValueCheck = Callable[[str, Any], Iterator[Problem]]


def show_value(value: object) -> str:
    """Return a value as shortened text."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _value_check(fits: Callable[[Any], bool], allowed: str) -> ValueCheck:
    def check(place: str, value: Any) -> Iterator[Problem]:
        if not fits(value):
            yield Problem(place, show_value(value), allowed)

    return check


IS_TEXT = _value_check(lambda value: isinstance(value, str), "a text")
IS_NONEMPTY_TEXT = _value_check(
    lambda value: isinstance(value, str) and bool(value.strip()), "a text, not empty"
)
IS_BOOL = _value_check(lambda value: isinstance(value, bool), "true or false")
IS_TRUE = _value_check(lambda value: value is True, "true")
IS_TEXT_LIST = _value_check(
    lambda value: (
        isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)
    ),
    "a list of texts, not empty",
)


def _is_inside(value: Any) -> bool:
    if not isinstance(value, str) or not value or "\x00" in value or value.startswith("/"):
        return False
    return ".." not in value.split("/")


IS_CHECKOUT_PATH = _value_check(_is_inside, "a path inside the checkout")


def integer_between(minimum: int, maximum: int) -> ValueCheck:
    """Return a check for an integer in a range."""
    return _value_check(
        lambda value: type(value) is int and minimum <= value <= maximum,
        f"a whole number from {minimum} to {maximum}",
    )


def number_between(minimum: float, maximum: float) -> ValueCheck:
    """Return a check for a number in a range."""
    return _value_check(
        lambda value: (
            type(value) in {int, float} and isfinite(value) and minimum <= value <= maximum
        ),
        f"a number from {minimum:g} to {maximum:g}",
    )


def one_of(*names: str) -> ValueCheck:
    """Return a check for one of these texts."""
    return _value_check(lambda value: isinstance(value, str) and value in names, ", ".join(names))


def list_of(shape: ValueCheck) -> ValueCheck:
    """Return a check for a list of such values."""

    def check(place: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield Problem(place, show_value(value), "a list")
            return
        for index, item in enumerate(value):
            yield from shape(f"{place}[{index}]", item)

    return check


def table_of(fields: Mapping[str, ValueCheck]) -> ValueCheck:
    """Return a check for an object with these keys; a name that ends in `!` is required."""
    known = {name.rstrip("!"): shape for name, shape in fields.items()}
    needed = [name.rstrip("!") for name in fields if name.endswith("!")]

    def check(place: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield Problem(place, show_value(value), f"a table with {', '.join(known)}")
            return
        for name in needed:
            if name not in value:
                yield Problem(f"{place}.{name}", "nothing", "this key is needed here")
        for name, inner in value.items():
            if name in known:
                yield from known[name](f"{place}.{name}", inner)
            else:
                yield unknown_name(f"{place}.{name}", str(name), known)

    return check


def unknown_name(place: str, name: str, known: Mapping[str, object]) -> Problem:
    """Return a mistake about an unknown name, with the closest known one."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]}?" if near else ""
    return Problem(place, "an unknown name", ", ".join(known), hint)


SCRIPT_VERSION = 1
MAX_SCRIPT_BYTES = 1024 * 1024
MAX_DELAY_SECONDS = 600
MAX_HANG_SECONDS = 3600
MAX_TOKENS = 10**12
_REPEAT = integer_between(1, 1 << 30)
_CODE = integer_between(0, 255)
_LIMIT = one_of(*sorted(LIMIT_OUTCOMES))
_SECONDS = number_between(0, 10**9)
BAD_RESULTS = (
    "deep",
    "directory",
    "empty",
    "fifo",
    "half",
    "huge",
    "nan",
    "no_question",
    "not_json",
    "not_utf8",
    "symlink",
    "wrong_types",
)
DEATH_SIGNALS = ("SIGABRT", "SIGHUP", "SIGINT", "SIGKILL", "SIGSEGV", "SIGTERM")

_REPLY = table_of({"comment_id!": integer_between(1, 2**63 - 1), "body!": IS_NONEMPTY_TEXT})
_RESULT = table_of(
    {
        "status!": one_of("done", "blocked", "needs_input"),
        "summary": IS_TEXT,
        "pr_title": IS_TEXT,
        "pr_body": IS_TEXT,
        "commit_message": IS_TEXT,
        "question": IS_TEXT,
        "replies": list_of(_REPLY),
        "reply_each": IS_NONEMPTY_TEXT,
    }
)
_CHILD = table_of(
    {
        "seconds!": number_between(0, MAX_HANG_SECONDS),
        "session": IS_BOOL,
        "detached": IS_BOOL,
        "ignore_sigterm": IS_BOOL,
    }
)
STEPS = {
    "say": IS_TEXT,
    "tool": table_of({"name!": IS_NONEMPTY_TEXT, "detail": IS_TEXT}),
    "session": IS_NONEMPTY_TEXT,
    "usage": table_of(
        {name: integer_between(0, MAX_TOKENS) for name in ("input", "output", "cached")}
    ),
    "cost": number_between(0, 10**6),
    "retrying": table_of({"reason!": _LIMIT, "seconds": _SECONDS}),
    "limit": table_of(
        {
            "reason!": _LIMIT,
            "status": integer_between(0, 999),
            "retry_after_seconds": _SECONDS,
            "resets_at": IS_TEXT,
        }
    ),
    "print": table_of({"text!": IS_TEXT, "repeat": _REPEAT, "to": one_of("stdout", "stderr")}),
    "garbage": integer_between(1, 1 << 26),
    "write": table_of({"path!": IS_CHECKOUT_PATH, "text!": IS_TEXT, "repeat": _REPEAT}),
    "append": table_of({"path!": IS_CHECKOUT_PATH, "text!": IS_TEXT, "repeat": _REPEAT}),
    "delete": IS_CHECKOUT_PATH,
    "run": IS_TEXT_LIST,
    "commit": IS_NONEMPTY_TEXT,
    "delay": number_between(0, MAX_DELAY_SECONDS),
    "child": _CHILD,
    "ignore_sigterm": IS_TRUE,
    "hang": number_between(0, MAX_HANG_SECONDS),
    "fail": table_of(
        {"times!": integer_between(1, 1000), "code": integer_between(1, 255), "say": IS_TEXT}
    ),
    "ask": IS_NONEMPTY_TEXT,
    "block": IS_NONEMPTY_TEXT,
    "result": _RESULT,
    "bad_result": one_of(*BAD_RESULTS),
    "mark_done": IS_TRUE,
    "end": table_of({"outcome!": one_of(*sorted(Outcome)), "text": IS_TEXT, "code": _CODE}),
    "exit": _CODE,
    "die": one_of(*DEATH_SIGNALS),
}
_WHEN = table_of(
    {
        "flow": IS_NONEMPTY_TEXT,
        "attempt": integer_between(1, 10**9),
        "issue": integer_between(1, 2**63 - 1),
        "title_has": IS_NONEMPTY_TEXT,
        "prompt_has": IS_NONEMPTY_TEXT,
        "comments": IS_BOOL,
    }
)


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One step: a verb and its argument."""

    place: str
    verb: str
    value: Any


@dataclass(frozen=True, slots=True)
class ScriptScene:
    """Steps, and the conditions under which they are played."""

    name: str
    steps: tuple[ScriptStep, ...]
    when: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Script:
    """Scenes; the first whose conditions hold is played."""

    scenes: tuple[ScriptScene, ...]


def load_script(path: Path) -> Script:
    """Read a script in TOML or JSON. Raises `ScriptError` with every mistake."""
    raw = _read_raw(path)
    problems = list(find_mistakes(raw))
    if problems:
        raise ScriptError(path, problems)
    if "steps" in raw:
        return Script((_build_scene("script", raw),))
    return Script(
        tuple(
            _build_scene(one.get("name", f"scene {i + 1}"), one)
            for i, one in enumerate(raw["scene"])
        )
    )


def find_mistakes(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """Return every mistake in a script."""
    for name in raw:
        if name not in _TOP_LEVEL:
            yield unknown_name(str(name), str(name), _TOP_LEVEL)
    if (
        type(raw.get("version", SCRIPT_VERSION)) is not int
        or raw.get("version", SCRIPT_VERSION) != SCRIPT_VERSION
    ):
        yield Problem("version", show_value(raw["version"]), str(SCRIPT_VERSION))
    if ("steps" in raw) == ("scene" in raw):
        found = "both" if "steps" in raw else "neither"
        yield Problem("steps, scene", found, "one of the two")
    if "steps" in raw:
        yield from _check_steps("steps", raw["steps"])
    if "scene" in raw:
        yield from _check_scenes("scene", raw["scene"])


def _check_step(place: str, value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict) or len(value) != 1:
        yield Problem(place, show_value(value), "a table with one step, as in { say = 'Hello' }")
        return
    verb, inner = next(iter(value.items()))
    if verb not in STEPS:
        yield unknown_name(f"{place}.{verb}", str(verb), STEPS)
        return
    yield from STEPS[verb](f"{place}.{verb}", inner)


_check_steps = list_of(_check_step)
_check_scenes = list_of(table_of({"name": IS_NONEMPTY_TEXT, "when": _WHEN, "steps!": _check_steps}))
_TOP_LEVEL = {"version": SCRIPT_VERSION, "steps": _check_steps, "scene": _check_scenes}


def _build_scene(name: str, raw: Mapping[str, Any]) -> ScriptScene:
    steps = tuple(
        ScriptStep(f"{name}[{index}]", *next(iter(step.items())))
        for index, step in enumerate(raw["steps"])
    )
    return ScriptScene(name, steps, raw.get("when", {}))


def _read_raw(path: Path) -> dict[str, Any]:
    try:
        text = read_regular_file(path.resolve(), MAX_SCRIPT_BYTES).decode("utf-8")
        value = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except NotRegularFile as error:
        problem = Problem("the file", error.found, f"a file of at most {MAX_SCRIPT_BYTES:,} bytes")
    except UnicodeDecodeError:
        problem = Problem("the file", "bytes that are not UTF-8", "text in UTF-8")
    except (ValueError, RecursionError) as error:
        problem = Problem("the file", str(error) or "too deep", "TOML, or JSON in a .json file")
    else:
        if isinstance(value, dict):
            return value
        problem = Problem("the file", show_value(value), "an object")
    raise ScriptError(path, [problem])
