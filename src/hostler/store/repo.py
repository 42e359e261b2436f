"""What is stored about one repository: its cursors, its threads and its outgoing writes.

Every call takes an open transaction, so that several of them are stored together or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, select, update

from hostler.errors import StoreConflict
from hostler.model import ActionToken, PollCursor, RepoName, ScopeKind, Surface, TokenStatus
from hostler.store.inbox import add_inbox_row
from hostler.store.instants import normal_stamp
from hostler.store.repositories import (
    Repository,
    add_repository,
    find_repository,
    rename_repository,
)
from hostler.store.scans import FeedbackScan, Stored, Watermark
from hostler.store.tables import action_tokens, poll_cursors
from hostler.store.tokens import TokenEvent, next_attempts, next_status
from hostler.store.transaction import Transaction
from hostler.store.upserts import insert_if_absent, insert_or_update
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import ACTION_TOKENS


@dataclass(frozen=True, slots=True)
class Repo:
    """One repository's rows."""

    name: RepoName

    def get(self, tx: Transaction) -> Repository | None:
        """What we know of the repository itself."""
        return find_repository(tx, self.name)

    def add(self, tx: Transaction, github_id: int | None = None) -> Repository:
        """Know this repository; a number known under another name is a rename."""
        return add_repository(tx, self.name, github_id)

    def rename(self, tx: Transaction, new: RepoName) -> Repo:
        """Move everything stored about it to its new name."""
        rename_repository(tx, self.name, new)
        return Repo(new)

    def get_poll_cursor(
        self, tx: Transaction, surface: Surface, scope_number: int
    ) -> PollCursor | None:
        """How far a stream has been read; None where it never was."""
        chosen = and_(
            poll_cursors.c.repo_full_name == str(self.name),
            poll_cursors.c.surface == surface.value,
            poll_cursors.c.scope_number == scope_number,
        )
        row = tx.execute(select(poll_cursors).where(chosen)).mappings().one_or_none()
        return cursor_of(dict(row)) if row else None

    def upsert_poll_cursor(
        self,
        tx: Transaction,
        surface: Surface,
        scope_number: int,
        *,
        last_updated_at: str,
        last_comment_id: int,
        bootstrap_complete: bool,
    ) -> PollCursor:
        """Note how far a stream has been read. It may move back: a reset is a decision too."""
        row = {
            "repo_full_name": str(self.name),
            "surface": surface.value,
            "scope_number": scope_number,
            "last_updated_at": normal_stamp(last_updated_at),
            "last_comment_id": last_comment_id,
            "bootstrap_complete": int(bootstrap_complete),
            "updated_at": tx.stamp(),
        }
        insert_or_update(tx, poll_cursors, row)
        return cursor_of(row)

    def ingest_feedback_scan_batch(self, tx: Transaction, scan: FeedbackScan) -> Stored:
        """Events, seen writes and both cursors of a pull request's thread, stored together."""
        return self._store(tx, scan, complete=None)

    def seed_feedback_cursors_from_full_scan(self, tx: Transaction, scan: FeedbackScan) -> Stored:
        """The same for a whole thread, whose cursors are complete from now on."""
        return self._store(tx, scan, complete=True)

    def get_action_token(self, tx: Transaction, token: str) -> ActionToken | None:
        """An outgoing write by its token."""
        return self._token(tx, select(action_tokens).where(self._is(token)))

    def record_action_token_planned(
        self, tx: Transaction, token: str, *, scope_kind: ScopeKind, scope_number: int, source: str
    ) -> ActionToken:
        """Note a write before it is made. A token that is known already stays as it is."""
        row = {
            "repo_full_name": str(self.name),
            "token": token,
            "scope_kind": scope_kind.value,
            "scope_number": scope_number,
            "source": source,
            "status": TokenStatus.PLANNED.value,
            "attempt_count": 0,
            "created_at": tx.stamp(),
            "updated_at": tx.stamp(),
        }
        known = self.get_action_token(tx, token)
        insert_if_absent(tx, action_tokens, row)
        found = self.get_action_token(tx, token)
        assert found is not None
        if known is None:
            _count(tx, found)
        if (found.scope_kind, found.scope_number) != (scope_kind, scope_number):
            raise StoreConflict(
                f"Token {token} is already used on {found.scope_kind} {found.scope_number}.",
                safe="Nothing was changed.",
            )
        return found

    def record_action_token_posted(self, tx: Transaction, token: str) -> ActionToken:
        """The write was answered with success."""
        return self._known(token, self._happened(tx, token, TokenEvent.POSTED))

    def record_action_token_failed(self, tx: Transaction, token: str) -> ActionToken:
        """The write was given up."""
        return self._known(token, self._happened(tx, token, TokenEvent.FAILED))

    def record_action_token_observed(
        self, tx: Transaction, token: str, *, comment_id: int, updated_at: str
    ) -> ActionToken | None:
        """The write was seen on GitHub; None for a token that is not ours, such as a pasted one."""
        seen = {
            "observed_comment_id": comment_id,
            "observed_updated_at": normal_stamp(updated_at),
        }
        return self._happened(tx, token, TokenEvent.OBSERVED, seen)

    def _store(self, tx: Transaction, scan: FeedbackScan, *, complete: bool | None) -> Stored:
        new = [row.event_key for row in scan.events if add_inbox_row(tx, row)]
        fresh = set(new)
        known = [row.event_key for row in scan.events if row.event_key not in fresh]
        for seen in scan.observed:
            self.record_action_token_observed(
                tx, seen.token, comment_id=seen.comment_id, updated_at=seen.updated_at
            )
        marks = {
            Surface.PR_REVIEW_COMMENTS: scan.review_comments,
            Surface.PR_ISSUE_COMMENTS: scan.issue_comments,
        }
        for surface, mark in marks.items():
            if mark is not None:
                self._advance(tx, surface, scan.pr_number, mark, complete)
        return Stored(tuple(new), tuple(known))

    def _advance(
        self,
        tx: Transaction,
        surface: Surface,
        number: int,
        mark: Watermark,
        complete: bool | None,
    ) -> None:
        known = self.get_poll_cursor(tx, surface, number)
        kept = known is not None and known.bootstrap_complete
        self.upsert_poll_cursor(
            tx,
            surface,
            number,
            last_updated_at=mark.last_updated_at,
            last_comment_id=mark.last_comment_id,
            bootstrap_complete=kept if complete is None else complete,
        )

    def _happened(
        self,
        tx: Transaction,
        token: str,
        event: TokenEvent,
        facts: Mapping[str, Any] | None = None,
    ) -> ActionToken | None:
        # Locked on PostgreSQL: what is decided on must still be so when it is written.
        chosen = select(action_tokens).where(self._is(token)).with_for_update()
        found = self._token(tx, chosen)
        if found is None:
            return None
        changed = {
            "status": next_status(found.status, event).value,
            "attempt_count": next_attempts(found.attempt_count, event),
            "updated_at": tx.stamp(),
            **(facts or {}),
        }
        tx.execute(update(action_tokens).where(self._is(token)).values(changed))
        after = self.get_action_token(tx, token)
        assert after is not None
        if after.status is not found.status:
            _count(tx, after)
        return after

    def _token(self, tx: Transaction, chosen: Select[Any]) -> ActionToken | None:
        row = tx.execute(chosen).mappings().one_or_none()
        return _token(dict(row)) if row else None

    def _is(self, token: str) -> ColumnElement[bool]:
        return and_(
            action_tokens.c.repo_full_name == str(self.name), action_tokens.c.token == token
        )

    def _known(self, token: str, found: ActionToken | None) -> ActionToken:
        if found is None:
            raise StoreConflict(f"Token {token} of {self.name} was never planned.")
        return found


def _count(tx: Transaction, token: ActionToken) -> None:
    """One step of a write, counted when it is stored."""
    status, source = token.status.value, token.source
    tx.after_commit(lambda: metrics.count(ACTION_TOKENS, status=status, source=source))


def cursor_of(row: dict[str, Any]) -> PollCursor:
    """A cursor as it is stored."""
    return PollCursor(
        surface=Surface(row["surface"]),
        scope_number=row["scope_number"],
        last_updated_at=row["last_updated_at"],
        last_comment_id=row["last_comment_id"],
        bootstrap_complete=bool(row["bootstrap_complete"]),
        updated_at=row["updated_at"],
    )


def _token(row: dict[str, Any]) -> ActionToken:
    return ActionToken(
        token=row["token"],
        scope_kind=ScopeKind(row["scope_kind"]),
        scope_number=row["scope_number"],
        source=row["source"],
        status=TokenStatus(row["status"]),
        attempt_count=row["attempt_count"],
        observed_comment_id=row["observed_comment_id"],
        observed_updated_at=row["observed_updated_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
