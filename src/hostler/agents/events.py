"""Typed events of an agent's stream, their JSON lines, and their sum, `StreamTally`.

Standard library only: the player of scripts imports this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import reduce
from math import isfinite
from typing import Any

from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome


@dataclass(frozen=True, slots=True)
class Started:
    """The agent's program has started."""

    program: str = ""
    version: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """The id of the conversation, with which a later run can resume it."""

    id: str


@dataclass(frozen=True, slots=True)
class Text:
    """Text of the agent. `delta`: continues the previous one."""

    text: str
    delta: bool = False


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The agent uses a tool."""

    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Retrying:
    """The program waits and retries its request. A state, never a verdict."""

    reason: Outcome
    seconds: float = 0.0
    status: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `total`: of the whole run so far; otherwise in addition to earlier ones.

    `input_tokens` is everything that a model read; `cached_tokens` the part from the provider's
    cache. Programs that report them separately are summed, so that the meaning is the same.
    `of` names the message: later usage of the same message replaces earlier one.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    total: bool = False
    of: str = ""


@dataclass(frozen=True, slots=True)
class CostEvent:
    """Cost. `total`: of the whole run so far; otherwise in addition to earlier ones."""

    usd: float
    total: bool = False


@dataclass(frozen=True, slots=True)
class LimitSignal:
    """The provider limits us: how, and until when if it says so.

    `resets_at` is a UTC timestamp; empty if the provider names none. `clock_time`: a local time
    as the program printed it. `person`: only paying can lift it. `one_model`: other models of
    the account are not limited.
    """

    reason: Outcome
    status: int = 0
    retry_after_seconds: float = 0.0
    resets_at: str = ""
    person: bool = False
    clock_time: str = ""
    one_model: bool = False


@dataclass(frozen=True, slots=True)
class Headroom:
    """How much of its limit is used, whether or not the provider refuses anything.

    `utilisation` is between 0 and 1; `resets_at` a UTC timestamp, empty if none is named.
    """

    utilisation: float
    resets_at: str = ""


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request failed finally, according to the program. A state: the last event decides."""

    reason: Outcome
    status: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of the program. `outcome` is empty if it names no class."""

    ok: bool
    outcome: Outcome | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Noise:
    """A line that is not an event: shown to users, never judged.

    `aside`: it came from standard error.
    """

    text: str
    aside: bool = False


Event = (
    Started
    | SessionEvent
    | Text
    | ToolUse
    | Retrying
    | Usage
    | CostEvent
    | LimitSignal
    | Headroom
    | RequestFailed
    | Finished
    | Noise
)


EVENT_TYPES: dict[str, type[Any]] = {
    "started": Started,
    "session": SessionEvent,
    "text": Text,
    "tool": ToolUse,
    "retrying": Retrying,
    "usage": Usage,
    "cost": CostEvent,
    "limit": LimitSignal,
    "headroom": Headroom,
    "fault": RequestFailed,
    "result": Finished,
}
_TYPE_NAMES = {kind: name for name, kind in EVENT_TYPES.items()}
# Larger counts are damage; other JSON parsers could not represent them either.
MAX_NUMBER = 2**53


def encode_event(event: Event) -> str:
    """Encode an event as one line, without newline. Noise has no encoding."""
    if isinstance(event, Noise):
        raise TypeError("noise is not written as an event")
    return json.dumps({"type": _TYPE_NAMES[type(event)], **asdict(event)})


def decode_event(text: str) -> Event:
    """Parse a line; return noise if it is not an event."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return Noise(text)
    kind = EVENT_TYPES.get(raw["type"]) if _has_type(raw) else None
    if kind is None:
        return Noise(text)
    try:
        given = {field.name: field.type for field in fields(kind) if field.name in raw}
        event: Event = kind(**{name: _check_field(form, raw[name]) for name, form in given.items()})
    except (TypeError, ValueError):
        return Noise(text)
    return Noise(text) if _is_invalid_limit(event) else event


def _has_type(raw: object) -> bool:
    return isinstance(raw, dict) and isinstance(raw.get("type"), str)


def _is_invalid_limit(event: Event) -> bool:
    return isinstance(event, LimitSignal) and event.reason not in LIMIT_OUTCOMES


def _check_field(form: object, value: object) -> object:
    """Return the value of a field, or raise. Only numbers without fraction are converted."""
    if form == "str" and isinstance(value, str):
        return value
    if form == "bool" and isinstance(value, bool):
        return value
    if form in {"int", "float"}:
        return _check_number(form == "int", value)
    if form in {"Outcome", "Outcome | None"}:
        return None if value is None and form != "Outcome" else Outcome(str(value))
    raise TypeError(f"{value!r} is not {form}")


