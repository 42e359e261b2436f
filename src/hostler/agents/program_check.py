"""Check an agent's program: is it installed, is its version known, can it call its provider?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hostler.agents.adapters.base import AgentProgram, find_program
from hostler.agents.adapters.registry import find_kind
from hostler.agents.prepare import has_own_home
from hostler.agents.program_query import ProgramOutput, query_program
from hostler.config.settings import Agent
from hostler.health import CheckStatus, Finding

INSTALLED_FINDING, VERSION_FINDING, MEMORY_FINDING = "installed", "version", "memory"
# With less, some known programs exit at once.
MIN_MEMORY_MB = 1024
# Version parts have at most this many digits.
_VERSION_PATTERN = re.compile(r"(?<![\d.])\d{1,9}(?:\.\d{1,9}){1,3}")


def parse_version(text: str) -> str:
    """Return the first version in a program's output, or an empty text. Pure."""
    found = _VERSION_PATTERN.search(text)
    return found[0] if found else ""


def is_newer(version: str, known: str) -> bool:
    """Return whether a version is newer than a known one. Pure."""
    return _version_numbers(version) > _version_numbers(known)


def _version_numbers(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in version.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()  # 1.2 and 1.2.0 are equal
    return tuple(numbers)


def program_name(agent: Agent) -> str:
    """Return the name of an agent's program; empty if it is a part of Hostler."""
    known = find_kind(agent).program
    argv = known.argv(agent) if known else tuple(agent.command)
    return argv[0] if argv and agent.kind != "scripted" else ""


def find_program_path(agent: Agent, path: str) -> str | None:
    """Return the path of a program on this PATH, or None."""
    return find_program(program_name(agent), path) if program_name(agent) else None


def read_version(agent: Agent, env: Mapping[str, str], folder: Path) -> str:
    """Start the program and return its version, or an empty text."""
    known = find_kind(agent).program
    if known is None or find_program_path(agent, env["PATH"]) is None:
        return ""
    return parse_version(query_program([*known.argv(agent), *known.version], env, folder).out)


def check_installed(agent: Agent, path: str) -> list[Finding]:
    """Check that the program can be started. Return the problem, or its path."""
    wrong = [problem.sentence() for problem in find_kind(agent).mistakes(agent, path)]
    if wrong:
        remedy = "Install it, or fix its settings."
        return [
            Finding(INSTALLED_FINDING, CheckStatus.FAILED, sentence, remedy) for sentence in wrong
        ]
    program = program_name(agent)
    where = find_program_path(agent, path) or f"{program} (looked for in the checkout)"
    return [
        Finding(
            INSTALLED_FINDING, CheckStatus.OK, where if program else f"{agent.script} is in order"
        )
    ]


def check_version(agent: Agent, found: str) -> list[Finding]:
    """Compare the version with the known one. Pure."""
    known = find_kind(agent).program
    if known is None:
        return []
    if not found:
        remedy = f"Run `{' '.join([*known.argv(agent), *known.version])}` to see why."
        return [
            Finding(VERSION_FINDING, CheckStatus.WARNING, "it does not print its version", remedy)
        ]
    return [_compare_version(known, found)]


def check_memory(agent: Agent) -> list[Finding]:
    """Check that the memory limit lets the program start. Pure."""
    if find_kind(agent).program is None or not 0 < agent.memory_limit_mb < MIN_MEMORY_MB:
        return []
    told = f"{agent.memory_limit_mb} MB may be too little to start"
    remedy = f"Give it {MIN_MEMORY_MB} or more, or 0 for no limit."
    return [Finding(MEMORY_FINDING, CheckStatus.WARNING, told, remedy)]


def _compare_version(known: AgentProgram, found: str) -> Finding:
    if not is_newer(found, known.known):
        return Finding(VERSION_FINDING, CheckStatus.OK, found)
    return Finding(
        VERSION_FINDING,
        CheckStatus.WARNING,
        f"{found} is newer than {known.known}, which was recorded: some output may not be "
        "understood",
        "If an outcome is wrong, `hostler agents classify` shows why.",
    )


LOGIN_FINDING = "login"


def check_login(agent: Agent, env: Mapping[str, str], folder: Path) -> list[Finding]:
    """Check for a key in the environment, else ask the program. May start it."""
    program = find_kind(agent).program
    if program is None:
        return []
    if keys := [name for name in program.keys if env.get(name)]:
        told = f"{keys[0]} is set; only `hostler agents try` shows whether the provider accepts it"
        return [Finding(LOGIN_FINDING, CheckStatus.OK, told)]
    if program.login is None:
        found = _login_unknown(program, "the program has no login check")
    else:
        argv = [*program.argv(agent), *program.login.arguments]
        found = judge_login_output(program, query_program(argv, env, folder))
    if found.status is not CheckStatus.OK and has_own_home(agent):
        found = replace(found, remedy=_own_home_remedy(program))
    return [found]


def judge_login_output(program: AgentProgram, answer: ProgramOutput) -> Finding:
    """Judge the program's answer about its login. Pure."""
    asked = program.login
    if asked is None or answer.code is None:
        return _login_unknown(program, answer.problem)
    told = asked.answer(answer.code, answer.out, answer.err)
    if told is None:
        return _login_unknown(program, f"`{_login_command(program)}` does not say")
    if told:
        return Finding(LOGIN_FINDING, CheckStatus.OK, f"`{_login_command(program)}` says yes")
    return Finding(
        LOGIN_FINDING,
        CheckStatus.FAILED,
        "not logged in, and no key is set",
        _login_remedy(program),
    )


def _login_unknown(program: AgentProgram, why: str) -> Finding:
    return Finding(LOGIN_FINDING, CheckStatus.SKIPPED, f"not known: {why}", _login_remedy(program))


def _login_command(program: AgentProgram) -> str:
    return " ".join([program.name, *(program.login.arguments if program.login else ())])


def _login_remedy(program: AgentProgram) -> str:
    way = f"Log in with {program.name} as the user that runs agents."
    return f"{way[:-1]}, or set {_key_names(program)}." if program.keys else way


def _own_home_remedy(program: AgentProgram) -> str:
    """Return the remedy for an agent with its own HOME."""
    way = f"Set {_key_names(program)}" if program.keys else "Name its provider's key in `env`"
    return f"{way}: it has its own HOME, without your login."


def _key_names(program: AgentProgram) -> str:
    return " or ".join(program.keys)
