"""Several homes with different feeds that look at one repository in memory, at the same moments."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fake_forge import FakeForge
from sqlalchemy import select

from hostler.clock import FakeClock
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.poller import Poller, PollPlan
from hostler.store import Store, open_store
from hostler.store.pull_requests import PullRow, PullStatus, add_pull, change_pull, find_pull
from hostler.store.schema import inbox

REMARKS = ("issue_comment", "review_comment", "review")


class Killed(Exception):
    """A process that ends in the middle of a poll, as far as one process can play that."""


class Home:
    """One home."""

    def __init__(self, hub: FakeForge, store: Store, plan: PollPlan) -> None:
        self.hub = hub
        self.store = store
        self.plan = plan
        self.steps_left: int | None = None
        self.wake()

    def wake(self) -> None:
        self.poller = Poller(
            PollContext(self.store, self.hub, self.hub.name, observe=self._step), self.plan
        )

    def _step(self, _step: str, _what: str) -> None:
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                self.steps_left = None
                raise Killed

    def poll(self, dies_after: int | None = None) -> None:
        """One poll; one that dies is begun again by the next service."""
        self.steps_left = dies_after
        try:
            self.poller.poll()
        except Killed:
            self.wake()
            self.poller.poll()
        self.steps_left = None

    def follow(self, number: int) -> None:
        row = PullRow(
            str(self.hub.name), number, 1, f"t{number}", "b", PullStatus.AWAITING_FEEDBACK
        )
        with self.store.write() as tx:
            add_pull(tx, row)

    def stands(self, number: int, status: PullStatus) -> None:
        with self.store.write() as tx:
            known = find_pull(tx, self.hub.name, number)
            assert known is not None
            change_pull(tx, known, replace(known, status=status))

    def rows(self) -> list[tuple[str, int]]:
        """Event keys of what was said on threads that are followed, with their numbers."""
        chosen = select(inbox.c.event_key, inbox.c.scope_number).where(inbox.c.kind.in_(REMARKS))
        with self.store.read() as tx:
            return [(key, number) for key, number in tx.execute(chosen)]


@contextmanager
def fleet(template: Path, **plans: PollPlan) -> Iterator[tuple[FakeForge, dict[str, Home]]]:
    """A repository, and a home for each plan."""
    clock = FakeClock()
    hub = FakeForge(clock)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        homes = {}
        for name, plan in plans.items():
            home = Path(folder) / name
            home.mkdir()
            shutil.copy(template, home / template.name)
            store = stack.enter_context(closing(open_store(home, clock=clock)))
            homes[name] = Home(hub, store, plan)
        yield hub, homes
