"""The real program on a sandbox: settings in a file, a service as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from command_calls import call_hostler, can_be_called
from intake_yard import lay_database

from hostler.clock import SystemClock
from hostler.sandbox.auth import token_for
from hostler.sandbox.server import Running
from hostler.store import Store, open_store
from hostler.store.runs import Run, live_runs
from hostler.store.tasks import Task, TaskState, tasks_in
from hostler_program import HOSTLER, Started, run_hostler

PATIENCE = 60.0
T = TypeVar("T")


@dataclass
class Program:
    """A home, its settings, and services that are started and ended."""

    hub: Running
    root: Path
    play: str
    environment: dict[str, str]
    services: list[Started] = field(default_factory=list)

    def __post_init__(self) -> None:
        lay_database(self.home)
        (self.root / "play.toml").write_text(self.play)
        token = self.root / "token"
        token.write_text(token_for("hostler-bot"))
        token.chmod(0o600)
        self.config.write_text(self.settings())

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def config(self) -> Path:
        return self.root / "hostler.toml"

    def settings(self) -> str:
        return f"""
[github]
api_url = "{self.hub.url}"
web_url = "{self.hub.url}"
token_file = "{self.root}/token"

[runtime]
poll_interval_seconds = 5
stop_grace_seconds = 2

[repo.stable]
owner = "alice"
name = "stable"
allowed_users = ["alice", "bob"]

[agent.helper]
kind = "scripted"
script = "{self.root}/play.toml"
"""

    def argv(self, *words: str) -> list[str]:
        return [HOSTLER, "--home", str(self.home), "--config", str(self.config), *words]

    def call(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env, argv = {**self.environment, **environment}, self.argv(*words)[1:]
        if can_be_called(argv):
            return call_hostler(argv, cwd=self.root, env=env)
        return run_hostler(argv, cwd=self.root, env=env, timeout=PATIENCE)

    def start(self, *words: str) -> Started:
        """A service at work: it has said that it watches."""
        given = self.argv(*(words or ("service",)))[1:]
        process = Started(given, cwd=self.root, env=self.environment)
        self.services.append(process)
        return process

    def heard(self, process: Started, text: str) -> str:
        """Lines of a service up to the first that holds a text."""
        said = ""
        for line in process.stdout:
            said += line
            if text in line:
                return said
        raise AssertionError(f"it ended without {text!r}: {said}")

    def end(self, process: Started, number: int = signal.SIGTERM) -> str:
        """Ask a service to leave; the rest of what it says."""
        process.send_signal(number)
        said, _ = process.communicate(timeout=PATIENCE)
        return said

    def clean(self) -> None:
        for process in self.services:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
        if (self.home / "hostler.db").exists():
            for run in self.live():
                shim = json.loads(run.shim or "{}").get("pid")
                if isinstance(shim, int):
                    with_children = _tree(shim)
                    for pid in with_children:
                        _kill(pid)
        if "store" in self.__dict__:
            self.store.close()

    def until(self, seen: Callable[[], T], what: str = "") -> T:
        end = SystemClock().monotonic() + PATIENCE
        while True:
            mark = self.store.change_mark()
            found = seen()
            if found:
                return found
            left = end - SystemClock().monotonic()
            assert left > 0, f"waited for {what}: {self.tasks()}"
            self.store.wait_for_change(mark, min(left, 0.5))

    @cached_property
    def store(self) -> Store:
        """The database, opened once: a test looks at it many times."""
        return open_store(self.home)

    def tasks(self) -> list[Task]:
        with self.store.read() as tx:
            return tasks_in(tx, tuple(TaskState))

    def live(self) -> list[Run]:
        with self.store.read() as tx:
            return live_runs(tx)

    def files(self, title: str, *labels: str) -> int:
        words: dict[str, Any] = {"title": title, "body": "Please.", "labels": list(labels)}
        answer = self.hub.client("alice").post("/repos/alice/stable/issues", json=words)
        return int(answer.json()["number"])


def _tree(pid: int) -> list[int]:
    found = [pid]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if parent == pid:
                found += _tree(int(entry.name))
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
