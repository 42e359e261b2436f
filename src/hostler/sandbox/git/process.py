"""One git child: cleaned environment, bounded in time and number, never a shell."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from hostler.sandbox.git.errors import GitCommandFailed, GitTooSlow, NoSuchObject

COMMAND_TIMEOUT_SECONDS = 60.0
MAX_CHILDREN = 8
GRACE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Signature:
    """Who made a commit, and when."""

    name: str
    email: str
    when: datetime

    def as_author(self) -> dict[str, str]:
        return self._as("AUTHOR")

    def as_committer(self) -> dict[str, str]:
        return self._as("COMMITTER")

    def _as(self, role: str) -> dict[str, str]:
        return {
            f"GIT_{role}_NAME": self.name,
            f"GIT_{role}_EMAIL": self.email,
            f"GIT_{role}_DATE": f"{int(self.when.timestamp())} +0000",
        }


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """A git command's exit code and output."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "replace")

    @property
    def lines(self) -> list[str]:
        # Not splitlines(): branch names may hold letters that it takes for ends of lines.
        return self.text.removesuffix("\n").split("\n") if self.out else []


def clean_environment(home: Path) -> dict[str, str]:
    """Return an environment without the user's configuration, identity, prompts and pager."""
    identity = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Sandbox"), ("EMAIL", "sandbox@localhost"))
    }
    return identity | {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        # A path is a path: `:!x` and `*` are names of files.
        "GIT_LITERAL_PATHSPECS": "1",
    }


@dataclass(slots=True)
class GitRunner:
    """Runs git commands, a few at a time."""

    home: Path
    seconds: float = COMMAND_TIMEOUT_SECONDS
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CHILDREN))

    async def run(
        self,
        *args: str,
        cwd: Path,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (0,),
    ) -> CommandOutput:
        """Run `git args…` to its end; an exit code outside `accept` is an error."""
        async with self._places:
            child = await start_git(
                args, cwd=cwd, env=clean_environment(self.home) | dict(env or {})
            )
            try:
                out, err = await asyncio.wait_for(child.communicate(stdin), self.seconds)
            except TimeoutError:
                raise GitTooSlow(args, self.seconds) from None
            finally:
                await end_process(child)
        code = child.returncode if child.returncode is not None else -1
        if code not in accept:
            raise GitCommandFailed(args, code, err.decode("utf-8", "replace"))
        return CommandOutput(code, out, err)


async def start_git(
    args: tuple[str, ...], *, cwd: Path, env: Mapping[str, str]
) -> asyncio.subprocess.Process:
    """Start git in a process group of its own, so that its helpers can be ended with it."""
    try:
        return await asyncio.create_subprocess_exec(
            "git",
            *args,
            cwd=cwd,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        if cwd.is_dir():
            raise
        raise NoSuchObject(f"repository {cwd.stem}") from None


async def end_process(child: asyncio.subprocess.Process) -> None:
    """Make sure that the child and its helpers are gone and reaped."""
    if child.returncode is not None:
        return
    # Ask first: git removes its quarantined objects and lock files on SIGTERM.
    _signal_group(child, signal.SIGTERM)
    try:
        await asyncio.wait_for(_wait_for_end(child), GRACE_SECONDS)
    except TimeoutError:
        _signal_group(child, signal.SIGKILL)
        await _wait_for_end(child)


async def _wait_for_end(child: asyncio.subprocess.Process) -> None:
    """Wait for the end while reading what is left, so that a full pipe cannot hold it up."""
    if child.stdin is not None:
        child.stdin.close()
    await asyncio.gather(*(_discard(pipe) for pipe in (child.stdout, child.stderr) if pipe))
    await child.wait()


async def _discard(pipe: asyncio.StreamReader) -> None:
    while await pipe.read(65_536):
        pass


def _signal_group(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)
