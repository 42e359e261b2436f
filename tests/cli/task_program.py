"""A home for tasks by hand: the real program, agents that do what their prompt says in Python."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from command_calls import call_hostler, can_be_called
from intake_yard import lay_database

from hostler.clock import SystemClock
from hostler.store import Store, open_store
from hostler.store.runs import Run, live_runs, runs_of
from hostler.store.tasks import Task, TaskState, find_task, require_task, tasks_in
from hostler_program import Started, run_hostler
from started_processes import started_with

PATIENCE = 60.0
T = TypeVar("T")

# An agent: the prompt of its task is the program that it runs.
AGENT = """
import json, os, pathlib, subprocess, sys, time

def done():
    pathlib.Path(os.environ["HOSTLER_DONE"]).touch()

def hostler(*words, **more):
    return subprocess.run(["hostler", *words], capture_output=True, text=True, **more)

def ask(question):
    # What `hostler ask` writes.
    words = {"version": 1, "status": "needs_input", "question": question}
    result = pathlib.Path(os.environ["HOSTLER_RESULT"])
    part = result.with_suffix(".part")
    part.write_text(json.dumps(words))
    part.rename(result)

def tell(name, text=""):
    part = pathlib.Path(name + ".part")
    part.write_text(text)
    part.rename(name)

def hold(name):
    # Until a test lets go: a pipe that nobody has written to.
    open(name).read()

exec(json.load(open(os.environ["HOSTLER_CONTEXT"]))["prompt"])
"""


@dataclass
class Home:
    """A home without any repository, the folder `yard` to work in, and services."""

    root: Path
    environment: dict[str, str]
    tables: str = ""
    processes: list[Started] = field(default_factory=list)

    def __post_init__(self) -> None:
        lay_database(self.home)
        self.yard.mkdir()
        (self.root / "agent.py").write_text(AGENT)
        self.configure(self.tables)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def yard(self) -> Path:
        return self.root / "yard"

    def configure(self, tables: str = "", agent: str = "helper") -> None:
        command = json.dumps([sys.executable, str(self.root / "agent.py")])
        runtime = "" if "[runtime]" in tables else "[runtime]\nstop_grace_seconds = 1\n"
        tasks = "" if "[tasks]" in tables else "[tasks]\nrestart_delay_seconds = 0.0\n"
        text = f'{runtime}{tasks}{tables}\n[agent.{agent}]\nkind = "command"\ncommand = {command}\n'
        (self.home / "hostler.toml").write_text(text)

    def call(
        self, *words: str | Path, stdin: str = "", cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        env = {**self.environment, "HOSTLER_HOME": str(self.home), **environment}
        argv = [*map(str, words)]
        if can_be_called(argv):
            return call_hostler(argv, cwd=cwd or self.yard, env=env, stdin=stdin)
        return run_hostler(argv, cwd=cwd or self.yard, env=env, stdin=stdin, timeout=PATIENCE)

    def ok(self, *words: str | Path, **more: Any) -> str:
        """What a command that succeeds prints."""
        done = self.call(*words, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *words: str | Path, **more: Any) -> Any:
        return json.loads(self.ok(*words, "--json", **more))

    def submit(self, prompt: str, *words: str | Path, **more: Any) -> str:
        """The id of a new task."""
        return self.ok("task", "submit", *words, prompt, **more).strip()

    def start(self, *words: str, **environment: str) -> Started:
        """A command that goes on; without words, a service that has said that it works."""
        env = {**self.environment, "HOSTLER_HOME": str(self.home), **environment}
        process = Started(words or ("service",), cwd=self.yard, env=env)
        self.processes.append(process)
        if not words:
            self.heard(process, "Watching")
        return process

    def heard(self, process: Started, text: str) -> str:
        """Lines of a process up to the first that holds a text."""
        said = ""
        for line in process.stdout:
            said += line
            if text in line:
                return said
        raise AssertionError(f"it ended without {text!r}: {said}")

    def end(self, process: Started, number: int = signal.SIGTERM) -> str:
        """Ask a process to leave; the rest of what it says."""
        process.send_signal(number)
        said, _ = process.communicate(timeout=PATIENCE)
        return said

    def kill(self, process: Started) -> None:
        process.kill()
        process.communicate()
        self.processes.remove(process)

    def clean(self) -> None:
        if "store" in self.__dict__:
            self.store.close()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for pid in self.agents():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def agents(self) -> list[int]:
        """Every process that was started for a run of this home, shims included."""
        found = started_with(f"{self.home}/projects/", "environ", "cmdline")
        return [process.pid for process in found]

    @cached_property
    def store(self) -> Store:
        """The database, opened once: a test looks at it many times."""
        return open_store(self.home)

    def until(self, seen: Callable[[], T], what: str = "") -> T:
        """What a function says, as soon as it says anything; looked at after every commit."""
        end = SystemClock().monotonic() + PATIENCE
        while True:
            mark = self.store.change_mark()
            found = seen()
            if found:
                return found
            left = end - SystemClock().monotonic()
            assert left > 0, f"waited for {what}: {self.tasks()}"
            self.store.wait_for_change(mark, min(left, 0.2))

    def reach(self, task: str, *states: str) -> Task:
        """A task when it is in one of these states."""

        def seen() -> Task | None:
            found = self.task(task)
            return found if found.state in states else None

        return self.until(seen, f"{task} {states}")

    def task(self, name: str) -> Task:
        with self.store.read() as tx:
            return require_task(tx, name)

    def find(self, name: str) -> Task | None:
        with self.store.read() as tx:
            return find_task(tx, name)

    def tasks(self) -> list[Task]:
        with self.store.read() as tx:
            return tasks_in(tx, tuple(TaskState))

    def runs(self, task: str) -> list[Run]:
        with self.store.read() as tx:
            return runs_of(tx, task)

    def live(self) -> list[Run]:
        with self.store.read() as tx:
            return live_runs(tx)

    def folder(self, task: str) -> Path:
        return self.home / "projects" / "yard" / "tasks" / task

    def pipe(self, name: str) -> Path:
        """A pipe in the yard, at which an agent can be held."""
        path = self.yard / name
        os.mkfifo(path)
        return path

    def told(self, name: str) -> str:
        """What an agent told by a file of the yard, when it has."""
        path = self.yard / name
        self.until(path.exists, name)
        return path.read_text()


def let_go(pipe: Path) -> None:
    """Let whoever is held at a pipe go on."""
    pipe.write_text("go")


def on_terminal(
    words: Sequence[str], environment: dict[str, str], cwd: Path, columns: int = 80, typed: str = ""
) -> str:
    """What a command shows on a terminal that is so wide, to somebody who types this."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    seen = {name: value for name, value in environment.items() if name != "COLUMNS"}
    process = Started(words, cwd=cwd, env={**seen, "TERM": "xterm"}, terminal=other)
    os.close(other)
    os.write(main, typed.encode())
    shown = b""
    try:
        while data := os.read(main, 65536):
            shown += data
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(main)
        process.communicate(PATIENCE)
    return shown.decode()
