"""Run the repository's own commands (setup, required tests) in the agent's environment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from hostler.checkouts import agent_folder, process
from hostler.checkouts.agent_folder import require_checkout
from hostler.telemetry.redaction import redact

MAX_OUTPUT_TAIL_BYTES = 64 * 1024
_SETUP_FILE = "hostler-setup"


class CommandEnd(StrEnum):
    """How a command ended."""

    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """One command, how it ended, and the end of its output with secrets redacted."""

    command: str
    ending: CommandEnd
    code: int | None
    tail: str

    @property
    def passed(self) -> bool:
        return self.ending is CommandEnd.PASSED


def run_command(
    command: str, cwd: Path, env: Mapping[str, str], *, seconds: float
) -> CommandResult:
    """Run one shell command with this environment only.

    All processes that it starts are ended with it, also in sessions of their own.
    """
    output = process.TailBuffer(MAX_OUTPUT_TAIL_BYTES)
    argv = ("/bin/sh", "-c", command)
    code = process.run_child(
        process.ChildProcess(argv, cwd, env, seconds, mark=uuid4().hex), output
    )
    ending = {None: CommandEnd.TIMED_OUT, 0: CommandEnd.PASSED}.get(code, CommandEnd.FAILED)
    return CommandResult(command, ending, code, redact(output.text()))


def run_tests(
    commands: Sequence[str], cwd: Path, env: Mapping[str, str], *, seconds: float
) -> tuple[CommandResult, ...]:
    """Run the required tests in order, up to the first that fails."""
    results: list[CommandResult] = []
    for command in commands:
        results.append(run_command(command, cwd, env, seconds=seconds))
        if not results[-1].passed:
            break
    return tuple(results)


def run_setup(
    path: Path, command: str, env: Mapping[str, str], *, seconds: float
) -> CommandResult | None:
    """Set up a fresh checkout; None if this command has been run there before."""
    require_checkout(path)
    digest = hashlib.sha256(command.encode()).hexdigest().encode()
    if agent_folder.read_file(path, ".git", _SETUP_FILE, limit=256) == digest:
        return None
    result = run_command(command, path, env, seconds=seconds)
    if result.passed:
        agent_folder.write_file(path, ".git", _SETUP_FILE, data=digest)
    return result
