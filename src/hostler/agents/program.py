"""What is known of the program behind a kind of agent, beside what it prints."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hostler.config.settings import Agent
from hostler.errors import Problem


@dataclass(frozen=True, slots=True)
class Program:
    """One program.

    variables  of ours that it sees without being listed: its own provider's key and addresses
    settings   variables that it always gets
    known      the version whose output was recorded; of a newer one, some may not be understood
    version    arguments that print a version, and do nothing else
    login      arguments that say whether somebody is logged in, without asking a model; empty:
               there are none
    carried    what it goes on counting when a session is taken up again: `usage`, `usd`
    """

    name: str
    known: str
    variables: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    version: tuple[str, ...] = ("--version",)
    login: tuple[str, ...] = ()
    carried: frozenset[str] = frozenset()

    def argv(self, agent: Agent) -> tuple[str, ...]:
        """How it is called: by its name, or as the settings say."""
        return tuple(agent.command) or (self.name,)

    def mistakes(self, agent: Agent, path: str) -> Sequence[Problem]:
        """Whether it is there."""
        return missing_program(self.argv(agent)[0], path)


def missing_program(program: str, path: str) -> list[Problem]:
    """A mistake if there is no such program. One named from the checkout cannot be known yet."""
    in_the_checkout = "/" in program and not program.startswith("/")
    if in_the_checkout or shutil.which(program, path=path):
        return []
    hint = "Install it, or write its whole path."
    return [Problem("command", f'"{program}"', "a program on PATH", hint)]
