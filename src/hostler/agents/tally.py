"""All that matters of a stream, folded event by event, so that nobody keeps the stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce

from hostler.agents.events import (
    Cost,
    Event,
    Finished,
    LimitSignal,
    Retrying,
    Session,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.outcomes import LIMITS


@dataclass(frozen=True, slots=True)
class Tally:
    """The state of a stream so far.

    `limit` is the signal that stands: further output of the model takes it back, because the
    program got through after all.
    """

    session: str = ""
    usage: Usage = field(default_factory=lambda: Usage(total=True))
    usd: float = 0.0
    limit: LimitSignal | None = None
    finished: Finished | None = None
    last_text: str = ""

    def after(self, event: Event) -> Tally:
        """The state after one more event."""
        match event:
            case Text(text=text):
                return replace(self, limit=None, last_text=text)
            case ToolUse():
                return replace(self, limit=None)
            case LimitSignal():
                return replace(self, limit=event)
            case Retrying(reason=reason) if reason in LIMITS:
                return replace(self, limit=LimitSignal(reason, event.status, event.seconds))
            case Finished():
                return replace(self, finished=event)
            case Session(id=session):
                return replace(self, session=session)
            case Usage():
                return replace(self, usage=event if event.total else _sum(self.usage, event))
            case Cost(usd=usd, total=total):
                return replace(self, usd=usd if total else self.usd + usd)
        return self


def tally(events: Iterable[Event], before: Tally | None = None) -> Tally:
    """The state after these events."""
    return reduce(Tally.after, events, before or Tally())


def _sum(before: Usage, more: Usage) -> Usage:
    return Usage(
        before.input_tokens + more.input_tokens,
        before.output_tokens + more.output_tokens,
        before.cached_tokens + more.cached_tokens,
        total=True,
    )
