"""A town whose agents are real programs, and whose models are ours."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from model_api import ModelApi, Shell
from real_programs import installed, setup_of
from service_town import ALICE, Person, Service, Town

from hostler.store.governor import Signal, signals_of_pool
from hostler.store.runs import Run, RunState
from hostler.store.tasks import Task, TaskState
from started_processes import started_with

# A real program takes seconds to begin, and this machine may have other work.
PATIENCE = 100.0
# How the world outside is closed to programs that look for a proxy.
CLOSED = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
NOTES = "echo Real notes. >> notes.md"
SUMMARY = "Wrote the notes."
DONE = f"hostler done --summary '{SUMMARY}' --title 'Add notes'"
WORK = Shell(f"{NOTES} && {DONE}", "I write the notes now.")
MORE = Shell(f"{NOTES} && {DONE}", "I answer the review now.")


@dataclass
class RealTown:
    """One kind of program at work in a town."""

    kind: str
    town: Town
    api: ModelApi
    user: Path

    @property
    def alice(self) -> Person:
        return self.town.person(ALICE)

    def file(self) -> int:
        return self.alice.file("Write notes", "agent:small-job", body="Notes about mares, please.")

    def until_runs(self, service: Service, task: Task, count: int) -> list[Run]:
        """Its runs, when so many have ended and none is left."""

        def seen() -> list[Run] | None:
            runs = service.runs(task)
            ended = all(run.state is RunState.ENDED for run in runs)
            return runs if ended and len(runs) == count else None

        return service.until(seen, f"{count} runs", PATIENCE)

    def until_idle(self, service: Service, task: Task) -> list[Run]:
        """Its runs, when none is left."""

        def seen() -> list[Run] | None:
            runs = service.runs(task)
            return runs if all(run.state is RunState.ENDED for run in runs) else None

        return service.until(seen, "all runs ended", PATIENCE)

    def reach(self, service: Service, issue: int, state: TaskState) -> Task:
        def seen() -> Task | None:
            found = [task for task in service.all_tasks() if task.number == issue]
            return found[-1] if found and found[-1].state is state else None

        return service.until(seen, f"#{issue} {state}", PATIENCE)

    def signals(self, service: Service, run: Run) -> list[Signal]:
        with service.app.store.read() as tx:
            return [one for one in signals_of_pool(tx, run.pool) if one.run == run.run]

    def alive(self, run: Run) -> list[int]:
        """Processes of a run, wherever they went."""
        return [process.pid for process in started_with(f"HOSTLER_RUN={run.run}")]


def settle(
    kind: str,
    found_town: Callable[..., Town],
    api: ModelApi,
    monkeypatch: pytest.MonkeyPatch,
    settings: Mapping[str, Any],
    further: Mapping[str, str],
) -> RealTown:
    """A town with this kind of agent, and a user who owns nothing but its settings."""
    setup, programs = setup_of(kind, api.url), installed(kind)
    outside = dict(zip(CLOSED, (api.url, api.url, "127.0.0.1,localhost"), strict=True))
    variables = {**setup.variables, **outside, **further}
    agent = {"kind": kind, "env": sorted(variables), **setup.agent, **settings}
    town = found_town(agent=agent, tasks={"restart_delay_seconds": 0.0})
    user = town.root / "user"
    for name, text in setup.files.items():
        (user / name).parent.mkdir(parents=True, exist_ok=True)
        (user / name).write_text(text)
    user.mkdir(exist_ok=True)
    _become(monkeypatch, user, programs, variables)
    return RealTown(kind, town, api, user)


def _become(
    monkeypatch: pytest.MonkeyPatch, user: Path, programs: Path, variables: dict[str, str]
) -> None:
    """Our own environment for the length of a test: clean, but for what the agent needs."""
    path = f"{programs}:{os.environ['PATH']}"
    for name in list(os.environ):
        if name not in ("LANG", "TMPDIR") and not name.startswith("PYTEST"):
            monkeypatch.delenv(name)
    for name, value in {"PATH": path, "HOME": str(user), "TERM": "dumb", **variables}.items():
        monkeypatch.setenv(name, value)
