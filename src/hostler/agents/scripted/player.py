"""python -I -m hostler.agents.scripted.player SCRIPT: play a script in the current folder.

Standard library only.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostler import __version__
from hostler.agents.errors import ScriptError
from hostler.agents.events import (
    CostEvent,
    Finished,
    LimitSignal,
    Retrying,
    SessionEvent,
    Started,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.outcomes import Outcome
from hostler.agents.scripted import steps
from hostler.agents.scripted.script import Script, ScriptScene, ScriptStep, load_script
from hostler.agents.scripted.steps import (
    ScriptContext,
    StepFailed,
    build_script_context,
    emit,
    write_raw,
)

_COUNTS_FILE = "scripted.json"
_BLOCK_BYTES = 1 << 20


class ScriptEnded(Exception):
    """The script ends with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def choose_scene(script: Script, inputs: ScriptContext) -> ScriptScene:
    """Return the first scene whose conditions hold."""
    for scene in script.scenes:
        if all(CONDITIONS[name](inputs, wanted) for name, wanted in scene.when.items()):
            return scene
    raise StepFailed("no scene fits this run")


def play_scene(scene: ScriptScene, inputs: ScriptContext) -> int:
    """Play to the end, or to the step that ends it. Return the exit code."""
    try:
        for step in scene.steps:
            if step.verb == "fail":
                _fail(inputs, step)
            else:
                STEP_ACTIONS[step.verb](inputs, step.value)
    except ScriptEnded as curtain:
        return curtain.code
    emit(Finished(ok=True, outcome=Outcome.SUCCESS))
    return 0


def _issue_field(inputs: ScriptContext, name: str) -> Any:
    issue = inputs.context.get("issue")
    return issue.get(name) if isinstance(issue, Mapping) else None


CONDITIONS: dict[str, Callable[[ScriptContext, Any], bool]] = {
    "flow": lambda inputs, wanted: inputs.context.get("flow") == wanted,
    "attempt": lambda inputs, wanted: inputs.attempt == wanted,
    "issue": lambda inputs, wanted: _issue_field(inputs, "number") == wanted,
    "title_has": lambda inputs, wanted: wanted in str(_issue_field(inputs, "title") or ""),
    "prompt_has": lambda inputs, wanted: wanted in inputs.prompt,
    "comments": lambda inputs, wanted: bool(inputs.comments) == wanted,
}


def _fail(inputs: ScriptContext, step: ScriptStep) -> None:
    """Fail in the first attempts of the task, and succeed in later ones."""
    failed = _failed_before(inputs, step.place)
    if inputs.attempt not in failed and len(failed) >= step.value["times"]:
        return
    _store_failed(inputs, step.place, [*failed, inputs.attempt])
    emit(Text(inputs.filled(step.value.get("say", "This attempt fails."))))
    raise ScriptEnded(step.value.get("code", 1))


def _counts_file(inputs: ScriptContext) -> Path:
    if inputs.task_dir is None:
        raise StepFailed("HOSTLER_TASK_DIR is not set")
    return inputs.task_dir / _COUNTS_FILE


def _read_counts(inputs: ScriptContext) -> dict[str, list[int]]:
    try:
        value = json.loads(_counts_file(inputs).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return value if isinstance(value, dict) else {}


def _failed_before(inputs: ScriptContext, scene_key: str) -> list[int]:
    return sorted(set(_read_counts(inputs).get(scene_key, [])))


def _store_failed(inputs: ScriptContext, scene_key: str, failed: list[int]) -> None:
    counts = {**_read_counts(inputs), scene_key: sorted(set(failed))}
    path = _counts_file(inputs)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(json.dumps(counts), encoding="utf-8")
    temporary.replace(path)


def _limit(_: ScriptContext, what: Mapping[str, Any]) -> None:
    emit(LimitSignal(**{**what, "reason": Outcome(what["reason"])}))


def _retrying(_: ScriptContext, what: Mapping[str, Any]) -> None:
    emit(Retrying(Outcome(what["reason"]), what.get("seconds", 0.0)))


def _usage(_: ScriptContext, what: Mapping[str, Any]) -> None:
    emit(Usage(what.get("input", 0), what.get("output", 0), what.get("cached", 0)))


def _tool(inputs: ScriptContext, what: Mapping[str, Any]) -> None:
    emit(ToolUse(what["name"], inputs.filled(what.get("detail", ""))))


def _print(inputs: ScriptContext, what: Mapping[str, Any]) -> None:
    data = inputs.filled(what["text"]).encode()
    left = what.get("repeat", 1)
    at_once = max(1, _BLOCK_BYTES // max(1, len(data)))
    while left > 0:
        write_raw(data * min(left, at_once), 2 if what.get("to") == "stderr" else 1)
        left -= at_once


def _garbage(_: ScriptContext, size: int) -> None:
    """Return random-looking bytes that are the same every time."""
    source = random.Random(size)  # noqa: S311 - nothing here is secret
    while size > 0:
        write_raw(source.randbytes(min(size, _BLOCK_BYTES)))
        size -= _BLOCK_BYTES


def _end(inputs: ScriptContext, what: Mapping[str, Any]) -> None:
    outcome = Outcome(what["outcome"])
    ok = outcome is Outcome.SUCCESS
    emit(Finished(ok, outcome, inputs.filled(what.get("text", ""))))
    raise ScriptEnded(what.get("code", 0 if ok else 1))


def _exit(_: ScriptContext, code: int) -> None:
    if code == 0:
        emit(Finished(ok=True, outcome=Outcome.SUCCESS))
    raise ScriptEnded(code)


STEP_ACTIONS: dict[str, Callable[[ScriptContext, Any], None]] = {
    "say": lambda inputs, text: emit(Text(inputs.filled(text))),
    "tool": _tool,
    "session": lambda inputs, name: emit(SessionEvent(inputs.filled(name))),
    "usage": _usage,
    "cost": lambda _, usd: emit(CostEvent(float(usd))),
    "retrying": _retrying,
    "limit": _limit,
    "print": _print,
    "garbage": _garbage,
    "write": steps.write_file,
    "append": steps.append_file,
    "delete": steps.delete_path,
    "run": steps.run_program,
    "commit": steps.commit_all,
    "delay": steps.wait_seconds,
    "child": steps.start_child,
    "ignore_sigterm": steps.ignore_sigterm,
    "hang": steps.hang,
    "ask": steps.write_question,
    "block": steps.write_blocked,
    "result": steps.write_result_step,
    "bad_result": steps.write_bad_result,
    "mark_done": steps.mark_done,
    "end": _end,
    "exit": _exit,
    "die": steps.kill_self,
}


EXIT_USAGE = 2


def main(arguments: list[str]) -> int:
    """Play one script. Return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -I -m hostler.agents.scripted.player SCRIPT\n")
        return EXIT_USAGE
    emit(Started("scripted", __version__))
    try:
        script = load_script(Path(arguments[0]))
        inputs = build_script_context(os.environ)
        return play_scene(choose_scene(script, inputs), inputs)
    except ScriptError as error:
        return _report_failure(error.lines())
    except StepFailed as error:
        return _report_failure([str(error)])
    except OSError as error:
        return _report_failure([str(error)], Outcome.CRASH)


def _report_failure(lines: list[str], outcome: Outcome = Outcome.CONFIG) -> int:
    sys.stderr.write("\n".join(lines) + "\n")
    emit(Finished(ok=False, outcome=outcome, text=" ".join(lines)))
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
