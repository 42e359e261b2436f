"""Threads of the inbox in which nothing happens any more."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hostler.config.repos import full_name
from hostler.forge.feeds.cadence import REST, TRIPWIRE
from hostler.forge.port import ItemKind
from hostler.intake.signals import IssueSeen, PullSeen, read
from hostler.model import RepoName, Surface
from hostler.service.gc.premises import Premises
from hostler.service.gc.report import Found, Kind
from hostler.service.gc.rules import ThreadFacts, floor, judge_thread
from hostler.service.parts import window
from hostler.store.repositories import Repo
from hostler.store.retention import (
    OldThread,
    Thread,
    look_at_threads,
    newest_shown,
    remove_threads,
    threads_after,
)
from hostler.store.transaction import Transaction

PAGE = 100
# Which feed shows which kind of event.
SHOWN_BY = {
    ItemKind.ISSUE.value: Surface.REPO_ISSUES,
    ItemKind.ISSUE_COMMENT.value: Surface.REPO_ISSUE_COMMENTS,
    ItemKind.REVIEW_COMMENT.value: Surface.REPO_REVIEW_COMMENTS,
}
assert set(SHOWN_BY.values()) == {TRIPWIRE, *REST}, "every feed has its floor"


@dataclass(frozen=True, slots=True)
class Inbox:
    """All threads. Floors only rise, so that each is asked for once."""

    at: Premises
    kind: Kind = Kind.INBOX
    floors: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def look(self) -> Iterator[list[Found]]:
        after: Thread = ("", -1)
        while True:
            with self.at.store.read() as tx:
                page = threads_after(tx, after, PAGE)
                if not page:
                    return
                found = self._found(tx, page)
            yield found
            after = page[-1]

    def remove(self, going: Sequence[Found]) -> list[Found]:
        with self.at.removing() as (tx, _):
            found = self._found(tx, [one.key for one in going])
            remove_threads(tx, [one.key for one in found if one.goes])
        return found

    def _found(self, tx: Transaction, threads: Collection[Thread]) -> list[Found]:
        return [self._judged(tx, thread) for thread in look_at_threads(tx, threads)]

    def _judged(self, tx: Transaction, old: OldThread) -> Found:
        repo, number = old.thread
        why = judge_thread(self._facts(old), self.at.limit, self._floors(tx, repo))
        size = 0 if why else old.size
        return Found(f"{repo}#{number}", size, why, key=old.thread)

    def _facts(self, old: OldThread) -> ThreadFacts:
        return ThreadFacts(
            stamps=(old.last, *old.shown.values()),
            shown=old.shown,
            pending=old.pending,
            open=_is_open(old),
            watched_pull=old.watched_pull,
            words=old.words,
            tasks=tuple(
                state
                for task, state in old.tasks.items()
                if not self.at.going.has(Kind.TASKS, task)
            ),
            commanded=old.commanded,
            operations=old.thread in self._operations(),
        )

    def _operations(self) -> set[Thread]:
        repos = self.at.settings.repo.values()
        return {(str(full_name(repo)), repo.operations_issue_number) for repo in repos}

    def _floors(self, tx: Transaction, repo: str) -> Mapping[str, str]:
        if repo not in self.floors:
            newest, reach = newest_shown(tx, repo), window(self.at.settings.runtime)
            rows = Repo(RepoName.parse(repo))
            self.floors[repo] = {
                kind: floor(rows.get_poll_cursor(tx, surface, 0), newest, self.at.now, reach)
                for kind, surface in SHOWN_BY.items()
            }
        return self.floors[repo]


def _is_open(old: OldThread) -> bool | None:
    """Whether it is open as last seen; None: nothing has said so."""
    newest = max(old.telling, key=lambda row: (row.updated_at, row.sequence), default=None)
    seen = read(newest) if newest is not None else None
    if isinstance(seen, IssueSeen | PullSeen):
        return seen.is_open
    # What cannot be read might be anything.
    return None if newest is None else True
