"""An agent that plays a file: for demonstrations and tests, without any model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostler.agents.errors import ScriptError
from hostler.agents.events import Event, Noise
from hostler.agents.exitcodes import by_exit_code
from hostler.agents.launch import Assignment, Launch
from hostler.agents.lines import Line, Stream
from hostler.agents.outcomes import Outcome
from hostler.agents.program import missing_program
from hostler.agents.script import load
from hostler.agents.tally import Tally
from hostler.agents.verdict import DecidedBy, Verdict
from hostler.agents.wire import decode
from hostler.config.settings import Agent
from hostler.errors import Problem

# Isolated: a checkout with a module of the same name must not be played instead.
PLAYER = (sys.executable, "-I", "-m", "hostler.agents.player")


class Scripted:
    """The player, and its stream of our own events."""

    program = None

    def mistakes(self, agent: Agent, path: str) -> Sequence[Problem]:
        try:
            load(_script(agent))
        except ScriptError as error:
            return error.problems
        return missing_program(agent.command[0], path) if agent.command else []

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv = (*(agent.command or PLAYER), str(_script(agent)), *agent.extra_args)
        return Launch(argv, str(work.checkout), env, str(work.prompt_file))

    def events(self, line: Line) -> Sequence[Event]:
        return [decode(line.text) if line.stream is Stream.STDOUT else Noise(line.text, aside=True)]

    def own_word(self, exit_code: int | None, tally: Tally, /) -> Verdict:
        """Success needs the exit code and the last event; a failure is what the stream says."""
        ended = tally.finished
        if ended is None and exit_code == 0:
            why = "It exited with 0, but without its last event."
            return Verdict(Outcome.CRASH, DecidedBy.STREAM, why)
        if ended is not None and not ended.ok and ended.outcome not in {None, Outcome.SUCCESS}:
            why = ended.text or f"It says that it ended with {ended.outcome}."
            return Verdict(ended.outcome or Outcome.CRASH, DecidedBy.STREAM, why)
        if tally.limit is not None and exit_code != 0:
            why = f"It ended while a limit stood: {tally.limit.reason}."
            return Verdict(tally.limit.reason, DecidedBy.STREAM, why)
        if ended is not None and not ended.ok and exit_code == 0:
            return Verdict(Outcome.CRASH, DecidedBy.STREAM, ended.text or "It says that it failed.")
        return by_exit_code(exit_code)


def _script(agent: Agent) -> Path:
    return Path(agent.script).expanduser().absolute()
