"""What a provider's answers mean: HTTP numbers, and the words of its error objects. Pure."""

from __future__ import annotations

from hostler.agents.outcomes import Outcome

_NUMBERS = {
    400: Outcome.BAD_REQUEST,
    401: Outcome.AUTH,
    402: Outcome.QUOTA,
    403: Outcome.AUTH,
    408: Outcome.TIMEOUT,
    429: Outcome.RATE_LIMITED,
    503: Outcome.OVERLOADED,
    504: Outcome.SERVER_ERROR,
    529: Outcome.OVERLOADED,
}
PAYMENT_REQUIRED = 402
# Only somebody who pays can end these, whatever else the answer says.
BILLS = frozenset({"insufficient_quota", "billing_error", "billing_not_active"})
_WORDS = {
    # a wall: seconds of patience do not help
    "insufficient_quota": Outcome.QUOTA,
    "billing_error": Outcome.QUOTA,
    "billing_not_active": Outcome.QUOTA,
    "usage_limit_reached": Outcome.QUOTA,
    # too fast
    "rate_limit": Outcome.RATE_LIMITED,
    "rate_limit_error": Outcome.RATE_LIMITED,
    "rate_limit_exceeded": Outcome.RATE_LIMITED,
    # too many others
    "overloaded": Outcome.OVERLOADED,
    "overloaded_error": Outcome.OVERLOADED,
    "service_unavailable": Outcome.OVERLOADED,
    # the key
    "authentication_error": Outcome.AUTH,
    "authentication_failed": Outcome.AUTH,
    "invalid_api_key": Outcome.AUTH,
    "permission_error": Outcome.AUTH,
    # the request
    "context_length_exceeded": Outcome.BAD_REQUEST,
    "invalid_request": Outcome.BAD_REQUEST,
    "invalid_request_error": Outcome.BAD_REQUEST,
    "model_not_found": Outcome.BAD_REQUEST,
    "not_found_error": Outcome.BAD_REQUEST,
    "request_too_large": Outcome.BAD_REQUEST,
    # the provider itself
    "api_error": Outcome.SERVER_ERROR,
    "server_error": Outcome.SERVER_ERROR,
    "timeout_error": Outcome.TIMEOUT,
}


def by_status(status: int) -> Outcome | None:
    """The class of an HTTP status; None for one that is no failure."""
    if status in _NUMBERS:
        return _NUMBERS[status]
    if 400 <= status < 500:
        return Outcome.BAD_REQUEST
    return Outcome.SERVER_ERROR if 500 <= status < 600 else None


def is_bill(status: int, *said: str) -> bool:
    """Whether an answer waits for a person, by its status or a word of its error object."""
    return status == PAYMENT_REQUIRED or any(word in BILLS for word in said)


def by_word(word: str) -> Outcome | None:
    """The class of an error object's `type` or `code`; None for one that is not known."""
    return _WORDS.get(word)
