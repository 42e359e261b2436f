"""A repository in memory whose operators speak, and who carries out what they say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from intake_yard import ALLOWED, Yard, database

from hostler.clock import FakeClock
from hostler.config.settings import Agent, Repo, Settings
from hostler.forge.github.hub import GitHubHub
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.poller import Poller, PollPlan
from hostler.intake.process import ProcessResult
from hostler.service.context import AppContext
from hostler.service.operator_commands.executor import CommandExecutor
from hostler.service.operator_commands.targets import CommandContext
from hostler.store import Store
from hostler.store.operator import CommandRow, CommandStatus, commands_in
from hostler.store.outbox import OutboxRow, open_writes
from hostler.workflows.effects import handle_settled_write
from hostler.workflows.ingest import ingest_events

OLGA, STRANGER, BOT = "Olga", "mallory", "renovate[bot]"


@dataclass(frozen=True)
class Reply:
    """What is about to be said on GitHub."""

    number: int
    body: str
    lane: str
    token: str


class Bench(Yard):
    """A yard with an operator, olga, and an operations issue."""

    def __init__(self, store: Store, clock: FakeClock, home: Path) -> None:
        super().__init__(store, clock)
        self.operations = self.hub.file_issue("Operations", by="ann")
        settings = Settings(
            repo={
                "stable": Repo(
                    owner=self.name.owner,
                    name=self.name.name,
                    allowed_users=list(ALLOWED),
                    operator_logins=["olga"],
                    operations_issue_number=self.operations,
                )
            },
            agent={"helper": Agent(kind="command", command=["true"])},
        )
        self.watch = replace(
            self.watch, operators=frozenset({"olga"}), operations_issue=self.operations
        )
        hub = cast(GitHubHub, SimpleNamespace(repo=lambda _: self.hub))
        self.post = CommandContext(AppContext(home, settings, store, hub), self.watch)
        self.wake()

    def wake(self) -> None:
        """A new service: nothing is remembered but what is stored."""
        tap = PollContext(
            self.store,
            self.hub,
            self.name,
            settled=handle_settled_write,
            scopes=("outbox", "tasks"),
        )
        self.poller = Poller(tap, PollPlan(operations=self.operations))
        self.operator = CommandExecutor(self.post)

    def poll(self) -> ProcessResult:
        """What a look does: GitHub into the inbox, the inbox into rows, and commands obeyed."""
        self.tick()
        self.poller.poll()
        taken = ingest_events(self.store, self.hub, self.watch)
        self.operator.execute_pending(taken)
        return taken

    def command(self, number: int, text: str, by: str = OLGA) -> int:
        comment = self.say(number, text, by)
        self.poll()
        return comment

    def rows(self) -> list[CommandRow]:
        with self.store.read() as tx:
            return commands_in(tx, self.name, tuple(CommandStatus))

    def row(self) -> CommandRow:
        return max(self.rows(), key=lambda row: (row.said_at, row.comment_id))

    def replies(self) -> list[Reply]:
        """Every reply that waits to be sent, but for status comments."""
        with self.store.read() as tx:
            writes = [row for row in open_writes(tx) if row.kind == "comment"]
        found = [_reply(row) for row in writes]
        return [one for one in found if not one.token.startswith("status:")]

    def last(self) -> str:
        return self.replies()[-1].body


def _reply(row: OutboxRow) -> Reply:
    return Reply(row.scope_number, json.loads(row.payload)["body"], row.lane, row.token)


@contextmanager
def bench(home: Path, *, begun: bool = True) -> Iterator[Bench]:
    """`begun`: the service has looked at the repository before anybody speaks."""
    clock = FakeClock()
    with database(clock) as store:
        made = Bench(store, clock, home)
        if begun:
            made.poll()
        yield made
