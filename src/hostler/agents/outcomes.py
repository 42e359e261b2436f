"""How a run of an agent ended, and what each ending means for what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The classes of endings."""

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


class Next(StrEnum):
    """What happens to the task after such an ending."""

    FINISH = "finish"
    ASK = "ask"
    BLOCK = "block"
    RETRY = "retry"
    BACK_OFF = "back_off"
    PARK = "park"
    OPERATOR = "operator"
    STOP = "stop"


class Provider(StrEnum):
    """What such an ending says about the provider behind the agent."""

    WELL = "well"
    PRESSED = "pressed"
    CLOSED = "closed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Meaning:
    """One row of the table. `counted`: the attempt counts as one without progress."""

    next: Next
    provider: Provider
    counted: bool
    sentence: str


MEANINGS: dict[Outcome, Meaning] = {
    Outcome.SUCCESS: Meaning(
        Next.FINISH, Provider.WELL, False, "The work is done and goes to its checks."
    ),
    Outcome.NEEDS_INPUT: Meaning(
        Next.ASK, Provider.WELL, False, "The agent has a question; its answer starts the next run."
    ),
    Outcome.BLOCKED: Meaning(
        Next.BLOCK, Provider.WELL, False, "The agent cannot go on, and says why."
    ),
    Outcome.BAD_RESULT: Meaning(
        Next.RETRY, Provider.WELL, True, "Its result cannot be used; the next attempt is told why."
    ),
    Outcome.RATE_LIMITED: Meaning(
        Next.BACK_OFF, Provider.PRESSED, False, "Too many requests at once; fewer agents for now."
    ),
    Outcome.OVERLOADED: Meaning(
        Next.BACK_OFF, Provider.PRESSED, False, "The provider is overloaded; fewer agents for now."
    ),
    Outcome.QUOTA: Meaning(
        Next.PARK, Provider.CLOSED, False, "The quota is used up; wait for its reset or a person."
    ),
    Outcome.AUTH: Meaning(
        Next.OPERATOR, Provider.CLOSED, False, "The provider refuses the key; it must be renewed."
    ),
    Outcome.BAD_REQUEST: Meaning(
        Next.OPERATOR, Provider.WELL, True, "The provider refuses the request; again is no better."
    ),
    Outcome.SERVER_ERROR: Meaning(
        Next.RETRY, Provider.UNKNOWN, False, "The provider failed; another attempt may pass."
    ),
    Outcome.NETWORK: Meaning(
        Next.RETRY, Provider.UNKNOWN, False, "The provider was not reached; another may pass."
    ),
    Outcome.TIMEOUT: Meaning(
        Next.RETRY, Provider.UNKNOWN, True, "It ran into its wall limit and was ended."
    ),
    Outcome.STALLED: Meaning(
        Next.RETRY, Provider.UNKNOWN, True, "It was silent for too long and was ended."
    ),
    Outcome.LIMIT: Meaning(
        Next.ASK, Provider.WELL, True, "It reached its own cap of turns or money."
    ),
    Outcome.INTERRUPTED: Meaning(
        Next.STOP, Provider.UNKNOWN, False, "We stopped it; nothing starts again by itself."
    ),
    Outcome.CONFIG: Meaning(
        Next.OPERATOR, Provider.UNKNOWN, False, "It could not start as it is set up."
    ),
    Outcome.CRASH: Meaning(
        Next.RETRY, Provider.UNKNOWN, True, "It ended without a word that can be trusted."
    ),
}

# What a limit signal in a stream may be about.
LIMITS = frozenset({Outcome.RATE_LIMITED, Outcome.OVERLOADED, Outcome.QUOTA})


def meaning(outcome: Outcome) -> Meaning:
    """What an ending means for the task, its attempts and its provider."""
    return MEANINGS[outcome]
