"""Where a campaign takes place: a GitHub, a home, and a real service that comes and goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from service_kill_processes import PATIENCE, kill
from service_town import LABELS, NO_LIMITS
from soak_plan import repositories
from soak_sizes import Size
from soak_time import Pace, SandboxClock

from hostler.clock import SystemClock
from hostler.sandbox.auth import token_for
from hostler.sandbox.control.ledger import Ledger, LedgerEntry
from hostler.sandbox.server import Running, running
from hostler.sandbox.state.entities import Repo
from hostler.sandbox.state.world import World
from hostler.service.context import open_or_create_store, read_presence
from hostler.shim import processes as tree
from hostler.store import Store
from started_processes import started_with

OWNER, US, OPERATOR, SPEAKER, STRANGER = "farm", "hostler-bot", "alice", "bob", "eve"
ALLOWED = (OPERATOR, SPEAKER)
HERE = Path(__file__).parent
# Beyond what GitHub's answers may take, and less than a `delay` of the fault plan.
REQUEST_SECONDS = 2
MOST_ENTRIES = 10**6
T = TypeVar("T")


@dataclass
class Town:
    """Everything that a campaign acts on."""

    hub: Running
    root: Path
    size: Size
    pace: Pace
    ids: dict[str, int]
    store: Store
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    # What was seen of services that ended without being asked.
    surprises: list[str] = field(default_factory=list)
    # How much all services before the present one had said.
    _said_before: int = 0

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def place(self) -> Path:
        return self.root / "place"

    @property
    def log(self) -> Path:
        return self.root / "service.log"

    # -- the service --------------------------------------------------------------------------

    @property
    def service(self) -> subprocess.Popen[bytes]:
        return self.processes[-1]

    def start(self, skew: float = 0.0) -> None:
        """A service, whose clock may be wrong."""
        words = [self.pace.anchor, self.pace.speed, skew, "--home", self.home]
        words += ["--config", self.root / "hostler.toml", "service"]
        with self.log.open("ab") as log:
            self._said_before = log.tell()
            process = subprocess.Popen(
                [sys.executable, str(HERE / "soak_hostler.py"), *map(str, words)],
                cwd=self.root,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)

    def _environment(self) -> dict[str, str]:
        """Of a person who has our token in a variable too: it must go no further."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        user = {"HOME": str(self.root / "user"), "GITHUB_TOKEN": token_for(US), "TERM": "dumb"}
        return {**kept, **user}

    def at_work(self) -> bool:
        """Whether the service has the home: from then on it hears what it is asked."""
        holder = read_presence(self.home).holder
        return holder is not None and holder.pid == self.service.pid

    def kill_service(self) -> None:
        self._require_alive()
        self.service.kill()
        self.service.wait()

    def leave(self) -> None:
        """Ask it to go; agents live on. One that is not at work yet has no ear for it."""
        self._until_at_work()
        self._require_alive()
        self.service.send_signal(signal.SIGTERM)
        if (code := self.service.wait(PATIENCE)) != 0:
            self.surprises.append(f"a service that was asked to leave ended with {code}")

    def _until_at_work(self) -> None:
        end = time.monotonic() + PATIENCE
        while b"Watching" not in self.log.read_bytes()[self._said_before :]:
            assert time.monotonic() < end, "the service does not begin to work"
            if self.service.poll() is not None:
                return
            self.store.wait_for_change(self.store.change_mark(), 0.1)

    def _require_alive(self) -> None:
        if self.service.poll() is not None:
            self.surprises.append(f"a service ended by itself, with {self.service.returncode}")

    # -- what can be seen ---------------------------------------------------------------------

    def look(self, seen: Callable[[World], T]) -> T:
        """Something about GitHub as it is, whatever it shows to others."""
        return self.hub.do(seen)

    def asked(self, **filters: str) -> list[LedgerEntry]:
        """What GitHub was asked for, oldest first."""
        ledger = self.hub.app.pipeline.ledger
        answer = self.look(lambda _: ledger.answer({"limit": str(MOST_ENTRIES), **filters}))
        return [LedgerEntry(**one) for one in answer["entries"]]

    def stamps(self) -> list[dict[str, Any]]:
        """What agents, and those who killed them, have noted, in the order of events."""
        file = self.place / "stamps"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def note(self, **words: Any) -> None:
        """A stamp of our own."""
        with (self.place / "stamps").open("ab", buffering=0) as file:
            file.write((json.dumps(words) + "\n").encode())

    def left(self) -> list[tree.Process]:
        """Processes that have to do with this home."""
        return started_with(str(self.home), "cmdline", "environ")

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for left in self.left():
            ended(left)
        self.store.close()


def ended(process: tree.Process) -> bool:
    """kill -9; whether it was there to be killed."""
    try:
        kill(process)
    except (AssertionError, ProcessLookupError):
        return False
    return True


def settings(root: Path, hub: Running, size: Size) -> str:
    """The settings file. The pool is the narrowest gate; the others are a little wider."""
    agent = [sys.executable, "-I", "-S", str(HERE / "soak_agent.py"), str(root / "place")]
    words = json.dumps([*agent, str(size.together), str(size.in_one)])
    repos = "".join(
        f'[repo.{name}]\nowner = "{OWNER}"\nname = "{name}"\n'
        f'allowed_users = ["{OPERATOR}", "{SPEAKER}"]\noperator_logins = ["{OPERATOR}"]\n'
        f"max_concurrent_slots = {size.in_one}\n\n"
        for name in repositories(size)
    )
    return f"""
[github]
api_url = "{hub.url}"
web_url = "{hub.url}"
token_file = "{root}/token"
request_timeout_seconds = {REQUEST_SECONDS}
budget_percent = 100
idle_feed_every_polls = 2

[runtime]
poll_interval_seconds = {size.poll_seconds}
worker_count = {size.together + 2}
max_global_agents = {size.together}
stop_grace_seconds = 1
memory_floor_mb = 0
disk_floor_mb = 0

[tasks]
max_concurrent_runs = {size.together + 1}

[agent.helper]
kind = "command"
command = {words}

{repos}"""


@contextmanager
def founded(root: Path, size: Size) -> Iterator[Town]:
    """A town for the length of a block; all its processes end with it."""
    access = {US: "write", SPEAKER: "write", OPERATOR: "write", STRANGER: "triage"}
    repos = [
        {"name": f"{OWNER}/{name}", "auto_init": True, "collaborators": access, "labels": LABELS}
        for name in repositories(size)
    ]
    people = [{"login": login} for login in (OPERATOR, SPEAKER, STRANGER, US)]
    users = [{"login": OWNER, "type": "Organization", "members": []}, *people]
    with running({"users": users, "repos": repos}, git=True, **NO_LIMITS) as hub:
        pace = Pace(time.time(), size.speed)
        hub.do(lambda world: setattr(world, "clock", SandboxClock(pace)))
        hub.app.pipeline.ledger = Ledger(keep=MOST_ENTRIES)
        town = _built(hub, root, size, pace)
        try:
            yield town
        finally:
            town.close()


def _built(hub: Running, root: Path, size: Size, pace: Pace) -> Town:
    for folder in ("home", "user", "place/locks", "place/alive", "place/freed"):
        (root / folder).mkdir(parents=True)
    (root / "token").write_text(token_for(US))
    (root / "token").chmod(0o600)
    (root / "hostler.toml").write_text(settings(root, hub, size))
    store = open_or_create_store(root / "home", None, SystemClock())
    ids = hub.do(lambda world: {repo.name: repo.id for repo in world.truth.all(Repo)})
    return Town(hub, root, size, pace, ids, store)
