"""Any program as an agent: it gets the prompt, prints what it likes, and its exit code counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.agents.events import Event, Noise, Text
from hostler.agents.exitcodes import by_exit_code
from hostler.agents.launch import Assignment, Launch
from hostler.agents.lines import Line, Stream
from hostler.agents.program import missing_program
from hostler.agents.prompt import with_prompt
from hostler.agents.tally import Tally
from hostler.agents.verdict import Verdict
from hostler.config.settings import Agent
from hostler.errors import Problem


class Command:
    """A program that knows the contract, or at least how to exit."""

    program = None

    def mistakes(self, agent: Agent, path: str) -> Sequence[Problem]:
        if not agent.command:
            return [Problem("command", "nothing", 'the program to run, as in ["my-agent"]')]
        return missing_program(agent.command[0], path)

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv, stdin = with_prompt(
            [*agent.command, *agent.extra_args], agent.prompt, work.prompt_file
        )
        return Launch(argv, str(work.checkout), env, stdin)

    def events(self, line: Line) -> Sequence[Event]:
        return [Text(line.text) if line.stream is Stream.STDOUT else Noise(line.text, aside=True)]

    def own_word(self, exit_code: int | None, _: Tally, /) -> Verdict:
        return by_exit_code(exit_code)
