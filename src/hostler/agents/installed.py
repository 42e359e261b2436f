"""Whether an agent's program is there, which version it is, and whether we know that one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hostler.agents.asking import ask
from hostler.agents.kinds import kind_of
from hostler.agents.program import Program, found_program
from hostler.config.settings import Agent
from hostler.health import Finding, Status

INSTALLED, VERSION, MEMORY = "installed", "version", "memory"
# Of the programs that are known, some end at once with less.
LEAST_MEMORY_MB = 1024
# No version has more digits in one place; larger numbers are something else.
_VERSION = re.compile(r"(?<![\d.])\d{1,9}(?:\.\d{1,9}){1,3}")


def version_in(text: str) -> str:
    """The first version in what a program prints; empty where there is none. Pure."""
    found = _VERSION.search(text)
    return found[0] if found else ""


def is_newer(version: str, known: str) -> bool:
    """Whether a version comes after one that we know. Pure."""
    return _numbers(version) > _numbers(known)


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in version.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()  # 1.2 and 1.2.0 are the same
    return tuple(numbers)


def program_of(agent: Agent) -> str:
    """The name by which an agent's program is called; empty: it is a part of Hostler."""
    known = kind_of(agent).program
    argv = known.argv(agent) if known else tuple(agent.command)
    return argv[0] if argv and agent.kind != "scripted" else ""


def path_of(agent: Agent, path: str) -> str | None:
    """Where it is on this PATH; None where it is not."""
    return found_program(program_of(agent), path) if program_of(agent) else None


def version_of(agent: Agent, env: Mapping[str, str], folder: Path) -> str:
    """What its program says of its version; empty where it says none. Starts the program."""
    known = kind_of(agent).program
    if known is None or path_of(agent, env["PATH"]) is None:
        return ""
    return version_in(ask([*known.argv(agent), *known.version], env, folder).out)


def installed(agent: Agent, path: str) -> list[Finding]:
    """Whether it can be started: what is wrong, or where it is."""
    wrong = [problem.sentence() for problem in kind_of(agent).mistakes(agent, path)]
    if wrong:
        remedy = "Install it, or mend its settings."
        return [Finding(INSTALLED, Status.FAILED, sentence, remedy) for sentence in wrong]
    program = program_of(agent)
    where = path_of(agent, path) or f"{program} (looked for in the checkout)"
    return [Finding(INSTALLED, Status.OK, where if program else f"{agent.script} is in order")]


def version(agent: Agent, found: str) -> list[Finding]:
    """What its version means to us. Pure."""
    known = kind_of(agent).program
    if known is None:
        return []
    if not found:
        remedy = f"Run `{' '.join([*known.argv(agent), *known.version])}` to see why."
        return [Finding(VERSION, Status.WARNING, "it does not say its version", remedy)]
    return [_compared(known, found)]


def memory(agent: Agent) -> list[Finding]:
    """Whether its limit of memory lets its program start. Pure."""
    if kind_of(agent).program is None or not 0 < agent.memory_limit_mb < LEAST_MEMORY_MB:
        return []
    told = f"{agent.memory_limit_mb} MB may be too little to start"
    remedy = f"Give it {LEAST_MEMORY_MB} or more, or 0 for no limit."
    return [Finding(MEMORY, Status.WARNING, told, remedy)]


def _compared(known: Program, found: str) -> Finding:
    if not is_newer(found, known.known):
        return Finding(VERSION, Status.OK, found)
    return Finding(
        VERSION,
        Status.WARNING,
        f"{found} is newer than {known.known}, which was recorded: some output may not be "
        "understood",
        "If an end is judged wrongly, `hostler agents classify` shows why.",
    )
