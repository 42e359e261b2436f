"""What an agent's stream says, in lines for people. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hostler.agents.events import (
    Event,
    Finished,
    LimitSignal,
    Noise,
    Retrying,
    Session,
    Started,
    Text,
    ToolUse,
)
from hostler.agents.kinds import KINDS
from hostler.agents.lines import Line, Stream


def readable(agent_kind: str, line: Line) -> Iterator[str]:
    """A line of a run's output as people read it; accounts of tokens and money are left out."""
    if line.stream is Stream.STDERR:
        yield f"stderr: {line.text}"
        return
    kind = KINDS.get(agent_kind)
    for event in kind.events(line) if kind else [Noise(line.text)]:
        told = _WORDS.get(type(event))
        yield from told(event).split("\n") if told else ()


def _started(event: Started) -> str:
    words = " ".join(word for word in (event.program, event.version, event.model) if word)
    return f"· started {words}".rstrip()


def _tool(event: ToolUse) -> str:
    return f"· {event.name} {event.detail}".rstrip()


def _retrying(event: Retrying) -> str:
    return f"· waits {event.seconds:.0f} s and asks its provider again: {event.reason}"


def _limit(event: LimitSignal) -> str:
    until = f" until {event.resets_at}" if event.resets_at else ""
    return f"· limited by its provider{until}: {event.reason}"


def _finished(event: Finished) -> str:
    how = "ended well" if event.ok else f"ended: {event.outcome or 'not well'}"
    return f"· {how}" + (f". {event.text}" if event.text else "")


_WORDS: dict[type[Event], Callable[[Any], str]] = {
    Started: _started,
    Session: lambda event: f"· session {event.id}",
    Text: lambda event: event.text,
    ToolUse: _tool,
    Retrying: _retrying,
    LimitSignal: _limit,
    Finished: _finished,
    Noise: lambda event: event.text,
}
