"""What the tests of agents share: an assignment in folders of its own, and the real player."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hostler.agents.adapters.registry import find_kind
from hostler.agents.agent_files import OutputLine, OutputStream, OutputTail
from hostler.agents.assignment import Assignment
from hostler.agents.classify import judge_finished_run
from hostler.agents.events import Event, tally_events
from hostler.agents.prepare import prepare_launch
from hostler.agents.scripted.adapter import ScriptedAdapter
from hostler.agents.verdict import EndedBy, ProcessExit, RunVerdict
from hostler.config.settings import Agent


@pytest.fixture
def work(tmp_path: Path) -> Assignment:
    task = tmp_path / "home" / "projects" / "p" / "tasks" / "t1"
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    run = task / "runs" / "r1"
    run.mkdir(parents=True)
    return Assignment(
        run="r1",
        task="t1",
        project="p",
        attempt=1,
        home=tmp_path / "home",
        task_dir=task,
        run_dir=run,
        checkout=checkout,
        prompt="Mend the fence.\n",
    )


@pytest.fixture
def ours(environment: dict[str, str]) -> dict[str, str]:
    """Our own environment, with a token that must not leave it."""
    return {**environment, "GITHUB_TOKEN": "a-token-of-ours", "USER": "tester"}


@dataclass
class Ended:
    """How a launched agent ended."""

    code: int
    events: list[Event]
    stderr: str
    verdict: RunVerdict


@dataclass
class Player:
    """Plays steps as the supervisor would start them: output to files, standard input a file."""

    work: Assignment
    ours: dict[str, str]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, agent: Agent) -> subprocess.Popen[bytes]:
        spec = prepare_launch(agent, self.work, self.ours).spec(self.work.run)
        run = self.work.run_dir
        with (
            Path(spec["stdin"] or os.devnull).open("rb") as stdin,
            (run / "stdout").open("wb") as out,
            (run / "stderr").open("wb") as err,
        ):
            process = subprocess.Popen(
                spec["argv"],
                cwd=spec["cwd"],
                env=spec["env"],
                stdin=stdin,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def run(self, agent: Agent, ended_by: EndedBy = EndedBy.EXIT) -> Ended:
        code = self.start(agent).wait(60)
        kind = find_kind(agent)
        run = self.work.run_dir
        lines = OutputTail(run / "stdout", OutputStream.STDOUT).rest()
        events = [event for line in lines for event in kind.events(line)]
        exit = ProcessExit(ended_by, code)
        verdict = judge_finished_run(agent, run, self.work.task_dir, exit, tally_events(events))
        return Ended(code, events, (run / "stderr").read_text(errors="replace"), verdict)

    def play(self, *steps: dict[str, Any], **more: Any) -> Ended:
        """Play these steps to their end."""
        return self.run(self.scripted(*steps, **more))

    def scripted(self, *steps: dict[str, Any], **more: Any) -> Agent:
        script = self.work.run_dir / "play.json"
        script.write_text(json.dumps({"steps": list(steps), **more} if steps else more))
        return Agent(kind="scripted", script=str(script))

    def attempt(self, number: int) -> Player:
        """The same task, one attempt later."""
        run = self.work.task_dir / "runs" / f"r{number}"
        run.mkdir(exist_ok=True)
        later = replace(self.work, attempt=number, run=f"r{number}", run_dir=run)
        return Player(later, self.ours, self.started)

    def told(self, **context: Any) -> Player:
        """The same run, with a context."""
        return Player(replace(self.work, context=context), self.ours, self.started)


@pytest.fixture
def player(work: Assignment, ours: dict[str, str]) -> Iterator[Player]:
    made = Player(work, ours)
    yield made
    for process in made.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def heard(process: subprocess.Popen[bytes]) -> Iterator[Event]:
    """Events of a player that still runs, as they come."""
    assert process.stdout is not None
    for line in process.stdout:
        yield from ScriptedAdapter().events(
            OutputLine(OutputStream.STDOUT, line.decode().rstrip("\n"))
        )


@pytest.fixture
def piped(work: Assignment, ours: dict[str, str]) -> Iterator[Callable[..., Any]]:
    """Start the player with its output on a pipe, so that a test can wait for what it says."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*steps: dict[str, Any]) -> subprocess.Popen[bytes]:
        agent = Player(work, ours).scripted(*steps)
        spec = prepare_launch(agent, work, ours).spec(work.run)
        started.append(
            subprocess.Popen(
                spec["argv"],
                cwd=spec["cwd"],
                env=spec["env"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def repository(work: Assignment, environment: dict[str, str]) -> Callable[..., str]:
    """A real repository in the checkout; runs git there."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=work.checkout,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    return git
