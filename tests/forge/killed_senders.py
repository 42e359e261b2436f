"""A sender in a process of its own, which stops where a test wants it killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

from hostler.clock import FakeClock
from hostler.forge.actions import Action
from hostler.forge.github.client.credentials import StaticToken
from hostler.forge.github.client.repository import GitHubRepository
from hostler.forge.github.client.transport import HttpTransport
from hostler.forge.github.hub import GitHubHub
from hostler.forge.outbox.rules import OutboxPolicy
from hostler.forge.outbox.sender import OutboxSender
from hostler.forge.port import ActionResult
from hostler.model import RepoName
from hostler.sandbox.auth import token_for
from hostler.store import open_store
from loaded_children import CONTEXT

# A child that never answers must fail the test, not hang it.
PATIENCE = 60.0
US = "bot"


class Child:
    """One process, and a pipe to it."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=work, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def hear(self) -> Any:
        if not self.pipe.poll(PATIENCE):
            raise TimeoutError("the child says nothing")
        return self.pipe.recv()

    def kill(self) -> None:
        """End it as a power cut of the process would."""
        self.process.kill()
        self.process.join(PATIENCE)
        assert self.process.exitcode is not None


class Steps:
    """Counts the steps of a sender, and stops for good at one of them."""

    def __init__(self, pipe: Connection, stop_at: str) -> None:
        self._pipe = pipe
        self._stop_at = stop_at
        self._seen: Counter[str] = Counter()

    def reach(self, step: str) -> None:
        self._seen[step] += 1
        if f"{step} {self._seen[step]}" == self._stop_at:
            self._pipe.send(self._stop_at)
            self._pipe.recv()


class Watched:
    """A forge whose every step can be the last."""

    def __init__(self, forge: GitHubRepository, steps: Steps) -> None:
        self._forge = forge
        self._steps = steps

    def now(self) -> datetime:
        self._steps.reach("ask the time")
        return self._forge.now()

    def perform(self, deed: Action, *, token: str) -> ActionResult:
        self._steps.reach("marked")
        try:
            return self._forge.perform(deed, token=token)
        finally:
            self._steps.reach("posted")

    def find_performed(self, deed: Action, *, token: str, since: datetime) -> ActionResult | None:
        self._steps.reach("looking")
        found = self._forge.find_performed(deed, token=token, since=since)
        self._steps.reach("looked")
        return found


def send_until(pipe: Connection, home: Path, url: str, name: str, at: datetime, stop: str) -> None:
    """Send everything, letting our clock and GitHub's pass; stop for good at one step."""
    clock, steps = FakeClock(at), Steps(pipe, stop)
    wire = HttpTransport(url, clock)
    hub = GitHubHub(wire, StaticToken(wire, lambda: token_for(US)), clock, pauses=(0.0, 0.0))
    forge = Watched(hub.repo(RepoName.parse(name)), steps)
    store = open_store(home, clock=clock)
    sender = OutboxSender(
        store,
        lambda repo: forge,  # type: ignore[arg-type,return-value]
        clock,
        OutboxPolicy(),
        settled=lambda tx, row: steps.reach("storing"),
    )
    while (until := sender.send_due()) is not None:
        steps.reach("waiting")
        wait = (until - clock.now()).total_seconds()
        httpx.post(f"{url}/_sandbox/clock", json={"advance": wait}, trust_env=False)
        clock.advance(wait)
    steps.reach("stored")
    pipe.send("reached the end")
