"""A town per test, on a GitHub of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from agent_hostler import agent_hostler
from gc_yard import Fields, Yard
from intake_yard import lay_database
from rough_town import MakeTown, Plot, RoughTown
from scheduler_fleet import Fleet, MakeFleet, fleet_of
from service_town import Town, github

from hostler.clock import FakeClock, SystemClock
from hostler.forge.github.hub import open_github
from hostler.service.context import open_or_create_store
from hostler_program import run_hostler


@pytest.fixture(scope="session")
def agent_commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with a `hostler` for agents that needs no time to load."""
    folder = tmp_path_factory.mktemp("agent")
    # Load it here, where no test waits for an agent with a limit.
    run_hostler(["--version"], cwd=folder, env={"HOME": str(folder)})
    with agent_hostler(folder) as programs:
        yield programs


@pytest.fixture
def quick_commands(agent_commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let agents of this test run the `hostler` of `agent_commands`."""
    monkeypatch.setenv("PATH", f"{agent_commands}:{os.environ['PATH']}")


@pytest.fixture
def found_town(tmp_path: Path, quick_commands: None) -> Iterator[Callable[..., Town]]:
    """A town with settings of one's own."""
    with ExitStack() as stack:

        def found(sandbox: dict[str, Any] | None = None, **settings: Any) -> Town:
            hub = stack.enter_context(github(**(sandbox or {})))
            return Town(hub, tmp_path, **settings)

        yield found


@pytest.fixture
def town(found_town: Callable[..., Town]) -> Town:
    return found_town()


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """A home to clean up, whose clock begins at the machine's time."""
    home, clock = tmp_path / "home", FakeClock(SystemClock().now())
    lay_database(home)
    store = open_or_create_store(home, None, clock)
    yield Yard(home, store, clock)
    store.close()


@pytest.fixture
def fields(yard: Yard, tmp_path: Path) -> Fields:
    return Fields.plant(yard, tmp_path / "git")


@pytest.fixture
def rough(
    tmp_path: Path, quick_commands: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeTown]:
    """A town with these plots. Reads that fail are repeated at once."""
    monkeypatch.setitem(open_github.__kwdefaults__, "pauses", (0.0, 0.0))
    with ExitStack() as stack:

        def found(*plots: Plot, **settings: Any) -> RoughTown:
            hub = stack.enter_context(github())
            runtime = {"worker_count": 8, "stop_grace_seconds": 1}
            return RoughTown(hub, tmp_path, plots=list(plots), runtime=runtime, **settings)

        yield found


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeFleet]:
    """A service for several repositories, without network and processes."""
    with ExitStack() as stack:

        def found(*projects: str, **runtime: Any) -> Fleet:
            return stack.enter_context(
                fleet_of(tmp_path / "fleet", monkeypatch, *projects, **runtime)
            )

        yield found
