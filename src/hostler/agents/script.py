"""Scripts for the scripted agent: what may stand in one, and every mistake at once.

Standard library alone, because the player starts with it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler.agents.errors import ScriptError
from hostler.agents.outcomes import LIMITS, Outcome
from hostler.agents.plainfile import NotPlain, read_plain
from hostler.agents.shapes import (
    ALWAYS,
    FILLED,
    FLAG,
    PATH,
    TEXT,
    WORDS,
    many,
    number,
    one_of,
    shown,
    table,
    unknown,
    whole,
)
from hostler.errors import Problem

VERSION = 1
LARGEST = 1024 * 1024
LONGEST_DELAY = 600
LONGEST_HANG = 3600
MOST_TOKENS = 10**12
_REPEAT = whole(1, 1 << 30)
_CODE = whole(0, 255)
_LIMIT = one_of(*sorted(LIMITS))
_SECONDS = number(0, 10**9)
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
DEATHS = ("SIGABRT", "SIGHUP", "SIGINT", "SIGKILL", "SIGSEGV", "SIGTERM")

_REPLY = table({"comment_id!": whole(1, 2**63 - 1), "body!": FILLED})
_RESULT = table(
    {
        "status!": one_of("done", "blocked", "needs_input"),
        "summary": TEXT,
        "pr_title": TEXT,
        "pr_body": TEXT,
        "commit_message": TEXT,
        "question": TEXT,
        "replies": many(_REPLY),
        "reply_each": FILLED,
    }
)
_CHILD = table(
    {
        "seconds!": number(0, LONGEST_HANG),
        "session": FLAG,
        "detached": FLAG,
        "ignore_sigterm": FLAG,
    }
)
STEPS = {
    "say": TEXT,
    "tool": table({"name!": FILLED, "detail": TEXT}),
    "session": FILLED,
    "usage": table({name: whole(0, MOST_TOKENS) for name in ("input", "output", "cached")}),
    "cost": number(0, 10**6),
    "retrying": table({"reason!": _LIMIT, "seconds": _SECONDS}),
    "limit": table(
        {
            "reason!": _LIMIT,
            "status": whole(0, 999),
            "retry_after_seconds": _SECONDS,
            "resets_at": TEXT,
        }
    ),
    "print": table({"text!": TEXT, "repeat": _REPEAT, "to": one_of("stdout", "stderr")}),
    "garbage": whole(1, 1 << 26),
    "write": table({"path!": PATH, "text!": TEXT, "repeat": _REPEAT}),
    "append": table({"path!": PATH, "text!": TEXT, "repeat": _REPEAT}),
    "delete": PATH,
    "run": WORDS,
    "commit": FILLED,
    "delay": number(0, LONGEST_DELAY),
    "child": _CHILD,
    "ignore_sigterm": ALWAYS,
    "hang": number(0, LONGEST_HANG),
    "fail": table({"times!": whole(1, 1000), "code": whole(1, 255), "say": TEXT}),
    "ask": FILLED,
    "block": FILLED,
    "result": _RESULT,
    "bad_result": one_of(*BAD_RESULTS),
    "mark_done": ALWAYS,
    "end": table({"outcome!": one_of(*sorted(Outcome)), "text": TEXT, "code": _CODE}),
    "exit": _CODE,
    "die": one_of(*DEATHS),
}
_WHEN = table(
    {
        "flow": FILLED,
        "attempt": whole(1, 10**9),
        "issue": whole(1, 2**63 - 1),
        "title_has": FILLED,
        "prompt_has": FILLED,
        "comments": FLAG,
    }
)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: a verb and what to do it with."""

    place: str
    verb: str
    value: Any


@dataclass(frozen=True, slots=True)
class Scene:
    """Steps, and the circumstances under which they are played."""

    name: str
    steps: tuple[Step, ...]
    when: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Script:
    """Scenes; the first whose circumstances hold is played."""

    scenes: tuple[Scene, ...]


def load(path: Path) -> Script:
    """Read a script in TOML or JSON. Raises `ScriptError` with every mistake."""
    raw = _raw(path)
    problems = list(mistakes(raw))
    if problems:
        raise ScriptError(path, problems)
    if "steps" in raw:
        return Script((_scene("script", raw),))
    return Script(
        tuple(_scene(one.get("name", f"scene {i + 1}"), one) for i, one in enumerate(raw["scene"]))
    )


def mistakes(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """Every mistake in a script."""
    for name in raw:
        if name not in _TOP:
            yield unknown(str(name), str(name), _TOP)
    if type(raw.get("version", VERSION)) is not int or raw.get("version", VERSION) != VERSION:
        yield Problem("version", shown(raw["version"]), str(VERSION))
    if ("steps" in raw) == ("scene" in raw):
        found = "both" if "steps" in raw else "neither"
        yield Problem("steps, scene", found, "one of the two")
    if "steps" in raw:
        yield from _steps("steps", raw["steps"])
    if "scene" in raw:
        yield from _SCENES("scene", raw["scene"])


def _step(place: str, value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict) or len(value) != 1:
        yield Problem(place, shown(value), "a table with one step, as in { say = 'Hello' }")
        return
    verb, inner = next(iter(value.items()))
    if verb not in STEPS:
        yield unknown(f"{place}.{verb}", str(verb), STEPS)
        return
    yield from STEPS[verb](f"{place}.{verb}", inner)


_steps = many(_step)
_SCENES = many(table({"name": FILLED, "when": _WHEN, "steps!": _steps}))
_TOP = {"version": VERSION, "steps": _steps, "scene": _SCENES}


def _scene(name: str, raw: Mapping[str, Any]) -> Scene:
    steps = tuple(
        Step(f"{name}[{index}]", *next(iter(step.items())))
        for index, step in enumerate(raw["steps"])
    )
    return Scene(name, steps, raw.get("when", {}))


def _raw(path: Path) -> dict[str, Any]:
    try:
        text = read_plain(path.resolve(), LARGEST).decode("utf-8")
        value = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except NotPlain as error:
        problem = Problem("the file", error.found, f"a file of at most {LARGEST:,} bytes")
    except UnicodeDecodeError:
        problem = Problem("the file", "bytes that are not UTF-8", "text in UTF-8")
    except (ValueError, RecursionError) as error:
        problem = Problem("the file", str(error) or "too deep", "TOML, or JSON in a .json file")
    else:
        if isinstance(value, dict):
            return value
        problem = Problem("the file", shown(value), "an object")
    raise ScriptError(path, [problem])
