"""The scripted agent, which plays a script instead of calling a model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostler.agents.adapters.base import check_program_exists
from hostler.agents.agent_files import OutputLine, OutputStream
from hostler.agents.assignment import Assignment, Launch
from hostler.agents.errors import ScriptError
from hostler.agents.events import Event, Noise, StreamTally, decode_event
from hostler.agents.outcomes import Outcome
from hostler.agents.scripted.script import load_script
from hostler.agents.verdict import DecidedBy, RunVerdict, judge_exit_code
from hostler.config.settings import Agent
from hostler.errors import Problem

# Isolated: a module with the same name in the checkout must not be imported.
PLAYER_COMMAND = (sys.executable, "-I", "-m", "hostler.agents.scripted.player")


class ScriptedAdapter:
    """Starts the player and parses its stream, which has the form of our own events."""

    program = None

    def mistakes(self, agent: Agent, path: str) -> Sequence[Problem]:
        try:
            load_script(_script_path(agent))
        except ScriptError as error:
            return error.problems
        return check_program_exists(agent.command[0], path) if agent.command else []

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv = (*(agent.command or PLAYER_COMMAND), str(_script_path(agent)), *agent.extra_args)
        return Launch(argv, str(work.checkout), env, str(work.prompt_file))

    def events(self, line: OutputLine) -> Sequence[Event]:
        return [
            decode_event(line.text)
            if line.stream is OutputStream.STDOUT
            else Noise(line.text, aside=True)
        ]

    def program_verdict(self, exit_code: int | None, tally: StreamTally, /) -> RunVerdict:
        """Success needs exit code 0 and the last event; failures are decided by the stream."""
        ended = tally.finished
        if ended is None and exit_code == 0:
            why = "It exited with 0, but without its last event."
            return RunVerdict(Outcome.CRASH, DecidedBy.STREAM, why)
        if ended is not None and not ended.ok and ended.outcome not in {None, Outcome.SUCCESS}:
            why = ended.text or f"It reported the outcome {ended.outcome}."
            return RunVerdict(ended.outcome or Outcome.CRASH, DecidedBy.STREAM, why)
        if tally.limit is not None and exit_code != 0:
            why = f"It ended while it was rate limited: {tally.limit.reason}."
            return RunVerdict(tally.limit.reason, DecidedBy.STREAM, why)
        if ended is not None and not ended.ok and exit_code == 0:
            return RunVerdict(
                Outcome.CRASH, DecidedBy.STREAM, ended.text or "It reported a failure."
            )
        return judge_exit_code(exit_code)


def _script_path(agent: Agent) -> Path:
    return Path(agent.script).expanduser().absolute()
