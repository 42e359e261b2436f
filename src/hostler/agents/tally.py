"""All that matters of a stream, folded event by event, so that nobody keeps the stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce

from hostler.agents.events import (
    Cost,
    Event,
    Fault,
    Finished,
    LimitSignal,
    Noise,
    Retrying,
    Session,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.outcomes import LIMITS, Outcome

# Of what comes piece by piece, this much is kept.
LONGEST_TEXT = 64 * 1024
# So many messages may grow at once: agents within an agent speak in turns.
MOST_PARTS = 32
# Names of messages are short; an agent may print any.
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Tally:
    """The state of a stream so far.

    `limit` is the signal that stands, `fault` the request that failed: further output of the
    model takes both back, because the program got through after all. `parts` is what `usage` has
    of the last messages so far; `flowing`: a text goes on. `said`: there was a stream at all;
    `aside`: the first line beside it; `answered`: a model was heard. `held`: limits of its last
    word, which whoever reads the stream keeps here until more is said, or its end is judged.
    """

    session: str = ""
    usage: Usage = field(default_factory=lambda: Usage(total=True))
    usd: float = 0.0
    limit: LimitSignal | None = None
    finished: Finished | None = None
    last_text: str = ""
    fault: Fault | None = None
    parts: tuple[Usage, ...] = ()
    flowing: bool = False
    said: bool = False
    aside: str = ""
    answered: bool = False
    held: tuple[LimitSignal, ...] = ()

    def after(self, event: Event) -> Tally:
        """The state after one more event."""
        if isinstance(event, Noise) and event.aside:
            return replace(self, aside=self.aside or event.text.strip())
        return replace(self._after(event), said=True)

    def _after(self, event: Event) -> Tally:
        match event:
            case Text(text=text, delta=delta):
                whole = self.last_text + text if delta and self.flowing else text
                whole = whole[:LONGEST_TEXT]
                on = replace(self, last_text=whole, flowing=delta, answered=True)
                return replace(on, limit=None, fault=None, finished=None)
            case ToolUse():
                on = replace(self, limit=None, fault=None, finished=None, flowing=False)
                return replace(on, answered=True)
            case LimitSignal():
                return replace(self, limit=_standing(self.limit, event))
            case Fault():
                return replace(self, fault=event)
            # What is read beside the stream may be older than its last word.
            case Retrying(reason=reason) if reason in LIMITS and self.finished is None:
                told = LimitSignal(reason, event.status, event.seconds)
                return replace(self, limit=_standing(self.limit, told))
            case Finished():
                return replace(self, finished=event)
            case Session(id=session) if session:
                return replace(self, session=session)
            case Usage():
                return self._spent(event)
            case Cost(usd=usd, total=total):
                # A sum that says nothing takes nothing back.
                return replace(self, usd=(usd or self.usd) if total else self.usd + usd)
        return self

    def _spent(self, event: Usage) -> Tally:
        heard = self.answered or event.output_tokens > 0
        return replace(self._summed(event), answered=heard)

    def _summed(self, event: Usage) -> Tally:
        if event.total:
            said = event.input_tokens or event.output_tokens or event.cached_tokens
            return replace(self, usage=replace(event, of=""), parts=()) if said else self
        if not event.of:
            return replace(self, usage=_sum(self.usage, event))
        event = replace(event, of=event.of[:LONGEST_NAME])
        known = next((one for one in self.parts if one.of == event.of), Usage())
        others = tuple(one for one in self.parts if one.of != event.of)
        parts = (*others, event)[-MOST_PARTS:]
        return replace(self, usage=_sum(_less(self.usage, known), event), parts=parts)


def tally(events: Iterable[Event], before: Tally | None = None) -> Tally:
    """The state after these events."""
    return reduce(Tally.after, events, before or Tally())


def _standing(known: LimitSignal | None, told: LimitSignal) -> LimitSignal:
    """The newest, unless it is weaker: who is told to slow down before a wall has the wall too."""
    return known if known is not None and _weight(known) > _weight(told) else told


def _weight(limit: LimitSignal) -> tuple[bool, bool, bool]:
    wall = limit.reason is Outcome.QUOTA
    dated = bool(limit.resets_at or limit.clock_time or limit.retry_after_seconds)
    return wall and limit.person, wall, wall and dated


def _less(whole: Usage, part: Usage) -> Usage:
    return Usage(
        max(whole.input_tokens - part.input_tokens, 0),
        max(whole.output_tokens - part.output_tokens, 0),
        max(whole.cached_tokens - part.cached_tokens, 0),
        total=True,
    )


def _sum(before: Usage, more: Usage) -> Usage:
    return Usage(
        before.input_tokens + more.input_tokens,
        before.output_tokens + more.output_tokens,
        before.cached_tokens + more.cached_tokens,
        total=True,
    )
