"""A sandbox repository that is polled, and a record of what each poll requests."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from github_fixture import SandboxRepo
from sqlalchemy import select

from hostler.forge.github.polling.context import PollContext, PollObserver, ignore_steps
from hostler.forge.github.polling.poller import Poller, PollPlan, ScanResult
from hostler.model import Surface
from hostler.sandbox.state.entities import Issue
from hostler.sandbox.state.seed import Seeder
from hostler.store import Store
from hostler.store.pull_requests import PullRow, PullStatus, add_pull, change_pull, find_pull
from hostler.store.schema import inbox

# What a client asks on its own account, whoever uses it.
ASIDE = ("/rate_limit", "/user")


class PolledRepo:
    """One home's eyes on a house. Several may look at the same house."""

    def __init__(self, sandbox_repo: SandboxRepo, store: Store, **plan: Any) -> None:
        self.sandbox_repo = sandbox_repo
        self.store = store
        self.observe: PollObserver = ignore_steps
        self.plan = PollPlan(**plan)
        self.wake()

    def wake(self) -> None:
        """A new service: nothing is remembered but what is stored."""
        tap = PollContext(
            self.store, self.sandbox_repo.forge, self.sandbox_repo.name, observe=self._observe
        )
        self.tap = tap
        self.poller = Poller(tap, self.plan)

    def _observe(self, step: str, what: str) -> None:
        self.observe(step, what)

    def follow(self, number: int, status: PullStatus = PullStatus.AWAITING_FEEDBACK) -> None:
        """Know a pull request as ours."""
        head = self.sandbox_repo.do("GET", f"pulls/{number}")["head"]["sha"]
        row = PullRow(
            str(self.sandbox_repo.name), number, 1, f"task-{number}", "topic", status, head
        )
        with self.store.write() as tx:
            add_pull(tx, row)

    def now_is(self, number: int, status: PullStatus) -> None:
        """A pull request stands otherwise with us."""
        with self.store.write() as tx:
            known = find_pull(tx, self.sandbox_repo.name, number)
            assert known is not None
            change_pull(tx, known, replace(known, status=status))

    def poll(self) -> ScanResult:
        return self.poller.poll()

    def asked(self) -> list[tuple[str, int]]:
        """One poll: what it asked GitHub (path below the repository, status)."""
        self.sandbox_repo.sandbox.app.pipeline.ledger.clear()
        self.poll()
        root = f"/repos/{self.sandbox_repo.name}/"
        rows = [row for row in self.sandbox_repo.ledger() if row["path"] not in ASIDE]
        return [(row["path"].removeprefix(root), row["status"]) for row in rows]

    def settle(self) -> None:
        """Poll until nothing is owed and every address is known."""
        for _ in range(12):
            self.sandbox_repo.pass_time(30)
            self.poll()

    def keys(self, *kinds: str) -> set[str]:
        """Event keys in the inbox; of some kinds."""
        with self.store.read() as tx:
            chosen = select(inbox.c.kind, inbox.c.event_key).where(
                inbox.c.repo_full_name == str(self.sandbox_repo.name)
            )
            found = tx.execute(chosen).all()
        return {key for kind, key in found if not kinds or kind in kinds}

    def bodies(self, kind: str) -> list[str]:
        """What was said, in the order of arrival."""
        with self.store.read() as tx:
            chosen = (
                select(inbox.c.payload)
                .where(inbox.c.repo_full_name == str(self.sandbox_repo.name), inbox.c.kind == kind)
                .order_by(inbox.c.sequence)
            )
            return [json.loads(text)["body"] for text in tx.execute(chosen).scalars()]

    def cursor(self, surface: Surface, number: int = 0):
        with self.store.read() as tx:
            return self.store.repo(self.sandbox_repo.name).get_poll_cursor(tx, surface, number)


def chatter(sandbox_repo: SandboxRepo, number: int, count: int, *, seconds: int = 0) -> None:
    """Comments on a thread, said over so many seconds before now."""
    world = sandbox_repo.sandbox.app.world
    seeder = Seeder(world)
    repo = world.repo(str(sandbox_repo.name))
    issue = next(i for i in world.truth.all(Issue) if i.repo_id == repo.id and i.number == number)
    with world.hiding(0):
        for place in range(count):
            at = world.now() - seconds + (place * seconds) // max(count, 1)
            seeder.comment(issue, "alice", f"word {place}", created_at=at, updated_at=at)
