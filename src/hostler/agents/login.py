"""Whether an agent's program can call its provider, as far as that is known without spending."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hostler.agents.asking import Answer, ask
from hostler.agents.kinds import kind_of
from hostler.agents.prepare import has_own_home
from hostler.agents.program import Program
from hostler.config.settings import Agent
from hostler.health import Finding, Status

LOGIN = "login"


def login(agent: Agent, env: Mapping[str, str], folder: Path) -> list[Finding]:
    """A key in its environment, else what its program says of itself. May start the program."""
    program = kind_of(agent).program
    if program is None:
        return []
    if keys := [name for name in program.keys if env.get(name)]:
        told = f"{keys[0]} is set; whether the provider takes it, only a trial shows"
        return [Finding(LOGIN, Status.OK, told)]
    if program.login is None:
        found = _unknown(program, "it cannot be asked")
    else:
        argv = [*program.argv(agent), *program.login.arguments]
        found = meant(program, ask(argv, env, folder))
    if found.status is not Status.OK and has_own_home(agent):
        found = replace(found, remedy=_own(program))
    return [found]


def meant(program: Program, answer: Answer) -> Finding:
    """What its answer says. Pure."""
    asked = program.login
    if asked is None or answer.code is None:
        return _unknown(program, answer.problem)
    told = asked.answer(answer.code, answer.out, answer.err)
    if told is None:
        return _unknown(program, f"`{_question(program)}` does not say")
    if told:
        return Finding(LOGIN, Status.OK, f"`{_question(program)}` says yes")
    return Finding(LOGIN, Status.FAILED, "nobody is logged in, and there is no key", _way(program))


def _unknown(program: Program, why: str) -> Finding:
    return Finding(LOGIN, Status.SKIPPED, f"not known: {why}", _way(program))


def _question(program: Program) -> str:
    return " ".join([program.name, *(program.login.arguments if program.login else ())])


def _way(program: Program) -> str:
    way = f"Log in with {program.name} as the user that runs agents."
    return f"{way[:-1]}, or set {_keys(program)}." if program.keys else way


def _own(program: Program) -> str:
    """For one whose HOME is its task's."""
    way = f"Set {_keys(program)}" if program.keys else "Name its provider's key in `env`"
    return f"{way}: its HOME is its own, so a login elsewhere is not seen."


def _keys(program: Program) -> str:
    return " or ".join(program.keys)
