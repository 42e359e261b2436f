"""The inputs of a script, and the steps that change files, start processes or write results.

Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.agents.agent_files import NotRegularFile, read_regular_file
from hostler.agents.events import Event, Text, ToolUse, encode_event

MAX_INPUT_BYTES = 16 * 1024 * 1024
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z0-9_.]+)\s*\}\}")


class StepFailed(Exception):
    """The script refers to something that does not exist."""


@dataclass(frozen=True, slots=True)
class ScriptContext:
    """The inputs of a script. Paths are None if the player runs outside of a run."""

    checkout: Path
    attempt: int
    context: Mapping[str, Any]
    prompt: str
    result_file: Path | None
    done_file: Path | None
    task_dir: Path | None

    @property
    def comments(self) -> list[Mapping[str, Any]]:
        """Return the comments that the context asks to answer."""
        found = self.context.get("comments")
        items = found if isinstance(found, list) else []
        return [item for item in items if isinstance(item, dict)]

    def filled(self, text: str, **more: Any) -> str:
        """Return a text with every `{{ name }}` replaced by its value."""
        known = {**self.context, "attempt": self.attempt, **more}
        return _PLACEHOLDER.sub(lambda found: str(_look_up(known, found[1])), text)


def _look_up(known: Mapping[str, Any], dotted: str) -> Any:
    value: Any = known
    for part in dotted.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise StepFailed(f"nothing here is called {dotted}")
        value = value[part]
    return value


def emit(event: Event) -> None:
    """Print an event to standard output, unbuffered."""
    write_raw(encode_event(event).encode() + b"\n")


def write_raw(data: bytes, to: int = 1) -> None:
    """Write bytes to standard output, unbuffered."""
    sys.stdout.flush()
    view = memoryview(data)
    while view:
        view = view[os.write(to, view) :]


def build_script_context(variables: Mapping[str, str]) -> ScriptContext:
    """Return the inputs for this process."""
    attempt = variables.get("HOSTLER_ATTEMPT", "1")
    return ScriptContext(
        checkout=Path.cwd(),
        attempt=int(attempt) if attempt.isdigit() else 1,
        context=_read_context(variables.get("HOSTLER_CONTEXT", "")),
        prompt=_read_text(variables.get("HOSTLER_PROMPT", "")),
        result_file=_optional_path(variables.get("HOSTLER_RESULT", "")),
        done_file=_optional_path(variables.get("HOSTLER_DONE", "")),
        task_dir=_optional_path(variables.get("HOSTLER_TASK_DIR", "")),
    )


def _optional_path(text: str) -> Path | None:
    return Path(text) if text else None


def _read_text(path: str) -> str:
    try:
        return (
            read_regular_file(Path(path), MAX_INPUT_BYTES).decode("utf-8", "replace")
            if path
            else ""
        )
    except NotRegularFile as error:
        raise StepFailed(f"{path}: {error.found}") from None


def _read_context(path: str) -> Mapping[str, Any]:
    text = _read_text(path)
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        raise StepFailed(f"{path} is not JSON") from None
    if not isinstance(value, dict):
        raise StepFailed(f"{path} holds no object")
    return value


_GIT_IDENTITY = ("-c", "user.name=Scripted agent", "-c", "user.email=scripted@agents.invalid")
_BLOCK_BYTES = 1 << 20


def write_file(inputs: ScriptContext, what: Mapping[str, Any]) -> None:
    _write_text(inputs, what, "wb")


def append_file(inputs: ScriptContext, what: Mapping[str, Any]) -> None:
    _write_text(inputs, what, "ab")


def _write_text(inputs: ScriptContext, what: Mapping[str, Any], mode: str) -> None:
    path = inputs.checkout / inputs.filled(what["path"])
    emit(ToolUse("edit", str(path.relative_to(inputs.checkout))))
    path.parent.mkdir(parents=True, exist_ok=True)
    data = inputs.filled(what["text"]).encode()
    left = what.get("repeat", 1)
    at_once = max(1, _BLOCK_BYTES // max(1, len(data)))
    with path.open(mode) as file:
        while left > 0:
            file.write(data * min(left, at_once))
            left -= at_once


def delete_path(inputs: ScriptContext, name: str) -> None:
    path = inputs.checkout / inputs.filled(name)
    emit(ToolUse("delete", name))
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def run_program(inputs: ScriptContext, argv: list[str]) -> None:
    """Run a program to its end; its output is not part of our stream."""
    words = [inputs.filled(word) for word in argv]
    emit(ToolUse("run", " ".join(words)))
    try:
        done = subprocess.run(
            words, cwd=inputs.checkout, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
        )
    except OSError as error:
        raise StepFailed(f"{words[0]}: {error.strerror}") from None
    if done.returncode:
        raise StepFailed(f"{words[0]} exited with {done.returncode}")


def commit_all(inputs: ScriptContext, message: str) -> None:
    """Commit everything. Nothing to commit is not an error: a step may be repeated."""
    _git(inputs, "add", "--all")
    if _git(inputs, "diff", "--cached", "--quiet", may_fail=True) == 0:
        emit(Text("Nothing to commit."))
        return
    known = _git(inputs, "config", "user.email", may_fail=True) == 0
    identity = () if known else _GIT_IDENTITY
    _git(inputs, *identity, "commit", "--quiet", "--message", inputs.filled(message))
    emit(ToolUse("commit", inputs.filled(message)))


def _git(inputs: ScriptContext, *arguments: str, may_fail: bool = False) -> int:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=inputs.checkout,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,
        )
    except OSError as error:
        raise StepFailed(f"git: {error.strerror}") from None
    if done.returncode and not may_fail:
        raise StepFailed(f"git {arguments[0]} exited with {done.returncode}")
    return done.returncode


def wait_seconds(_: ScriptContext, seconds: float) -> None:
    threading.Event().wait(seconds)


hang = wait_seconds


def ignore_sigterm(_: ScriptContext, __: bool) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def kill_self(_: ScriptContext, name: str) -> None:
    """Exit by a signal, as in a crash."""
    number = signal.Signals[name]
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


_CHILD_PROGRAM = """
import os, signal, sys, time
seconds, session, detached, stubborn = float(sys.argv[1]), *(flag == "1" for flag in sys.argv[2:])
if session:
    os.setsid()
