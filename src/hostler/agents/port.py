"""What Hostler needs from a kind of agent. One small file per kind fills it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hostler.agents.events import Event
from hostler.agents.launch import Assignment, Launch
from hostler.agents.lines import Line
from hostler.agents.program import Program
from hostler.agents.tally import Tally
from hostler.agents.verdict import Verdict
from hostler.config.settings import Agent
from hostler.errors import Problem


class AgentKind(Protocol):
    """One kind of agent. All but `mistakes` are pure and keep no state between calls.

    `program`: what is known of the one program behind it; None where it may be any.
    """

    @property
    def program(self) -> Program | None: ...

    def mistakes(self, agent: Agent, path: str) -> Sequence[Problem]:
        """What in its settings or on this machine would keep it from starting."""
        ...

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        """How to start its process for this work in this environment, limits aside."""
        ...

    def events(self, line: Line) -> Sequence[Event]:
        """What one line of its output says."""
        ...

    def own_word(self, exit_code: int | None, tally: Tally, /) -> Verdict:
        """What its program says about its end, before files and our own doing are looked at."""
        ...
