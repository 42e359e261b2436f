"""Steps that change the checkout or start processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostler.agents.events import Text, ToolUse
from hostler.agents.player.stage import CannotPlay, Stage, emit

_NOBODY = ("-c", "user.name=Scripted agent", "-c", "user.email=scripted@agents.invalid")
_BLOCK = 1 << 20


def write(stage: Stage, what: Mapping[str, Any]) -> None:
    _put(stage, what, "wb")


def append(stage: Stage, what: Mapping[str, Any]) -> None:
    _put(stage, what, "ab")


def _put(stage: Stage, what: Mapping[str, Any], mode: str) -> None:
    path = stage.checkout / stage.filled(what["path"])
    emit(ToolUse("edit", str(path.relative_to(stage.checkout))))
    path.parent.mkdir(parents=True, exist_ok=True)
    data = stage.filled(what["text"]).encode()
    left = what.get("repeat", 1)
    at_once = max(1, _BLOCK // max(1, len(data)))
    with path.open(mode) as file:
        while left > 0:
            file.write(data * min(left, at_once))
            left -= at_once


def delete(stage: Stage, name: str) -> None:
    path = stage.checkout / stage.filled(name)
    emit(ToolUse("delete", name))
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def run(stage: Stage, argv: list[str]) -> None:
    """Run a program to its end; what it prints is not part of our stream."""
    words = [stage.filled(word) for word in argv]
    emit(ToolUse("run", " ".join(words)))
    try:
        done = subprocess.run(
            words, cwd=stage.checkout, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
        )
    except OSError as error:
        raise CannotPlay(f"{words[0]}: {error.strerror}") from None
    if done.returncode:
        raise CannotPlay(f"{words[0]} exited with {done.returncode}")


def commit(stage: Stage, message: str) -> None:
    """Commit everything. Nothing to commit is no failure: an attempt may come a second time."""
    _git(stage, "add", "--all")
    if _git(stage, "diff", "--cached", "--quiet", may_fail=True) == 0:
        emit(Text("Nothing to commit."))
        return
    known = _git(stage, "config", "user.email", may_fail=True) == 0
    identity = () if known else _NOBODY
    _git(stage, *identity, "commit", "--quiet", "--message", stage.filled(message))
    emit(ToolUse("commit", stage.filled(message)))


def _git(stage: Stage, *arguments: str, may_fail: bool = False) -> int:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=stage.checkout,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,
        )
    except OSError as error:
        raise CannotPlay(f"git: {error.strerror}") from None
    if done.returncode and not may_fail:
        raise CannotPlay(f"git {arguments[0]} exited with {done.returncode}")
    return done.returncode


def delay(_: Stage, seconds: float) -> None:
    threading.Event().wait(seconds)


hang = delay


def ignore_sigterm(_: Stage, __: bool) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def die(_: Stage, name: str) -> None:
    """End by a signal, as a crash does."""
    number = signal.Signals[name]
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


_CHILD = """
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


def child(_: Stage, what: Mapping[str, Any]) -> None:
    """Leave a process behind; our stream says its number once it is ready."""
    flags = [str(int(what.get(name, False))) for name in ("session", "detached", "ignore_sigterm")]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _CHILD, str(what["seconds"]), *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=Path("/"),
    )
    assert process.stdout is not None
    with process.stdout as said:
        emit(ToolUse("child", said.readline().decode().strip()))
    if what.get("detached"):
        process.wait()
