"""The rule of action tokens: how far an outgoing write has come, told by what happened to it."""

from __future__ import annotations

from enum import StrEnum

from hostler.model import TokenStatus


class TokenEvent(StrEnum):
    """What can happen to an outgoing write."""

    POSTED = "posted"
    OBSERVED = "observed"
    FAILED = "failed"


# A write that exists must never be made again, so the facts "answered" and "seen" lead out of
# failed, and nothing leads out of observed.
_NEXT: dict[TokenEvent, dict[TokenStatus, TokenStatus]] = {
    TokenEvent.POSTED: {
        TokenStatus.PLANNED: TokenStatus.POSTED,
        TokenStatus.POSTED: TokenStatus.POSTED,
        TokenStatus.FAILED: TokenStatus.POSTED,
        TokenStatus.OBSERVED: TokenStatus.OBSERVED,
    },
    TokenEvent.OBSERVED: dict.fromkeys(TokenStatus, TokenStatus.OBSERVED),
    TokenEvent.FAILED: {
        TokenStatus.PLANNED: TokenStatus.FAILED,
        TokenStatus.POSTED: TokenStatus.FAILED,
        TokenStatus.FAILED: TokenStatus.FAILED,
        TokenStatus.OBSERVED: TokenStatus.OBSERVED,
    },
}


def next_status(status: TokenStatus, event: TokenEvent) -> TokenStatus:
    """Where a token stands after an event. Every event is possible in every status."""
    return _NEXT[event][status]


def next_attempts(attempts: int, event: TokenEvent) -> int:
    """How often the write has been answered with success."""
    return attempts + (event is TokenEvent.POSTED)
