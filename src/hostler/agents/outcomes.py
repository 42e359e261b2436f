"""Outcomes of runs, and what each means for the task, its attempts and the provider."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a run can end."""

    SUCCESS = "success"
    NEEDS_INPUT = "needs_input"
    BLOCKED = "blocked"
    BAD_RESULT = "bad_result"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    QUOTA = "quota"
    AUTH = "auth"
    BAD_REQUEST = "bad_request"
    SERVER_ERROR = "server_error"
    NETWORK = "network"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    LIMIT = "limit"
    INTERRUPTED = "interrupted"
    CONFIG = "config"
    CRASH = "crash"


class NextAction(StrEnum):
    """What happens to the task after an outcome."""

    FINISH = "finish"
    ASK = "ask"
    BLOCK = "block"
    RETRY = "retry"
    BACK_OFF = "back_off"
    PARK = "park"
    OPERATOR = "operator"
    STOP = "stop"


class ProviderState(StrEnum):
    """What an outcome means for the state of the provider."""

    WELL = "well"
    PRESSED = "pressed"
    CLOSED = "closed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OutcomeMeaning:
    """One row of the table. `counted`: the attempt counts as one without progress."""

    next: NextAction
    provider: ProviderState
    counted: bool
    sentence: str


OUTCOME_MEANINGS: dict[Outcome, OutcomeMeaning] = {
    Outcome.SUCCESS: OutcomeMeaning(
        NextAction.FINISH, ProviderState.WELL, False, "The work is done and goes to its checks."
    ),
    Outcome.NEEDS_INPUT: OutcomeMeaning(
        NextAction.ASK,
        ProviderState.WELL,
        False,
        "The agent has a question; its answer starts the next run.",
    ),
    Outcome.BLOCKED: OutcomeMeaning(
        NextAction.BLOCK, ProviderState.WELL, False, "The agent is blocked, and reported why."
    ),
    Outcome.BAD_RESULT: OutcomeMeaning(
        NextAction.RETRY,
        ProviderState.WELL,
        True,
        "The result is invalid; the next attempt is told why.",
    ),
    Outcome.RATE_LIMITED: OutcomeMeaning(
        NextAction.BACK_OFF,
        ProviderState.PRESSED,
        False,
        "Too many requests at once; fewer agents for now.",
    ),
    Outcome.OVERLOADED: OutcomeMeaning(
        NextAction.BACK_OFF,
        ProviderState.PRESSED,
        False,
        "The provider is overloaded; fewer agents for now.",
    ),
    Outcome.QUOTA: OutcomeMeaning(
        NextAction.PARK,
        ProviderState.CLOSED,
        False,
        "The quota is used up; wait for its reset or a person.",
    ),
    Outcome.AUTH: OutcomeMeaning(
        NextAction.OPERATOR,
        ProviderState.CLOSED,
        False,
        "The provider rejected the key; renew it.",
    ),
    Outcome.BAD_REQUEST: OutcomeMeaning(
        NextAction.OPERATOR,
        ProviderState.WELL,
        True,
        "The provider rejected the request; a retry will not help.",
    ),
    Outcome.SERVER_ERROR: OutcomeMeaning(
        NextAction.RETRY,
        ProviderState.UNKNOWN,
        False,
        "The provider failed; a retry may succeed.",
    ),
    Outcome.NETWORK: OutcomeMeaning(
        NextAction.RETRY,
        ProviderState.UNKNOWN,
        False,
        "The provider was not reached; a retry may succeed.",
    ),
    Outcome.TIMEOUT: OutcomeMeaning(
        NextAction.RETRY,
        ProviderState.UNKNOWN,
        True,
        "The run reached its time limit and was stopped.",
    ),
    Outcome.STALLED: OutcomeMeaning(
        NextAction.RETRY, ProviderState.UNKNOWN, True, "It was silent for too long and was stopped."
    ),
    Outcome.LIMIT: OutcomeMeaning(
        NextAction.ASK,
        ProviderState.WELL,
        True,
        "The agent reached its own limit of turns or cost.",
    ),
    Outcome.INTERRUPTED: OutcomeMeaning(
        NextAction.STOP,
        ProviderState.UNKNOWN,
        False,
        "The run was stopped on request; it is not retried.",
    ),
    Outcome.CONFIG: OutcomeMeaning(
        NextAction.OPERATOR,
        ProviderState.UNKNOWN,
        False,
        "The agent could not be started with its settings.",
    ),
    Outcome.CRASH: OutcomeMeaning(
        NextAction.RETRY,
        ProviderState.UNKNOWN,
        True,
        "The agent ended without a usable result.",
    ),
}

# What a limit signal in a stream may be about.
LIMIT_OUTCOMES = frozenset({Outcome.RATE_LIMITED, Outcome.OVERLOADED, Outcome.QUOTA})


def outcome_meaning(outcome: Outcome) -> OutcomeMeaning:
    """Return what an outcome means for the task, its attempts and its provider."""
    return OUTCOME_MEANINGS[outcome]
