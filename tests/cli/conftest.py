"""Commands of these tests run in their process, except where a test asks for a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from agent_hostler import agent_hostler
from command_calls import Done, caller

from hostler_program import run_hostler


@pytest.fixture(scope="session")
def agent_commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with a `hostler` for agents that needs no time to load."""
    with agent_hostler(tmp_path_factory.mktemp("agent")) as folder:
        yield folder


@pytest.fixture
def command_folder(tmp_path: Path) -> Path:
    """An empty folder in which commands run."""
    made = tmp_path / "cwd"
    made.mkdir()
    return made


@pytest.fixture
def hostler(command_folder: Path, environment: dict[str, str]) -> Callable[..., Done]:
    """Run a command in this process."""
    return caller(command_folder, environment)


@pytest.fixture
def hostler_process(command_folder: Path, environment: dict[str, str]) -> Callable[..., Done]:
    """Run the real program in a process of its own."""

    def run(*argv: str | Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Done:
        given = {**environment, **(env or {})}
        done = run_hostler([*map(str, argv)], cwd=command_folder, env=given, stdin=stdin)
        return Done(done.returncode, done.stdout, done.stderr)

    return run
