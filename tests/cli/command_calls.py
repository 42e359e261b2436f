"""`hostler` commands run in the process of the tests, which costs a fraction of a process each.

For what a command does and prints. What depends on the process (signals, terminals, replacing
itself, going on in the background) is tested with `hostler_program`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from hostler.__main__ import main
from hostler_program import HOSTLER, run_hostler
from preloaded_program import exit_code_of

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)


# Commands that run agents, follow something, replace their process or hear signals.
_PROCESSES = {"demo", "run", "sandbox", "service", "top", "wrap", "tail", "web", "--foreground"}


def can_be_called(words: Sequence[str]) -> bool:
    """Return whether a command does its work and ends, so that it can run in this process."""
    return not _PROCESSES & {*words} and bool(words)


def call_hostler(
    words: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in this process, and return what `subprocess.run` would.

    Commands of other threads run at the same time, so each gets a process of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        return run_hostler([*map(str, words)], cwd=cwd, env=env, stdin=stdin)
    argv = [HOSTLER, *map(str, words)]
    with ExitStack() as stack:
        given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin.encode())
        given.seek(0)
        with _no_replacement(), _circumstances(argv, cwd, env), _streams(given, out, err):
            code = exit_code_of(main)
        return subprocess.CompletedProcess(argv, code, _text(out), _text(err))


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def caller(folder: Path, environment: Mapping[str, str]) -> Callable[..., Done]:
    """Return a function that runs commands in this process, in a folder."""

    def run(*argv: str | Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Done:
        given = {**environment, **(env or {})}
        done = call_hostler(argv, cwd=folder, env=given, stdin=stdin)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@contextmanager
def _no_replacement() -> Iterator[None]:
    """Refuse a command that would replace the process of the tests by another program."""

    def refuse(*_words: object) -> NoReturn:
        raise AssertionError("this command replaces its process: run it with hostler_program")

    before = os.execv, os.execve
    os.execv = os.execve = refuse
    try:
        yield
    finally:
        os.execv, os.execve = before


@contextmanager
def _circumstances(argv: list[str], cwd: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Take on arguments, folder and environment; restore ours, and the handlers of signals."""
    before = sys.argv, Path.cwd(), dict(os.environ), tempfile.tempdir
    module = sys.modules["__main__"]
    package = module.__package__
    handlers = {number: signal.getsignal(number) for number in _NUMBERS}
    try:
        sys.argv = argv
        os.chdir(cwd)
        _set_environment(env)
        tempfile.tempdir = None
        # With a package, usage texts would call the program `python -m pytest`.
        module.__package__ = None
        yield
    finally:
        sys.argv = before[0]
        os.chdir(before[1])
        _set_environment(before[2])
        tempfile.tempdir = before[3]
        module.__package__ = package
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _set_environment(env: Mapping[str, str]) -> None:
    # Never empty in between: threads of a test, such as a server, start processes meanwhile.
    os.environ.update(env)
    for name in set(os.environ) - set(env):
        del os.environ[name]


@contextmanager
def _streams(*files: IO[bytes]) -> Iterator[None]:
    """Replace the standard streams, and their descriptors, which processes of a command inherit."""
    kept = [os.dup(number) for number in range(3)]
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        stream.flush()
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        yield
        sys.stdout.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
