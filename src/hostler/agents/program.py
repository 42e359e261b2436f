"""What is known of the program behind a kind of agent, beside what it prints."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hostler.agents.launch import Assignment
from hostler.config.settings import Agent
from hostler.errors import Problem

# How most of them name their sessions.
UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@dataclass(frozen=True, slots=True)
class Login:
    """A question that a program answers without asking a model: is somebody logged in?

    `answer` reads its exit code, output and errors: yes, no, or None where that cannot be told.
    """

    arguments: tuple[str, ...]
    answer: Callable[[int, str, str], bool | None]


@dataclass(frozen=True, slots=True)
class Program:
    """One program.

    variables  of ours that it sees without being listed: its own provider's key and addresses
    settings   variables that it always gets
    keys       those of them that hold a key with which it needs no login
    known      the version whose output was recorded; of a newer one, some may not be understood
    version    arguments that print a version, and do nothing else
    login      how it is asked whether somebody is logged in; None: it cannot be asked
    session    the form of its sessions' names: what is of another one was not said by it
    apart      whether it starts each tool in a session of its own
    carried    what it goes on counting when a session is taken up again: `usage`, `usd`
    """

    name: str
    known: str
    variables: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    version: tuple[str, ...] = ("--version",)
    login: Login | None = None
    session: str = UUID
    carried: frozenset[str] = frozenset()
    # So it was seen of all that are known.
    apart: bool = True

    def argv(self, agent: Agent) -> tuple[str, ...]:
        """How it is called: by its name, or as the settings say."""
        return tuple(agent.command) or (self.name,)

    def names_session(self, name: str) -> bool:
        """Whether a session of its can have this name. An agent may print any other."""
        return re.fullmatch(self.session, name) is not None

    def resumed(self, work: Assignment) -> str:
        """The session to go on with, as an argument; empty: a new one."""
        return work.session if self.names_session(work.session) else ""

    def mistakes(self, agent: Agent, path: str) -> Sequence[Problem]:
        """Whether it is there."""
        return missing_program(self.argv(agent)[0], path)


def found_program(program: str, path: str) -> str | None:
    """Where a program is; None where it is not, or where that cannot be known yet."""
    return None if _in_the_checkout(program) else shutil.which(program, path=path)


def missing_program(program: str, path: str) -> list[Problem]:
    """A mistake if there is no such program. One named from the checkout cannot be known yet."""
    if _in_the_checkout(program) or found_program(program, path):
        return []
    hint = "Install it, or write its whole path."
    return [Problem("command", f'"{program}"', "a program on PATH", hint)]


def _in_the_checkout(program: str) -> bool:
    return "/" in program and not program.startswith("/")
