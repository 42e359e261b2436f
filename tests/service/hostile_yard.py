"""A yard for hostile agents: what they aim at, who listens, and where a secret could have gone."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from service_town import ALICE, PATIENCE, REPO, Person, Service, Town

from hostler.sandbox.auth import token_for
from hostler.sandbox.server import Running
from hostler.store.tasks import Task, TaskState
from hostler.telemetry.redaction import encoded_forms

AT_REST = frozenset(TaskState) - {TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING}
AGENT = Path(__file__).with_name("hostile_agent.py")
# Whoever carries a run's name in its environment was started by the agent, as itself.
EVIL = """#!/bin/sh
[ -n "$HOSTLER_RUN" ] || { echo "$0 $@"; env; } >> '%s'
exec cat
"""


class Listener:
    """A host that nobody of ours should ever speak with."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.heard.append(connection.recv(65_536))

    def close(self) -> None:
        # Closing alone does not wake who waits in accept.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@dataclass
class Yard:
    """A town, and everything that attacks aim at."""

    town: Town
    listener: Listener
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.town.root

    @property
    def marker(self) -> Path:
        """A file that only the agents' programs make, if anybody but the agents runs them."""
        return self.root / "ran-as-us"

    @property
    def decoy(self) -> Path:
        """Where redirected pushes would land."""
        return self.root / "decoy.git"

    @property
    def meddled(self) -> Path:
        return self.root / "meddled"

    @property
    def locks(self) -> Path:
        """A file per child that was left behind, locked while it lives."""
        return self.root / "locks"

    def set_up(self) -> None:
        evil = self.root / "evil"
        evil.write_text(EVIL % self.marker)
        evil.chmod(0o755)
        subprocess.run(["git", "init", "-q", "--bare", str(self.decoy)], check=True)
        self.locks.mkdir()
        os.mkfifo(self.meddled)
        facts = {
            "evil": str(evil),
            "evil_url": self.listener.url,
            "hub_url": self.town.hub.url,
            "decoy": str(self.decoy),
            "hooks": str(self.root / "hooks"),
            "token_file": str(self.root / "token"),
            "meddled": str(self.meddled),
            "locks": str(self.locks),
        }
        (self.root / "yard.json").write_text(json.dumps(facts))

    @property
    def person(self) -> Person:
        return self.town.person(ALICE)

    def file(self, *attacks: str) -> None:
        """One issue per attack."""
        for name in attacks:
            title = name.replace("_", " ")
            self.numbers[name] = self.person.file(title, "agent:small-job")

    def said(self, attack: str) -> list[str]:
        """What was said on an attack's issue, without the status."""
        bodies = [one["body"] for one in self.person.comments(self.numbers[attack])]
        return [body for body in bodies if "**Hostler**" not in body]

    def status(self, attack: str) -> str:
        """The status comment of an attack's issue: there is one."""
        bodies = [one["body"] for one in self.person.comments(self.numbers[attack])]
        (found,) = [body for body in bodies if "**Hostler**" in body]
        return str(found)

    def settle(
        self, service: Service, *, turns: int = 0, of: str = "", seconds: float = PATIENCE
    ) -> dict[str, TaskState]:
        """Until no attack is under way, and each (or one) had so many turns; where they are."""
        service.poll()

        def seen() -> dict[str, TaskState] | None:
            # In the order of their beginning: the newest of an issue stays.
            newest = {task.number: task for task in service.all_tasks()}
            found = {name: newest.get(number) for name, number in self.numbers.items()}
            tasks = {name: task for name, task in found.items() if task is not None}
            if len(tasks) < len(found) or any(t.state not in AT_REST for t in tasks.values()):
                return None
            late = [name for name in ([of] if of else tasks) if tasks[name].turn < turns]
            return None if late else {name: task.state for name, task in tasks.items()}

        states = service.until(seen, "all attacks to settle", seconds)
        service.rested()
        return states

    def task(self, service: Service, attack: str) -> Task:
        return service.task(self.numbers[attack])

    def pull(self, service: Service, attack: str) -> int:
        """The number of an attack's pull request."""
        return self.task(service, attack).pr_number or 0

    def checkout(self, service: Service, attack: str) -> Path:
        task = self.task(service, attack)
        return self.town.home / "checkouts" / task.project / task.id

    def repository(self) -> Path:
        """The attacked repository, where GitHub keeps it."""
        world = self.town.hub.app.world
        repo = world.repo(REPO)
        assert repo is not None and world.repo_store is not None
        return world.repo_store.path(repo.id)

    def read_if_there(self, path: str, ref: str) -> str:
        try:
            return self.person.read(path, ref)
        except AssertionError:
            return ""

    def require_untouched(self) -> None:
        """Nothing of an agent's ran as us, and nothing went anywhere else."""
        assert not self.marker.exists(), self.marker.read_text()
        assert self.listener.heard == []
        assert run("git", "-C", str(self.decoy), "for-each-ref") == b""

    def require_no_leak(self, service: Service) -> None:
        """Our token is neither on GitHub nor in anything that we wrote."""
        token = token_for("hostler-bot")
        secrets = {form.encode() for form in encoded_forms(token) if len(form) > 8}
        secrets.add(base64.b64encode(f"x-access-token:{token}".encode()))
        places = [*received(self.town.hub), *stored(self.town.home)]
        places.append(("the log's lines", service.lines.getvalue().encode()))
        places += [("what was told", line.encode()) for line in service.told]
        leaks = {where for where, data in places for secret in secrets if secret in data}
        assert not leaks, "\n".join(sorted(leaks))


def received(hub: Running) -> Iterator[tuple[str, bytes]]:
    """Everything that came to GitHub: its state but for the tokens it knows, and its git."""
    state: dict[str, Any] = hub.control.get("/state").json()
    for kind, rows in state["entities"].items():
        if kind != "token":
            yield f"GitHub's {kind}", json.dumps(rows, ensure_ascii=False).encode()
    repo_store = hub.app.world.repo_store
    assert repo_store is not None
    for repo in repo_store.root.glob("*.git"):
        yield from in_git(repo)


def stored(home: Path) -> Iterator[tuple[str, bytes]]:
    """Everything in a home. What an agent prints goes straight to its files: that is its own."""
    for path in home.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        if path.name in ("stdout", "stderr", "result.json") and path.parent.parent.name == "runs":
            continue
        if path.stat().st_size < 1 << 26:
            yield str(path), path.read_bytes()
    for mirror in home.glob("mirrors/*/*.git"):
        yield from in_git(mirror)


def in_git(repo: Path) -> Iterator[tuple[str, bytes]]:
    """All objects and refs of a repository, also those that nothing leads to."""
    every = run("git", "-C", str(repo), "cat-file", "--batch-all-objects", "--batch")
    yield f"objects of {repo}", every
    yield f"refs of {repo}", run("git", "-C", str(repo), "for-each-ref")


def run(*argv: str) -> bytes:
    return subprocess.run(argv, capture_output=True, check=True).stdout


@contextmanager
def a_yard(town: Town, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    """A yard whose user has a HOME of its own and our token in the environment."""
    user = town.root / "user"
    user.mkdir()
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("GITHUB_TOKEN", token_for("hostler-bot"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    listener = Listener()
    yard = Yard(town, listener)
    yard.set_up()
    town.agent = {
        "kind": "command",
        "command": [sys.executable, "-I", str(AGENT), str(town.root / "yard.json")],
    }
    try:
        yield yard
    finally:
        listener.close()
