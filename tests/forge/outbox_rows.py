"""Writes and outcomes for tests of the rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hostler.errors import (
    Conflict,
    CredentialsMissing,
    Forbidden,
    Gone,
    Invalid,
    Moved,
    NotFound,
    RateLimited,
    ServerFailed,
    Unauthorized,
    Unclear,
    Unreachable,
)
from hostler.forge.outbox.rules import OutboxPolicy
from hostler.model import ScopeKind, format_timestamp
from hostler.store.outbox import Lane, OutboxRow, WriteState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PACE = OutboxPolicy()
SECOND = timedelta(seconds=1)
WAITS = [
    Unreachable("x", "y"),
    Unauthorized("x", 401, "y"),
    CredentialsMissing("x"),
    ServerFailed("x", 502),
    RateLimited("x", 403, NOW + timedelta(seconds=60), "secondary"),
]
REFUSALS = [
    Forbidden("x", 403, "y"),
    NotFound("x", 404, "y"),
    Conflict("x", 409, "y"),
    Invalid("x", 422, "y"),
]
FINAL = [Gone("x", 410, "y"), Moved("x", 301, "y")]
UNCLEAR = Unclear("x", "y")


def write(sequence=1, *, thread=7, lane=Lane.STATUS, state=WriteState.QUEUED, at=NOW, **more):
    return OutboxRow(
        repo_full_name="octo/stable",
        token=f"t{sequence}",
        scope_kind=ScopeKind.ISSUE,
        scope_number=thread,
        lane=lane,
        kind="comment",
        payload="{}",
        state=state,
        not_before=format_timestamp(at),
        sequence=sequence,
        **more,
    )
