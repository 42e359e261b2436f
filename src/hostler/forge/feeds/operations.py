"""The operations issue when it is first read: what it holds then is history, and causes nothing."""

from __future__ import annotations

from hostler.forge.feeds.cursors import start
from hostler.forge.feeds.inbox import ingest
from hostler.forge.feeds.pulls import MISSING
from hostler.forge.feeds.surfaces import Drawn, advance, find, told
from hostler.forge.feeds.tap import Tap
from hostler.forge.feeds.threads import ThreadRead
from hostler.forge.port import Feed, ItemKind
from hostler.model import Surface
from hostler.store.inbox import consume_inbox_rows, pending_inbox_rows
from hostler.store.pull_requests import find_pull
from hostler.store.tasks import tasks_of_issue
from hostler.store.transaction import Transaction

SURFACE = Surface.ISSUE_OPERATOR_COMMANDS


class Operations:
    """Asks for the first reading of a repository's operations issue until it has come through.

    One that is not there is asked for again when anything of the repository has changed.
    """

    def __init__(self, tap: Tap, number: int) -> None:
        self._tap = tap
        self._number = number
        self._asks = bool(number)
        self._missing = False

    def begin(self) -> ThreadRead:
        """Read it for the first time, if that is to be done."""
        if not self._asks or self._missing:
            return ThreadRead(gone=self._missing)
        found = begin_operations(self._tap, self._number)
        self._asks, self._missing = found.gone, found.gone
        return found

    def touched(self) -> None:
        """Something of the repository has changed."""
        self._missing = False


def begin_operations(tap: Tap, number: int) -> ThreadRead:
    """Read the whole issue once, store all of it as heard, and begin its cursor at the newest."""
    with tap.store.read() as tx:
        place = find(tx, tap, SURFACE, number)
    if place.cursor is not None:
        return ThreadRead()
    with tap.polling(SURFACE):
        try:
            reading = tap.forge.changes(Feed.THREAD_COMMENTS, None, number=number)
        except MISSING:
            return ThreadRead(gone=True)
        me = tap.forge.myself()
    found = Drawn(place, start(None, tap.forge.now(), tap.window), reading)
    tap.observe("read", SURFACE)
    with tap.store.write(*tap.scopes) as tx:
        ingested = ingest(tx, tap.repo, me, reading.items, tap.settled)
        _leave_unheard(tx, tap, number)
        advance(tx, tap, place, found.after)
    told(tap, Drawn(place, found.mark, reading, ingested))
    return ThreadRead(ingested)


def _leave_unheard(tx: Transaction, tap: Tap, number: int) -> None:
    """What was said before; on a task's own thread it is for the task, and was heard as such."""
    if tasks_of_issue(tx, tap.repo, number) or find_pull(tx, tap.repo, number):
        return
    rows = pending_inbox_rows(tx, tap.repo, number)
    said = [row.event_key for row in rows if row.kind == ItemKind.ISSUE_COMMENT]
    consume_inbox_rows(tx, tap.repo, said)
