"""Send queued writes, each step in its own transaction, and wait until some are settled."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from hostler.clock import Clock
from hostler.errors import ForgeError, HomeLocked, Unclear
from hostler.forge.actions import Action, decode_action
from hostler.forge.outbox.queue import SettledWrite, ignore_settled, settle_write
from hostler.forge.outbox.rules import (
    AbandonStep,
    AccountOfRow,
    LookupStep,
    NotFoundOutcome,
    OutboxPolicy,
    SendOutcome,
    SendStep,
    WaitStep,
    apply_outcome,
    choose_step,
    is_rate_limited,
    lookup_since,
    mark_abandoned,
    mark_attempt,
    mark_unreadable,
    same_account,
)
from hostler.forge.port import Forge
from hostler.model import RepoName
from hostler.store.engine.locks import home_lock
from hostler.store.outbox import OutboxRow, WriteState, change_write, find_write, open_writes
from hostler.store.store import Store

OUTBOX_SCOPE = "outbox"
# Return the client of a repository; None: not configured now, its writes wait.
ForgeLookup = Callable[[RepoName], Forge | None]
# Return whether this sender handles a token; other writes wait for another sender.
TokenFilter = Callable[[str], bool]
# Return the account that writes to a repository. May ask GitHub.
AccountLookup = Callable[[RepoName], str]


class SendStage(StrEnum):
    """Reported after each step of a write, for tests that crash in between."""

    MARKED = "marked"
    MADE = "made"
    STORED = "stored"


StageObserver = Callable[[SendStage, str], None]


def ignore_stages(_act: SendStage, _token: str) -> None:
    """Do nothing."""


def accept_every_token(_token: str) -> bool:
    """Accept all tokens."""
    return True


def single_account(_repo: RepoName) -> str:
    """Return one account for all repositories."""
    return ""


class OutboxSender:
    """Sends due writes. One at a time per home; needs no recovery after a crash."""

    def __init__(
        self,
        store: Store,
        forges: ForgeLookup,
        clock: Clock,
        policy: OutboxPolicy | None = None,
        settled: SettledWrite = ignore_settled,
        only: TokenFilter = accept_every_token,
        observe: StageObserver = ignore_stages,
        scopes: tuple[str, ...] = (),
        account: AccountLookup = single_account,
    ) -> None:
        """`scopes`: what `settled` writes besides the outbox; `account`: who writes to a repo."""
        self._account = account
        self._scopes = (OUTBOX_SCOPE, *scopes)
        self._store = store
        self._forges = forges
        self._clock = clock
        self._pace = policy or OutboxPolicy()
        self._settled = settled
        self._only = only
        self._observe = observe
        self._last_write: datetime | None = None

    def send_due(self) -> datetime | None:
        """Do all due steps. Return when to call again, or None if nothing is queued."""
        while True:
            with self._store.read() as tx:
                rows = [row for row in open_writes(tx) if self._is_ours(row)]
            account_of = self._account_lookup(rows)
            match choose_step(rows, self._clock.now(), self._last_write, self._pace, account_of):
                case WaitStep(until):
                    return until
                case AbandonStep(row):
                    self._store_failure(mark_abandoned(row))
                case SendStep(row) | LookupStep(row) as choice:
                    self._do_step(row, is_lookup=isinstance(choice, LookupStep))

    def _account_lookup(self, rows: list[OutboxRow]) -> AccountOfRow:
        """Return a lookup of accounts; GitHub is asked only if a write was rate limited."""
        if not any(is_rate_limited(row) for row in rows):
            return same_account
        accounts = {row.repo: self._account_of(row.repo) for row in rows}
        return lambda row: accounts[row.repo]

    def _account_of(self, repo: RepoName) -> str:
        try:
            return self._account(repo)
        except ForgeError:
            # The account is unknown: a limit then applies to this repository alone.
            return str(repo)

    def _is_ours(self, row: OutboxRow) -> bool:
        return self._forges(row.repo) is not None and self._only(row.token)

    def _do_step(self, row: OutboxRow, *, is_lookup: bool) -> None:
        try:
            action = decode_action(row.kind, row.payload)
        except Exception as error:  # whatever it is, it concerns only this row
            self._store_failure(mark_unreadable(row, f"{type(error).__name__}: {error}"))
            return
        if is_lookup:
            # After a crash, a write in the state `sending` is unclear too.
            unclear = replace(row, state=WriteState.UNCLEAR)
            self._settle(unclear, self._find_write(unclear, action))
        else:
            self._send(row, action)

    def _send(self, row: OutboxRow, action: Action) -> None:
        forge = self._forge(row)
        try:
            at = forge.now()
        except ForgeError as error:
            self._settle(row, error)
            return
        marked_row = self._mark_sending(row, at)
        if marked_row is None:
            return
        self._observe(SendStage.MARKED, row.token)
        self._last_write = self._clock.now()
        outcome = _outcome_of(row, lambda: forge.perform(action, token=row.token))
        self._observe(SendStage.MADE, row.token)
        self._settle(marked_row, outcome)

    def _find_write(self, row: OutboxRow, action: Action) -> SendOutcome:
        forge = self._forge(row)

        def find_it() -> SendOutcome:
            # Read the time first: a write that appears during the lookup must not count as absent.
            at = forge.now()
            found = forge.find_performed(
                action, token=row.token, since=lookup_since(row, self._pace)
            )
            return found or NotFoundOutcome(at)

        return _outcome_of(row, find_it)

    def _mark_sending(self, row: OutboxRow, at: datetime) -> OutboxRow | None:
        """Store the intent; None if the write has changed meanwhile (a poll found it)."""
        with self._store.write(*self._scopes) as tx:
            present = find_write(tx, row.repo, row.token)
            if present is None or present.state is not WriteState.QUEUED:
                return None
            marked_row = mark_attempt(present, at, tx.now(), self._pace)
            change_write(tx, present, marked_row)
            return marked_row

    def _settle(self, row: OutboxRow, outcome: SendOutcome) -> None:
        self._store_outcome(row, outcome)
        self._observe(SendStage.STORED, row.token)

    def _store_outcome(self, row: OutboxRow, outcome: SendOutcome) -> None:
        """Store the outcome, unless a poll has settled the write meanwhile."""
        with self._store.write(*self._scopes) as tx:
            present = find_write(tx, row.repo, row.token)
            if present is None or present.settled:
                return
            done = apply_outcome(replace(present, state=row.state), outcome, tx.now(), self._pace)
            found_result = outcome if row.state is WriteState.UNCLEAR else None
            settle_write(tx, present, done, self._settled, found_result=found_result)

    def _store_failure(self, failed: OutboxRow) -> None:
        with self._store.write(*self._scopes) as tx:
            present = find_write(tx, failed.repo, failed.token)
            if present is not None and not present.settled:
                settle_write(tx, present, failed, self._settled)

    def _forge(self, row: OutboxRow) -> Forge:
        forge = self._forges(row.repo)
        assert forge is not None, "only writes of known repositories are chosen"
        return forge


def _outcome_of(row: OutboxRow, act: Callable[[], SendOutcome]) -> SendOutcome:
    try:
        return act()
    except ForgeError as error:
        return error
    except Exception as error:  # a defect must neither repeat a write nor stop the others
        return Unclear(f"{row.kind} {row.token}", f"{type(error).__name__}: {error}")


# A holder of the lock may exit without a commit, so check again regularly.
RECHECK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class DeliveryCallbacks:
    """Callbacks of a delivery."""

    settled: Callable[[OutboxRow], None]
    # Called once with the lock holder, if another process holds the lock.
    lock_held_by: Callable[[object | None], None]


class WriteDelivery:
    """Sends some writes of one repository and waits for their results."""

    def __init__(
        self,
        home: Path,
        store: Store,
        forge: Forge,
        repo: RepoName,
        tokens: Collection[str],
        clock: Clock,
        policy: OutboxPolicy,
        callbacks: DeliveryCallbacks,
    ) -> None:
        self._home = home
        self._store = store
        self._repo = repo
        self._tokens = list(tokens)
        self._clock = clock
        self._callbacks = callbacks
        # Only these: the results of other writes are processed by the service.
        self._sender = OutboxSender(
            store,
            lambda name: forge if name == repo else None,
            clock,
            policy,
            only=frozenset(tokens).__contains__,
        )
        self._reported: set[str] = set()
        self._reported_holder = False

    def wait_until_settled(self, seconds: float) -> list[OutboxRow]:
        """Return the rows once all are settled, or at the timeout."""
        end = self._clock.monotonic() + seconds
        while True:
            wait_seconds = self._send()
            change_mark = self._store.change_mark()
            rows = self._find_write()
            seconds_left = end - self._clock.monotonic()
            if seconds_left <= 0 or all(row.settled for row in rows):
                return rows
            self._store.wait_for_change(change_mark, min(seconds_left, wait_seconds))

    def _send(self) -> float:
        """Send what is due, if no other process does. Return how long to wait then."""
        try:
            with home_lock(self._home, self._clock):
                again = self._sender.send_due()
        except HomeLocked as locked:
            if not self._reported_holder:
                self._reported_holder = True
                self._callbacks.lock_held_by(locked.holder)
            return RECHECK_SECONDS
        if again is None:
            return RECHECK_SECONDS
        return max((again - self._clock.now()).total_seconds(), 0.0)

    def _find_write(self) -> list[OutboxRow]:
        with self._store.read() as tx:
            found = [find_write(tx, self._repo, token) for token in self._tokens]
        rows = [row for row in found if row is not None]
        for row in rows:
            if row.settled and row.token not in self._reported:
                self._reported.add(row.token)
                self._callbacks.settled(row)
        return rows
