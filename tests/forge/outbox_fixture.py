"""A sandbox repository, a store and an outbox sender between them."""

from __future__ import annotations

from typing import Any

from github_fixture import SandboxRepo

from hostler.forge.actions import Action, CreateComment
from hostler.forge.outbox.queue import enqueue_action
from hostler.forge.outbox.rules import OutboxPolicy
from hostler.forge.outbox.sender import OutboxSender
from hostler.store import Store, Transaction
from hostler.store.outbox import Lane, OutboxRow, WriteState, find_write

MANY = 200


class Post:
    """Queues deeds, sends them, and lets time pass until nothing waits."""

    def __init__(
        self, sandbox_repo: SandboxRepo, store: Store, pace: OutboxPolicy | None = None
    ) -> None:
        self.sandbox_repo = sandbox_repo
        self.store = store
        self.settled: list[tuple[str, WriteState]] = []
        self.pace = pace or OutboxPolicy()
        self.sender = self.new_sender()

    def new_sender(self) -> OutboxSender:
        """As after a restart."""
        return OutboxSender(
            self.store,
            self.sandbox_repo.hub.repo,
            self.sandbox_repo.clock,
            self.pace,
            settled=self.note,
        )

    def note(self, _tx: Transaction, row: OutboxRow) -> None:
        self.settled.append((row.token, row.state))

    def queue(self, deed: Action, token: str = "t1", lane: Lane = Lane.STATUS, **more: Any) -> None:
        with self.store.write("outbox") as tx:
            enqueue_action(
                tx, self.sandbox_repo.name, deed, token=token, lane=lane, source="test", **more
            )

    def say(self, number: int, token: str = "t1", **more: Any) -> None:
        self.queue(CreateComment(number, f"text of {token}"), token, **more)

    def row(self, token: str = "t1") -> OutboxRow:
        with self.store.read() as tx:
            found = find_write(tx, self.sandbox_repo.name, token)
        assert found is not None
        return found

    def token(self, token: str = "t1"):
        with self.store.read() as tx:
            return self.store.repo(self.sandbox_repo.name).get_action_token(tx, token)

    def drain(self) -> int:
        """Send until nothing waits; how often time had to pass."""
        for turn in range(MANY):
            until = self.sender.send_due()
            if until is None:
                return turn
            wait = (until - self.sandbox_repo.clock.now()).total_seconds()
            assert wait > 0, "the sender says that it has work now, and does not do it"
            self.sandbox_repo.pass_time(wait)
        raise AssertionError("the outbox does not come to rest")
