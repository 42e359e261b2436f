"""`hostler` alone, on a terminal and elsewhere."""

from __future__ import annotations

import os
import pty
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hostler.cli.main import CONSENT_FILE, describe_start
from hostler.config.settings import Agent, Budget, Repo, Settings
from hostler_program import Started

SETTINGS = """
[agent.helper]
kind = "command"
command = ["true"]
pool = "p"
"""


@contextmanager
def terminal(cwd: Path, environment: dict[str, str]) -> Iterator[Terminal]:
    """`hostler` in front of somebody."""
    ours, theirs = pty.openpty()
    program = Started([], cwd=cwd, env=environment, terminal=theirs)
    os.close(theirs)
    try:
        yield Terminal(program, ours)
    finally:
        program.kill()
        program.wait()
        os.close(ours)


class Terminal:
    def __init__(self, program: Started, screen: int) -> None:
        self.program = program
        self._screen = screen
        self.shown = ""

    def until(self, text: str) -> None:
        while text not in self.shown:
            self.shown += os.read(self._screen, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def end(self) -> int:
        with suppress(OSError):  # the other side has gone
            while part := os.read(self._screen, 4096):
                self.shown += part.decode()
        return self.program.wait(60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "here"
    made.mkdir()
    (made / "hostler.toml").write_text(SETTINGS)
    return made


def test_elsewhere_it_prints_help(hostler):
    done = hostler()
    assert (done.code, "Start here:" in done.out, done.err) == (2, True, "")


def test_a_no_starts_nothing_and_is_not_remembered(folder, home, environment):
    with terminal(folder, environment) as screen:
        screen.until("Start now?")
        assert "helper (command)" in screen.shown and "4 agents at once" in screen.shown
        screen.type("n\n")
        assert screen.end() == 1
    assert not home.exists()


def test_a_yes_starts_the_service_and_is_asked_for_once(folder, home, environment):
    with terminal(folder, environment) as screen:
        screen.until("Start now?")
        screen.type("y\n")
        screen.until("Ctrl-C to stop")
        assert (home / CONSENT_FILE).exists()
        # On a terminal it says what goes on, and what a second one means.
        screen.program.send_signal(signal.SIGINT)
        screen.until("Ctrl-C again to exit immediately")
        assert screen.end() == 0 and "Stopped." in screen.shown
    with terminal(folder, environment) as screen:
        screen.until("Ctrl-C to stop")
        assert "Start now?" not in screen.shown
        screen.program.send_signal(signal.SIGTERM)
        assert screen.end() == 0


def test_the_plan_names_repositories_agents_and_caps():
    settings = Settings(
        repo={"a": Repo(owner="octo", name="barn")},
        agent={"helper": Agent(kind="claude")},
        budget=Budget(per_task_usd=3.5, per_day_usd=0.0),
    )
    text = " ".join(describe_start(settings))
    for word in (
        "octo/barn",
        "helper (claude)",
        "4 agents",
        "3.5 USD per task",
        "no limit per day",
    ):
        assert word in text
    assert "manual tasks only" in describe_start(Settings())[0]
