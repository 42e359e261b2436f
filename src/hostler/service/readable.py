"""What an agent's stream says: in lines for people, and as events for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from hostler.agents.events import (
    Cost,
    Event,
    Fault,
    Finished,
    LimitSignal,
    Noise,
    Retrying,
    Session,
    Started,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.kinds import KINDS
from hostler.agents.lines import Line, Stream
from hostler.agents.wire import TYPES

# Text that comes in pieces is told at the end of a line, or when there is so much of it.
LONGEST_PIECE = 2000
NOISE = "noise"
_NAMES = {**{kind: name for name, kind in TYPES.items()}, Noise: NOISE}
# A program that prints what it likes.
_PLAIN = "command"


def has_stream(agent_kind: str) -> bool:
    """Whether agents of a kind speak in events."""
    return agent_kind in KINDS and agent_kind != _PLAIN


def events_of(agent_kind: str, line: Line) -> Sequence[Event]:
    """What a line of a run's output says. A line that says more is no noise beside it."""
    kind = KINDS.get(agent_kind)
    if kind is None:
        return [Noise(line.text, aside=line.stream is Stream.STDERR)]
    found = kind.events(line)
    known = [event for event in found if not (isinstance(event, Noise) and event.aside)]
    return known or found


def as_json(run: str, event: Event) -> dict[str, Any]:
    """An event for programs."""
    return {"run": run, "type": _NAMES[type(event)], **asdict(event)}


class Readable:
    """One run's output as people read it, line by line."""

    def __init__(self, agent_kind: str) -> None:
        self._kind = agent_kind
        self._flow = ""

    def of(self, line: Line) -> Iterator[str]:
        """What there is to show after one more line."""
        for event in events_of(self._kind, line):
            if isinstance(event, Text) and event.delta:
                yield from self._flowing(event.text)
            else:
                yield from self.rest()
                yield from _lines(event)

    def rest(self) -> Iterator[str]:
        """What is left of a text that came in pieces."""
        if self._flow:
            yield self._flow
        self._flow = ""

    def _flowing(self, text: str) -> Iterator[str]:
        *whole, self._flow = (self._flow + text).split("\n")
        yield from whole
        while len(self._flow) > LONGEST_PIECE:
            yield self._flow[:LONGEST_PIECE]
            self._flow = self._flow[LONGEST_PIECE:]


def _lines(event: Event) -> Sequence[str]:
    told = _WORDS[type(event)](event)
    return told.split("\n") if told is not None else ()


def _started(event: Started) -> str:
    words = " ".join(word for word in (event.program, event.version, event.model) if word)
    return f"started {words}".rstrip()


def _tool(event: ToolUse) -> str:
    return f"-> {event.name}: {event.detail}" if event.detail else f"-> {event.name}"


def _retrying(event: Retrying) -> str:
    after = f" after {event.seconds:.0f} s" if event.seconds else ""
    return f"retrying{after} ({event.status or event.reason})"


def _limit(event: LimitSignal) -> str:
    if event.resets_at:
        return f"limit: {event.reason} until {event.resets_at}"
    if event.clock_time:
        return f"limit: {event.reason} until {event.clock_time}"
    if event.person:
        return f"limit: {event.reason} until a person acts"
    wait = f", again in {event.retry_after_seconds:.0f} s" if event.retry_after_seconds else ""
    return f"limit: {event.reason}{wait}"


def _fault(event: Fault) -> str:
    return f"request failed: {event.reason}" + (f" ({event.status})" if event.status else "")


def _usage(event: Usage) -> str | None:
    """Of a whole step or run; accounts of single messages add nothing for people."""
    if event.of:
        return None
    cached = f", {event.cached_tokens:,} from a cache" if event.cached_tokens else ""
    return f"tokens: {event.input_tokens:,} in, {event.output_tokens:,} out{cached}"


def _cost(event: Cost) -> str | None:
    return f"cost: {event.usd:.4f} USD" if event.usd else None


def _finished(event: Finished) -> str:
    """A success says again what was said before; a failure says why."""
    if event.ok:
        return "result: success"
    why = f". {event.text}" if event.text else ""
    return f"result: {event.outcome or 'failed'}{why}"


def _noise(event: Noise) -> str:
    return f"stderr: {event.text}" if event.aside else event.text


_WORDS: dict[type[Event], Callable[[Any], str | None]] = {
    Started: _started,
    Session: lambda event: f"session {event.id}",
    Text: lambda event: event.text,
    ToolUse: _tool,
    Retrying: _retrying,
    Usage: _usage,
    Cost: _cost,
    LimitSignal: _limit,
    Fault: _fault,
    Finished: _finished,
    Noise: _noise,
}
