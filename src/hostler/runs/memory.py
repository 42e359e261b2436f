"""What a stream has said so far, as stored, so that whoever reads on counts nothing twice."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from hostler.agents.events import Fault, Finished, LimitSignal, Usage
from hostler.agents.outcomes import Outcome
from hostler.agents.tally import Tally
from hostler.telemetry.redact import redact

# An agent may print a line of megabytes; a row keeps its beginning.
LONGEST_TEXT = 2_000
LONGEST_READ = 64 * LONGEST_TEXT


def remember(tally: Tally) -> str:
    """A tally as text."""
    return json.dumps(asdict(shortened(tally)))


def recall(text: str | None) -> Tally:
    """The tally behind a stored text; an empty one before the first."""
    if not text:
        return Tally()
    raw = json.loads(text)
    return Tally(
        session=raw["session"],
        usage=Usage(**raw["usage"]),
        usd=raw["usd"],
        limit=_limit(raw["limit"]),
        finished=_finished(raw["finished"]),
        last_text=raw["last_text"],
        # Runs that were begun by an older version do not have these.
        fault=_fault(raw.get("fault")),
        parts=tuple(Usage(**one) for one in raw.get("parts") or filter(None, [raw.get("part")])),
        flowing=raw.get("flowing", False),
        said=raw.get("said", True),
        aside=raw.get("aside", ""),
        answered=raw.get("answered", bool(raw["last_text"])),
        held=tuple(filter(None, map(_limit, raw.get("held", ())))),
    )


def shortened(tally: Tally) -> Tally:
    """The same with texts of bearable length."""
    finished = tally.finished
    if finished:
        finished = replace(finished, text=printable(finished.text))
    return replace(
        tally,
        session=printable(tally.session),
        finished=finished,
        last_text=printable(tally.last_text),
        aside=printable(tally.aside),
    )


def printable(text: str) -> str:
    """The beginning of a text, as every database takes it, and without secrets that we know."""
    # Hidden before it is cut: half of a secret would not be known any more.
    begun = redact(text[:LONGEST_READ])[:LONGEST_TEXT]
    return begun.replace("\0", "").encode("utf-8", "replace").decode()


def remember_limit(limit: LimitSignal | None) -> str | None:
    """A limit that stands, as text."""
    return json.dumps(asdict(limit)) if limit else None


def recall_limit(text: str | None) -> LimitSignal | None:
    """The limit behind a stored text."""
    return _limit(json.loads(text)) if text else None


def _limit(raw: dict[str, Any] | None) -> LimitSignal | None:
    return LimitSignal(**{**raw, "reason": Outcome(raw["reason"])}) if raw else None


def _fault(raw: dict[str, Any] | None) -> Fault | None:
    return Fault(**{**raw, "reason": Outcome(raw["reason"])}) if raw else None


def _finished(raw: dict[str, Any] | None) -> Finished | None:
    if not raw:
        return None
    outcome = raw["outcome"]
    return Finished(**{**raw, "outcome": Outcome(outcome) if outcome else None})