def _check_number(whole: bool, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise TypeError(f"{value!r} is not a number")
    if not (0 <= value <= MAX_NUMBER and isfinite(value)):
        raise ValueError(f"{value!r} is out of range")
    return value if whole else float(value)


# The maximum length that is kept of streamed text.
MAX_TEXT_LENGTH = 64 * 1024
# How many messages may grow at once: nested agents take turns.
MAX_PARTS = 32
# Message names are short, but an agent may print anything.
MAX_MESSAGE_NAME = 100


@dataclass(frozen=True, slots=True)
class StreamTally:
    """The state of a stream so far.

    `limit` is the current limit signal, `fault` the failed request: later output of the model
    clears both, because the program got through after all. `parts` is the usage of the latest
    messages so far; `flowing`: a text is being streamed. `said`: any event was seen; `aside`: the
    first line on standard error; `answered`: a model responded. `held`: limits in its last event,
    kept here until more follows or its end is judged.
    """

    session: str = ""
    usage: Usage = field(default_factory=lambda: Usage(total=True))
    usd: float = 0.0
    limit: LimitSignal | None = None
    finished: Finished | None = None
    last_text: str = ""
    fault: RequestFailed | None = None
    parts: tuple[Usage, ...] = ()
    flowing: bool = False
    said: bool = False
    aside: str = ""
    answered: bool = False
    held: tuple[LimitSignal, ...] = ()

    def after(self, event: Event) -> StreamTally:
        """Return the state after one more event."""
        if isinstance(event, Noise) and event.aside:
            return replace(self, aside=self.aside or event.text.strip())
        return replace(self._after(event), said=True)

    def _after(self, event: Event) -> StreamTally:
        match event:
            case Text(text=text, delta=delta):
                whole = self.last_text + text if delta and self.flowing else text
                whole = whole[:MAX_TEXT_LENGTH]
                on = replace(self, last_text=whole, flowing=delta, answered=True)
                return replace(on, limit=None, fault=None, finished=None)
            case ToolUse():
                on = replace(self, limit=None, fault=None, finished=None, flowing=False)
                return replace(on, answered=True)
            case LimitSignal():
                return replace(self, limit=_stronger_limit(self.limit, event))
            case RequestFailed():
                return replace(self, fault=event)
            # Lines of standard error may be older than the last event.
            case Retrying(reason=reason) if reason in LIMIT_OUTCOMES and self.finished is None:
                new_limit = LimitSignal(reason, event.status, event.seconds)
                return replace(self, limit=_stronger_limit(self.limit, new_limit))
            case Finished():
                return replace(self, finished=event)
            case SessionEvent(id=session) if session:
                return replace(self, session=session)
            case Usage():
                return self._spent(event)
            case CostEvent(usd=usd, total=total):
                # Empty usage does not replace earlier usage.
                return replace(self, usd=(usd or self.usd) if total else self.usd + usd)
        return self

    def _spent(self, event: Usage) -> StreamTally:
        has_answered = self.answered or event.output_tokens > 0
        return replace(self._summed(event), answered=has_answered)

    def _summed(self, event: Usage) -> StreamTally:
        if event.total:
            said = event.input_tokens or event.output_tokens or event.cached_tokens
            return replace(self, usage=replace(event, of=""), parts=()) if said else self
        if not event.of:
            return replace(self, usage=_add_usage(self.usage, event))
        event = replace(event, of=event.of[:MAX_MESSAGE_NAME])
        known = next((one for one in self.parts if one.of == event.of), Usage())
        others = tuple(one for one in self.parts if one.of != event.of)
        parts = (*others, event)[-MAX_PARTS:]
        return replace(
            self, usage=_add_usage(_subtract_usage(self.usage, known), event), parts=parts
        )


def tally_events(events: Iterable[Event], before: StreamTally | None = None) -> StreamTally:
    """Return the state after these events."""
    return reduce(StreamTally.after, events, before or StreamTally())


def _stronger_limit(known: LimitSignal | None, new_limit: LimitSignal) -> LimitSignal:
    """Return the newest limit unless it is weaker: a hard limit includes a rate limit."""
    return (
        known
        if known is not None and _limit_strength(known) > _limit_strength(new_limit)
        else new_limit
    )


def _limit_strength(limit: LimitSignal) -> tuple[bool, bool, bool]:
    wall = limit.reason is Outcome.QUOTA
    dated = bool(limit.resets_at or limit.clock_time or limit.retry_after_seconds)
    return wall and limit.person, wall, wall and dated


def _subtract_usage(whole: Usage, part: Usage) -> Usage:
    return Usage(
        max(whole.input_tokens - part.input_tokens, 0),
        max(whole.output_tokens - part.output_tokens, 0),
        max(whole.cached_tokens - part.cached_tokens, 0),
        total=True,
    )


def _add_usage(before: Usage, more: Usage) -> Usage:
    return Usage(
        before.input_tokens + more.input_tokens,
        before.output_tokens + more.output_tokens,
        before.cached_tokens + more.cached_tokens,
        total=True,
    )
