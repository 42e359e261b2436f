"""Queueing a deed, in the transaction of its cause."""

from __future__ import annotations

from hashlib import sha256

from hostler.errors import StoreConflict
from hostler.forge.deeds import Deed, pack
from hostler.forge.markers import check_token
from hostler.model import RepoName, ScopeKind
from hostler.store.outbox import Lane, OutboxRow, WriteState, add_write, find_write
from hostler.store.repositories import Repo
from hostler.store.transaction import Transaction


def token_of(purpose: str, *cause: object) -> str:
    """A token that is the same for the same cause: `reply-1f3e…`."""
    digest = sha256("\0".join(str(part) for part in cause).encode()).hexdigest()[:24]
    return check_token(f"{purpose}-{digest}")


def enqueue(
    tx: Transaction,
    repo: RepoName,
    deed: Deed,
    *,
    token: str,
    lane: Lane,
    source: str,
    scope_kind: ScopeKind | None = None,
    depends_on: str | None = None,
) -> OutboxRow:
    """Queue a deed. A token that was queued before stays as it is, whatever the deed."""
    known = find_write(tx, repo, check_token(token))
    if known is not None:
        return known
    if depends_on is not None and find_write(tx, repo, depends_on) is None:
        raise StoreConflict(f"The write {token} depends on {depends_on}, which was never queued.")
    kind = scope_kind or deed.scope_kind
    Repo(repo).record_action_token_planned(
        tx, token, scope_kind=kind, scope_number=deed.number, source=source
    )
    row = OutboxRow(
        repo_full_name=str(repo),
        token=token,
        scope_kind=kind,
        scope_number=deed.number,
        lane=lane,
        kind=deed.kind,
        payload=pack(deed),
        state=WriteState.QUEUED,
        not_before=tx.stamp(),
        depends_on=depends_on,
    )
    add_write(tx, row)
    queued = find_write(tx, repo, token)
    assert queued is not None
    return queued