if detached and os.fork():
    os._exit(0)
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"%d\\n" % os.getpid())
os.close(1)
time.sleep(seconds)
"""


def start_child(_: ScriptContext, what: Mapping[str, Any]) -> None:
    """Leave a child process running; print its pid once it is ready."""
    flags = [str(int(what.get(name, False))) for name in ("session", "detached", "ignore_sigterm")]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _CHILD_PROGRAM, str(what["seconds"]), *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=Path("/"),
    )
    assert process.stdout is not None
    with process.stdout as result:
        emit(ToolUse("child", result.readline().decode().strip()))
    if what.get("detached"):
        process.wait()


_HUGE_BYTES = 1 << 30
_TEXT_KEYS = ("summary", "pr_title", "pr_body", "commit_message", "question")


def write_result_step(inputs: ScriptContext, result: Mapping[str, Any]) -> None:
    """Write result.json; `reply_each` answers every comment of the context."""
    texts = {name: inputs.filled(result[name]) for name in _TEXT_KEYS if name in result}
    replies = [
        {"comment_id": one["comment_id"], "body": inputs.filled(one["body"])}
        for one in result.get("replies", ())
    ]
    if "reply_each" in result:
        replies += [
            _build_reply(inputs, result["reply_each"], comment) for comment in inputs.comments
        ]
    _write_json(inputs, {"version": 1, "status": result["status"], **texts, "replies": replies})


def write_question(inputs: ScriptContext, question: str) -> None:
    _write_json(
        inputs, {"version": 1, "status": "needs_input", "question": inputs.filled(question)}
    )


def write_blocked(inputs: ScriptContext, why: str) -> None:
    _write_json(inputs, {"version": 1, "status": "blocked", "question": inputs.filled(why)})


def mark_done(inputs: ScriptContext, _: bool) -> None:
    if inputs.done_file is None:
        raise StepFailed("HOSTLER_DONE is not set")
    inputs.done_file.touch()


def _write_json(inputs: ScriptContext, value: Mapping[str, Any]) -> None:
    """Write atomically, as the contract requires."""
    path = _result_path(inputs)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def write_bad_result(inputs: ScriptContext, how: str) -> None:
    """Write an invalid result that no reader may accept."""
    path = _result_path(inputs)
    if how in _BAD_RESULTS:
        path.write_bytes(_BAD_RESULTS[how])
    elif how == "fifo":
        os.mkfifo(path)
    elif how == "directory":
        path.mkdir()
    elif how == "symlink":
        path.symlink_to("/etc/passwd")
    elif how == "huge":
        _make_huge(path)


_BAD_RESULTS = {
    "deep": b'{"status":' + b"[" * 100_000,
    "empty": b"",
    "half": b'{"version": 1, "status": "done", "summary": "I was about to',
    "nan": b'{"status": "done", "summary": NaN}',
    "no_question": b'{"status": "needs_input"}',
    "not_json": b"I am done!\n",
    "not_utf8": b'{"status": "done", "summary": "\xff\xfe"}',
    "wrong_types": b'{"status": 1, "summary": [], "replies": {"5": "yes"}}',
}


def _make_huge(path: Path) -> None:
    """Create a sparse file of one gigabyte."""
    with path.open("wb") as file:
        file.truncate(_HUGE_BYTES)


def _build_reply(inputs: ScriptContext, text: str, comment: Mapping[str, Any]) -> dict[str, Any]:
    return {"comment_id": comment.get("id"), "body": inputs.filled(text, comment=comment)}


def _result_path(inputs: ScriptContext) -> Path:
    if inputs.result_file is None:
        raise StepFailed("HOSTLER_RESULT is not set")
    return inputs.result_file
