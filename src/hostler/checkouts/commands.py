"""The repository's own commands: setup and required tests, in the agent's environment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from hostler.checkouts import beneath, process
from hostler.checkouts.inspection import require_checkout
from hostler.telemetry.redact import redact

TAIL_BYTES = 64 * 1024
_SETUP_MARK = "hostler-setup"


class Ending(StrEnum):
    """How a command ended."""

    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Result:
    """One command, how it ended, and the end of what it said, without secrets that we know."""

    command: str
    ending: Ending
    code: int | None
    tail: str

    @property
    def passed(self) -> bool:
        return self.ending is Ending.PASSED


def run_command(command: str, cwd: Path, env: Mapping[str, str], *, seconds: float) -> Result:
    """Run one shell command with this environment and nothing of ours.

    Whatever it starts ends with it, also in sessions of its own.
    """
    said = process.Tail(TAIL_BYTES)
    argv = ("/bin/sh", "-c", command)
    code = process.run(process.Child(argv, cwd, env, seconds, mark=uuid4().hex), said)
    ending = {None: Ending.TIMED_OUT, 0: Ending.PASSED}.get(code, Ending.FAILED)
    return Result(command, ending, code, redact(said.text()))


def run_tests(
    commands: Sequence[str], cwd: Path, env: Mapping[str, str], *, seconds: float
) -> tuple[Result, ...]:
    """Run the required tests in order, up to the first that does not pass."""
    results: list[Result] = []
    for command in commands:
        results.append(run_command(command, cwd, env, seconds=seconds))
        if not results[-1].passed:
            break
    return tuple(results)


def run_setup(path: Path, command: str, env: Mapping[str, str], *, seconds: float) -> Result | None:
    """Prepare a fresh checkout; None if this command has prepared it already."""
    require_checkout(path)
    digest = hashlib.sha256(command.encode()).hexdigest().encode()
    if beneath.read(path, ".git", _SETUP_MARK, limit=256) == digest:
        return None
    result = run_command(command, path, env, seconds=seconds)
    if result.passed:
        beneath.write(path, ".git", _SETUP_MARK, data=digest)
    return result
