"""Any program as an agent: it reads the prompt, and its exit code decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.agents.adapters.base import check_program_exists, fill_prompt
from hostler.agents.agent_files import OutputLine, OutputStream
from hostler.agents.assignment import Assignment, Launch
from hostler.agents.events import Event, Noise, StreamTally, Text
from hostler.agents.verdict import RunVerdict, judge_exit_code
from hostler.config.settings import Agent
from hostler.errors import Problem


class CommandAdapter:
    """Runs a program that follows the contract, or at least sets its exit code."""

    program = None

    def mistakes(self, agent: Agent, path: str) -> Sequence[Problem]:
        if not agent.command:
            return [Problem("command", "nothing", 'the program to run, as in ["my-agent"]')]
        return check_program_exists(agent.command[0], path)

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv, stdin = fill_prompt(
            [*agent.command, *agent.extra_args], agent.prompt, work.prompt_file
        )
        return Launch(argv, str(work.checkout), env, stdin)

    def events(self, line: OutputLine) -> Sequence[Event]:
        return [
            Text(line.text) if line.stream is OutputStream.STDOUT else Noise(line.text, aside=True)
        ]

    def program_verdict(self, exit_code: int | None, _: StreamTally, /) -> RunVerdict:
        return judge_exit_code(exit_code)
