"""What all programs with a stream of JSON lines have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from hostler.agents.events import Event, Noise, Session
from hostler.agents.foreign import object_in, words
from hostler.agents.lastword import last_word
from hostler.agents.lines import Line, Stream
from hostler.agents.program import Program
from hostler.agents.tally import Tally
from hostler.agents.verdict import Verdict
from hostler.config.settings import Agent
from hostler.errors import Problem

# What the lines of one type say.
Reading = Callable[[Mapping[str, Any]], Iterator[Event]]


def nothing(_raw: Mapping[str, Any]) -> Iterator[Event]:
    """Of lines that are known, and say nothing that matters."""
    return iter(())


class Streamed:
    """One kind: its program, and what lines of each `type` mean. Other lines are noise."""

    PROGRAM: ClassVar[Program]
    READ: ClassVar[Mapping[str, Reading]]

    @property
    def program(self) -> Program:
        return self.PROGRAM

    def mistakes(self, agent: Agent, path: str) -> Sequence[Problem]:
        return self.PROGRAM.mistakes(agent, path)

    def events(self, line: Line) -> Sequence[Event]:
        if line.stream is Stream.STDERR:
            return [*self.aside(line.text), Noise(line.text, aside=True)]
        raw = object_in(line.text)
        read = self.READ.get(words(raw, "type")) if raw is not None else None
        if raw is None or read is None:
            return [Noise(line.text)]
        return [self._believed(event, line) for event in read(raw)]

    def _believed(self, event: Event, line: Line) -> Event:
        """A session's name becomes an argument one day; what has not its form is noise."""
        if not isinstance(event, Session) or not event.id or self.PROGRAM.names_session(event.id):
            return event
        return Noise(line.text)

    def aside(self, _text: str) -> Iterator[Event]:
        """What a line beside the stream says."""
        return iter(())

    def own_word(self, exit_code: int | None, tally: Tally, /) -> Verdict:
        return last_word(exit_code, tally)
