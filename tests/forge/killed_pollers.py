"""A poll in a process of its own, which stops where a test wants it killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hostler.clock import FakeClock
from hostler.forge.github.client.credentials import StaticToken
from hostler.forge.github.client.transport import HttpTransport
from hostler.forge.github.hub import GitHubHub
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.poller import Poller, PollPlan
from hostler.model import RepoName
from hostler.sandbox.auth import token_for
from hostler.store import Store, open_store

US = "bot"


class Steps:
    """Counts steps, and stops for good at one of them."""

    def __init__(self, pipe: Connection, stop_at: int) -> None:
        self._pipe = pipe
        self._left = stop_at

    def reach(self, step: str) -> None:
        self._left -= 1
        if self._left == 0:
            self._pipe.send(step)
            self._pipe.recv()


def poll_until(pipe: Connection, home: Path, url: str, name: str, at: datetime, stop: int) -> None:
    """One poll; stop for good at a step, or say that all of it was done."""
    clock, steps = FakeClock(at), Steps(pipe, stop)
    wire = HttpTransport(url, clock)
    hub = GitHubHub(wire, StaticToken(wire, lambda: token_for(US)), clock, pauses=(0.0, 0.0))
    repo = RepoName.parse(name)
    store = open_store(home, clock=clock)
    written = Store.write

    @contextmanager
    def write(self: Store, *scopes: str, **how: Any) -> Iterator[Any]:
        with written(self, *scopes, **how) as tx:
            yield tx
            steps.reach("written, not committed")

    def observe(step: str, what: str) -> None:
        steps.reach(f"{step} {what}")

    with patch.object(Store, "write", write):
        Poller(
            PollContext(store, hub.repo(repo), repo, observe=observe), PollPlan(runs=True)
        ).poll()
    pipe.send("reached the end")
