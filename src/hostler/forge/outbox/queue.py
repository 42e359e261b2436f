"""Queue an action in the transaction of its cause, and store its result."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from hostler.errors import StoreConflict
from hostler.forge.actions import Action, encode_action, require_token
from hostler.forge.port import ActionResult
from hostler.model import RepoName, ScopeKind
from hostler.store.outbox import Lane, OutboxRow, WriteState, add_write, change_write, find_write
from hostler.store.repositories import Repo
from hostler.store.transaction import Transaction


def build_token(purpose: str, *cause: object) -> str:
    """Return a token that is the same for the same cause: `reply-1f3e…`."""
    digest = sha256("\0".join(str(part) for part in cause).encode()).hexdigest()[:24]
    return require_token(f"{purpose}-{digest}")


def enqueue_action(
    tx: Transaction,
    repo: RepoName,
    action: Action,
    *,
    token: str,
    lane: Lane,
    source: str,
    scope_kind: ScopeKind | None = None,
    depends_on: str | None = None,
) -> OutboxRow:
    """Queue an action. If the token is known, return its existing row unchanged."""
    known = find_write(tx, repo, require_token(token))
    if known is not None:
        return known
    if depends_on is not None and find_write(tx, repo, depends_on) is None:
        raise StoreConflict(f"The write {token} depends on {depends_on}, which was never queued.")
    kind = scope_kind or action.scope_kind
    Repo(repo).record_action_token_planned(
        tx, token, scope_kind=kind, scope_number=action.number, source=source
    )
    row = OutboxRow(
        repo_full_name=str(repo),
        token=token,
        scope_kind=kind,
        scope_number=action.number,
        lane=lane,
        kind=action.kind,
        payload=encode_action(action),
        state=WriteState.QUEUED,
        not_before=tx.stamp(),
        depends_on=depends_on,
    )
    add_write(tx, row)
    queued = find_write(tx, repo, token)
    assert queued is not None
    return queued


# Called once for each write, in the transaction that stores its result: queue here what depends
# on it. The row is `sent` or `failed`.
SettledWrite = Callable[[Transaction, OutboxRow], None]


def ignore_settled(_tx: Transaction, _row: OutboxRow) -> None:
    """Do nothing."""


def settle_write(
    tx: Transaction,
    before: OutboxRow,
    after: OutboxRow,
    settled: SettledWrite,
    *,
    found_result: object = None,
) -> None:
    """Store a write's new state. `found_result`: a result that was found, not answered."""
    change_write(tx, before, after)
    if not after.settled:
        return
    repo = Repo(after.repo)
    if after.state is WriteState.FAILED:
        repo.record_action_token_failed(tx, after.token)
    elif isinstance(found_result, ActionResult) and found_result.id and found_result.updated_at:
        repo.record_action_token_observed(
            tx, after.token, comment_id=found_result.id, updated_at=found_result.updated_at
        )
    else:
        repo.record_action_token_posted(tx, after.token)
    settled(tx, after)
