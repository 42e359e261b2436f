"""Play one scene, step by step."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostler.agents.events import (
    Cost,
    Finished,
    LimitSignal,
    Retrying,
    Session,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.outcomes import Outcome
from hostler.agents.player import deeds, words
from hostler.agents.player.stage import CannotPlay, Stage, emit, raw
from hostler.agents.script import Scene, Script, Step

_COUNTS = "scripted.json"
_BLOCK = 1 << 20


class Curtain(Exception):
    """The script ends here, with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def choose(script: Script, stage: Stage) -> Scene:
    """The first scene whose circumstances hold."""
    for scene in script.scenes:
        if all(CONDITIONS[name](stage, wanted) for name, wanted in scene.when.items()):
            return scene
    raise CannotPlay("no scene fits this run")


def play(scene: Scene, stage: Stage) -> int:
    """Play to the end, or to the step that ends it; the exit code."""
    try:
        for step in scene.steps:
            if step.verb == "fail":
                _fail(stage, step)
            else:
                ACTS[step.verb](stage, step.value)
    except Curtain as curtain:
        return curtain.code
    emit(Finished(ok=True, outcome=Outcome.SUCCESS))
    return 0


def _issue(stage: Stage, name: str) -> Any:
    issue = stage.context.get("issue")
    return issue.get(name) if isinstance(issue, Mapping) else None


CONDITIONS: dict[str, Callable[[Stage, Any], bool]] = {
    "flow": lambda stage, wanted: stage.context.get("flow") == wanted,
    "attempt": lambda stage, wanted: stage.attempt == wanted,
    "issue": lambda stage, wanted: _issue(stage, "number") == wanted,
    "title_has": lambda stage, wanted: wanted in str(_issue(stage, "title") or ""),
    "prompt_has": lambda stage, wanted: wanted in stage.prompt,
    "comments": lambda stage, wanted: bool(stage.comments) == wanted,
}


def _fail(stage: Stage, step: Step) -> None:
    """Fail in the first so many attempts of the task, and pass ever after."""
    failed = _failed_before(stage, step.place)
    if stage.attempt not in failed and len(failed) >= step.value["times"]:
        return
    _remember(stage, step.place, [*failed, stage.attempt])
    emit(Text(stage.filled(step.value.get("say", "This attempt fails."))))
    raise Curtain(step.value.get("code", 1))


def _counts_file(stage: Stage) -> Path:
    if stage.task_dir is None:
        raise CannotPlay("HOSTLER_TASK_DIR is not set")
    return stage.task_dir / _COUNTS


def _counts(stage: Stage) -> dict[str, list[int]]:
    try:
        value = json.loads(_counts_file(stage).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return value if isinstance(value, dict) else {}


def _failed_before(stage: Stage, place: str) -> list[int]:
    return sorted(set(_counts(stage).get(place, [])))


def _remember(stage: Stage, place: str, failed: list[int]) -> None:
    counts = {**_counts(stage), place: sorted(set(failed))}
    path = _counts_file(stage)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(json.dumps(counts), encoding="utf-8")
    temporary.replace(path)


def _limit(_: Stage, what: Mapping[str, Any]) -> None:
    emit(LimitSignal(**{**what, "reason": Outcome(what["reason"])}))


def _retrying(_: Stage, what: Mapping[str, Any]) -> None:
    emit(Retrying(Outcome(what["reason"]), what.get("seconds", 0.0)))


def _usage(_: Stage, what: Mapping[str, Any]) -> None:
    emit(Usage(what.get("input", 0), what.get("output", 0), what.get("cached", 0)))


def _tool(stage: Stage, what: Mapping[str, Any]) -> None:
    emit(ToolUse(what["name"], stage.filled(what.get("detail", ""))))


def _print(stage: Stage, what: Mapping[str, Any]) -> None:
    data = stage.filled(what["text"]).encode()
    left = what.get("repeat", 1)
    at_once = max(1, _BLOCK // max(1, len(data)))
    while left > 0:
        raw(data * min(left, at_once), 2 if what.get("to") == "stderr" else 1)
        left -= at_once


def _garbage(_: Stage, size: int) -> None:
    """Bytes without sense, the same ones every time."""
    source = random.Random(size)  # noqa: S311 - nothing here is secret
    while size > 0:
        raw(source.randbytes(min(size, _BLOCK)))
        size -= _BLOCK


def _end(stage: Stage, what: Mapping[str, Any]) -> None:
    outcome = Outcome(what["outcome"])
    ok = outcome is Outcome.SUCCESS
    emit(Finished(ok, outcome, stage.filled(what.get("text", ""))))
    raise Curtain(what.get("code", 0 if ok else 1))


def _exit(_: Stage, code: int) -> None:
    if code == 0:
        emit(Finished(ok=True, outcome=Outcome.SUCCESS))
    raise Curtain(code)


ACTS: dict[str, Callable[[Stage, Any], None]] = {
    "say": lambda stage, text: emit(Text(stage.filled(text))),
    "tool": _tool,
    "session": lambda stage, name: emit(Session(stage.filled(name))),
    "usage": _usage,
    "cost": lambda _, usd: emit(Cost(float(usd))),
    "retrying": _retrying,
    "limit": _limit,
    "print": _print,
    "garbage": _garbage,
    "write": deeds.write,
    "append": deeds.append,
    "delete": deeds.delete,
    "run": deeds.run,
    "commit": deeds.commit,
    "delay": deeds.delay,
    "child": deeds.child,
    "ignore_sigterm": deeds.ignore_sigterm,
    "hang": deeds.hang,
    "ask": words.ask,
    "block": words.block,
    "result": words.result,
    "bad_result": words.bad_result,
    "mark_done": words.mark_done,
    "end": _end,
    "exit": _exit,
    "die": deeds.die,
}
