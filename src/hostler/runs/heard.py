"""What one look at a stream says of its provider: refusals, words ahead of them, answers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler.agents.events import Event, Headroom, Text, ToolUse, Usage
from hostler.agents.tally import LONGEST_NAME, Tally
from hostler.runs.limits import Limit


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard and is not stored yet. `answers`: healthy responses of a model."""

    limits: tuple[Limit, ...] = ()
    words: tuple[Headroom, ...] = ()
    answers: int = 0

    def __bool__(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.limits or self.words or self.answers)


def is_answer(events: Sequence[Event], before: Tally) -> bool:
    """Whether a line begins a response of a model. One that comes in several lines is one."""
    named = [event.of[:LONGEST_NAME] for event in events if isinstance(event, Usage) and event.of]
    if named:
        return named[-1] not in {part.of for part in before.parts}
    return any(_speaks(event, before) for event in events)


def _speaks(event: Event, before: Tally) -> bool:
    if isinstance(event, Text):
        return not (event.delta and before.flowing)
    return isinstance(event, ToolUse)
