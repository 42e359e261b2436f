"""Rule of webhooks: a delivery is believed only if it is signed, new and small. Touches nothing.

Even then it is a hint: it names a repository to look at, and nothing in it is used.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

SIGNATURE = "x-hub-signature-256"
EVENT = "x-github-event"
# Larger than anything that GitHub sends about the events that we want; it sends up to 25 MB.
MOST_BYTES = 5 * 1024 * 1024
# So many signatures are remembered, to know a delivery that comes again.
REMEMBERED = 10_000


class Answer(IntEnum):
    """What is answered, as HTTP says it."""

    TAKEN = 202
    UNREADABLE = 400
    FORGED = 403
    SEEN_BEFORE = 409
    NOT_JSON = 415


@dataclass(frozen=True, slots=True)
class Delivery:
    """What was sent; the names of headers are lower case."""

    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to answer, and which repository to look at, if any."""

    answer: Answer
    repo: str | None = None


def signature_of(body: bytes, secret: bytes) -> str:
    """What GitHub writes over a body that it sends with this secret."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


class Doorkeeper:
    """Judges deliveries. Remembers the newest signatures, in memory: a replay costs one look."""

    def __init__(self, secret: bytes, remembered: int = REMEMBERED) -> None:
        if not secret:
            raise ValueError("without a secret everybody could knock")
        self._secret = secret
        self._remembered = remembered
        self._seen: dict[str, None] = {}

    def judge(self, delivery: Delivery) -> Verdict:
        """What a delivery is worth. Not safe to call from two threads at once."""
        wanted = signature_of(delivery.body, self._secret)
        given = delivery.headers.get(SIGNATURE, "")
        # Before all else: whoever does not know the secret learns nothing from our answers.
        if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
            return Verdict(Answer.FORGED)
        if not delivery.headers.get("content-type", "").startswith("application/json"):
            return Verdict(Answer.NOT_JSON)
        # The number of a delivery is not signed; the signature of the same body is the same.
        if wanted in self._seen:
            return Verdict(Answer.SEEN_BEFORE)
        try:
            repo = _repository(json.loads(delivery.body))
        except (ValueError, RecursionError):
            return Verdict(Answer.UNREADABLE)
        self._remember(wanted)
        return Verdict(Answer.TAKEN, repo)

    def _remember(self, signature: str) -> None:
        self._seen[signature] = None
        while len(self._seen) > self._remembered:
            del self._seen[next(iter(self._seen))]


def _repository(payload: object) -> str | None:
    """`owner/name` in lower case; None for what is about no repository."""
    if not isinstance(payload, dict):
        raise ValueError("a payload is an object")
    repository = payload.get("repository")
    name = repository.get("full_name") if isinstance(repository, dict) else None
    return name.lower() if isinstance(name, str) else None
