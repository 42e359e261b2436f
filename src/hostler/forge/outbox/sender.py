"""The one sender: does what the rules choose, each step in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from hostler.clock import Clock
from hostler.errors import ForgeError, Unclear
from hostler.forge.deeds import Deed, unpack
from hostler.forge.outbox.rules import (
    Abandon,
    Absent,
    Look,
    Outcome,
    Pace,
    Payer,
    Send,
    Wait,
    abandoned,
    after,
    broken,
    choose,
    everybody,
    is_limited,
    look_since,
    mark,
)
from hostler.forge.outbox.settling import Settled, ignore, settle
from hostler.forge.port import Forge
from hostler.model import RepoName
from hostler.store.outbox import OutboxRow, WriteState, change_write, find_write, open_writes
from hostler.store.store import Store

SCOPE = "outbox"
# Which forge speaks for a repository; None: nobody does now, its writes wait.
Forges = Callable[[RepoName], Forge | None]
# Which tokens a sender is for; the others wait for another one.
Only = Callable[[str], bool]
# Which account writes to a repository. It may ask GitHub.
Account = Callable[[RepoName], str]


class Act(StrEnum):
    """What has just been done with a write. For tests that kill in between."""

    MARKED = "marked"
    MADE = "made"
    STORED = "stored"


Observer = Callable[[Act, str], None]


def nobody(_act: Act, _token: str) -> None:
    """Observes nothing."""


def every_token(_token: str) -> bool:
    """A sender for everything."""
    return True


def one_account(_repo: RepoName) -> str:
    """All writes are of one account."""
    return ""


class Sender:
    """Sends what is due. One at a time per home; it needs no recovery of its own after a crash."""

    def __init__(
        self,
        store: Store,
        forges: Forges,
        clock: Clock,
        pace: Pace | None = None,
        settled: Settled = ignore,
        only: Only = every_token,
        observe: Observer = nobody,
        scopes: tuple[str, ...] = (),
        account: Account = one_account,
    ) -> None:
        """`scopes`: what `settled` writes beside the outbox; `account`: who writes to where."""
        self._account = account
        self._scopes = (SCOPE, *scopes)
        self._store = store
        self._forges = forges
        self._clock = clock
        self._pace = pace or Pace()
        self._settled = settled
        self._only = only
        self._observe = observe
        self._last_write: datetime | None = None

    def send_due(self) -> datetime | None:
        """Do everything that is due now; when to call again, None if nothing waits."""
        while True:
            with self._store.read() as tx:
                rows = [row for row in open_writes(tx) if self._is_ours(row)]
            payer = self._payer(rows)
            match choose(rows, self._clock.now(), self._last_write, self._pace, payer):
                case Wait(until):
                    return until
                case Abandon(row):
                    self._end(abandoned(row))
                case Send(row) | Look(row) as choice:
                    self._act(row, looking=isinstance(choice, Look))

    def _payer(self, rows: list[OutboxRow]) -> Payer:
        """Whose limit each write would meet; asked for only where somebody has met one."""
        if not any(is_limited(row) for row in rows):
            return everybody
        accounts = {row.repo: self._account_of(row.repo) for row in rows}
        return lambda row: accounts[row.repo]

    def _account_of(self, repo: RepoName) -> str:
        try:
            return self._account(repo)
        except ForgeError:
            # Who it would be cannot be told: it is held back by itself alone.
            return str(repo)

    def _is_ours(self, row: OutboxRow) -> bool:
        return self._forges(row.repo) is not None and self._only(row.token)

    def _act(self, row: OutboxRow, *, looking: bool) -> None:
        try:
            deed = unpack(row.kind, row.payload)
        except Exception as error:  # whatever it is, it is this row's alone
            self._end(broken(row, f"{type(error).__name__}: {error}"))
            return
        if looking:
            # One that a crash left behind as sending is as unclear as the others.
            unclear = replace(row, state=WriteState.UNCLEAR)
            self._settle(unclear, self._look(unclear, deed))
        else:
            self._send(row, deed)

    def _send(self, row: OutboxRow, deed: Deed) -> None:
        forge = self._forge(row)
        try:
            at = forge.now()
        except ForgeError as error:
            self._settle(row, error)
            return
        marked = self._mark(row, at)
        if marked is None:
            return
        self._observe(Act.MARKED, row.token)
        self._last_write = self._clock.now()
        outcome = _outcome(row, lambda: forge.make(deed, key=row.token))
        self._observe(Act.MADE, row.token)
        self._settle(marked, outcome)

    def _look(self, row: OutboxRow, deed: Deed) -> Outcome:
        forge = self._forge(row)

        def look() -> Outcome:
            # The time first: what becomes visible while we look is not believed absent.
            at = forge.now()
            found = forge.find(deed, key=row.token, since=look_since(row, self._pace))
            return found or Absent(at)

        return _outcome(row, look)

    def _mark(self, row: OutboxRow, at: datetime) -> OutboxRow | None:
        """Store the intent; None if the write has moved on meanwhile (a feed showed it)."""
        with self._store.write(*self._scopes) as tx:
            present = find_write(tx, row.repo, row.token)
            if present is None or present.state is not WriteState.QUEUED:
                return None
            marked = mark(present, at, tx.now(), self._pace)
            change_write(tx, present, marked)
            return marked

    def _settle(self, row: OutboxRow, outcome: Outcome) -> None:
        self._keep(row, outcome)
        self._observe(Act.STORED, row.token)

    def _keep(self, row: OutboxRow, outcome: Outcome) -> None:
        """Store what became of a write, unless a feed has settled it meanwhile."""
        with self._store.write(*self._scopes) as tx:
            present = find_write(tx, row.repo, row.token)
            if present is None or present.settled:
                return
            done = after(replace(present, state=row.state), outcome, tx.now(), self._pace)
            seen = outcome if row.state is WriteState.UNCLEAR else None
            settle(tx, present, done, self._settled, seen=seen)

    def _end(self, failed: OutboxRow) -> None:
        with self._store.write(*self._scopes) as tx:
            present = find_write(tx, failed.repo, failed.token)
            if present is not None and not present.settled:
                settle(tx, present, failed, self._settled)

    def _forge(self, row: OutboxRow) -> Forge:
        forge = self._forges(row.repo)
        assert forge is not None, "only writes of known repositories are chosen"
        return forge


def _outcome(row: OutboxRow, act: Callable[[], Outcome]) -> Outcome:
    try:
        return act()
    except ForgeError as error:
        return error
    except Exception as error:  # a defect must neither repeat a write nor stop the others
        return Unclear(f"{row.kind} {row.token}", f"{type(error).__name__}: {error}")
