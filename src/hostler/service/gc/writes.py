"""Settled writes to GitHub: gone, or without their text where they tell which comment is ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hostler.forge.feeds.ours import MADE_BY
from hostler.forge.port import ItemKind
from hostler.service.gc.premises import Premises
from hostler.service.gc.report import Found, Kind
from hostler.service.gc.rules import WriteFacts, judge_write, keeps_row
from hostler.store.dependencies import tasks_named
from hostler.store.retention import (
    OldWrite,
    empty_writes,
    remove_writes,
    tasks_of_threads,
    writes_before,
    writes_named,
)
from hostler.store.tasks import TaskState
from hostler.store.transaction import Transaction

PAGE = 200
# Writes that speak, by kind, with all whose results are comments of the same sort. What we open
# (issues, pull requests) is news all the same when it is seen.
ALIKE = {
    kind: MADE_BY[made]
    for made in (ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT)
    for kind in MADE_BY[made]
}


@dataclass(frozen=True, slots=True)
class Outbox:
    """Writes that were queued before the limit."""

    at: Premises
    kind: Kind = Kind.OUTBOX

    def look(self) -> Iterator[list[Found]]:
        after = 0
        while True:
            with self.at.store.read() as tx:
                page = writes_before(tx, self.at.limit, after, PAGE, ALIKE)
                if not page:
                    return
                facts = self._facts(tx, page)
            yield [_found(row, facts[row.sequence], self.at.limit) for row in page]
            after = page[-1].sequence

    def remove(self, going: Sequence[Found]) -> list[Found]:
        with self.at.removing() as (tx, _):
            page = writes_named(tx, [one.key for one in going], ALIKE)
            facts = self._facts(tx, page)
            found = {row: _found(row, facts[row.sequence], self.at.limit) for row in page}
            leaving = [row for row, one in found.items() if one.goes]
            empty_writes(tx, [row for row in leaving if keeps_row(facts[row.sequence])])
            remove_writes(tx, [row for row in leaving if not keeps_row(facts[row.sequence])])
        return list(found.values())

    def _facts(self, tx: Transaction, page: Sequence[OldWrite]) -> dict[int, WriteFacts]:
        owners = self._owners(tx, page)
        return {
            row.sequence: WriteFacts(
                settled=row.settled,
                stamps=(row.updated_at,),
                speaks=row.kind in ALIKE,
                superseded=row.superseded,
                bare=row.bare,
                needed=row.needed,
                tasks=tuple(
                    state
                    for task, state in owners[row.sequence].items()
                    if not self.at.going.has(Kind.TASKS, task)
                ),
            )
            for row in page
        }

    def _owners(
        self, tx: Transaction, page: Sequence[OldWrite]
    ) -> dict[int, Mapping[str, TaskState]]:
        """The tasks of each write: by its thread, and by its token."""
        by_thread = tasks_of_threads(tx, [(row.repo_full_name, row.scope_number) for row in page])
        named = tasks_named(tx, {task_in(row.token) for row in page})
        states = {name: facts.state for name, facts in named.items()}
        return {
            row.sequence: {
                **by_thread.get((row.repo_full_name, row.scope_number), {}),
                **{name: states[name] for name in (task_in(row.token),) if name in states},
            }
            for row in page
        }


def task_in(token: str) -> str:
    """The task that a token names: `pull:<task>:<turn>`; nothing for others."""
    return token.partition(":")[2].rpartition(":")[0]


def _found(row: OldWrite, facts: WriteFacts, limit: str) -> Found:
    name = f"{row.repo_full_name} {row.token}"
    why = judge_write(facts, limit)
    detail = "its text alone" if why is None and keeps_row(facts) else ""
    return replace(
        Found(name, detail=detail, key=row.sequence), why=why, size=0 if why else row.size
    )
