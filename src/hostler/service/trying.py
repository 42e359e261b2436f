"""One small prompt to an agent, under the real supervisor; nothing of it is a task."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hostler.agents.asking import ask
from hostler.agents.clocktime import dated
from hostler.agents.conclude import conclude
from hostler.agents.environment import secret_names
from hostler.agents.exitword import LOST, read_word
from hostler.agents.kinds import kind_of
from hostler.agents.launch import Assignment, Limits
from hostler.agents.lines import Line, Stream, Tail
from hostler.agents.prepare import prepare
from hostler.agents.tally import Tally, tally
from hostler.agents.verdict import Verdict
from hostler.bus.watching import Watch, watch
from hostler.clock import Clock
from hostler.config.secrets import secret_files
from hostler.config.settings import Agent, Settings
from hostler.errors import HostlerError
from hostler.runs.dispatcher import Spawned, shim_environment, spawn
from hostler.runs.process_watch import reap
from hostler.runs.run_folder import make_folder, read_exit_file
from hostler.service.examining import scratch_work
from hostler.shim import files, sweep

# A small prompt takes minutes at most; nobody wants to pay for more.
WALL_SECONDS = 600.0
USUAL_PROMPT = "This is a trial. Write the line `It works.` to the file `trial.txt` here."
ENDING = """
Then run `hostler done --summary "It works."`, or write `{"status": "done", "summary": "It works."}`
to the path in the environment variable HOSTLER_RESULT, and end.
"""
_FIRST_FILE = "A scratch repository. Nothing in it is kept.\n"


class NoRepository(HostlerError):
    """The scratch repository of a trial could not be made."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"A scratch repository could not be made: {why}",
            safe="No agent was started.",
            remedy="Install git, or make room where temporary files are.",
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """How a trial ended."""

    verdict: Verdict
    tally: Tally
    seconds: float

    @property
    def wrote_result(self) -> bool:
        return self.verdict.result is not None


def make_repository(folder: Path, ours: Mapping[str, str]) -> None:
    """A repository with one commit; nobody's git settings play a part."""
    (folder / "README.md").write_text(_FIRST_FILE)
    env = {"PATH": ours.get("PATH", os.defpath), "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=Hostler", "-c", "user.email=hostler@localhost")
    steps = (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "README.md"),
        (*who, "commit", "--quiet", "--message=Begin"),
    )
    for step in steps:
        done = ask(["git", *step], env, folder)
        if done.code != 0:
            raise NoRepository(done.problem or done.err.strip())


def trial_work(agent: Agent, settings: Settings, folder: Path, prompt: str) -> Assignment:
    """What the agent is asked to do. Pure."""
    limits = Limits(
        wall_seconds=agent.wall_limit_minutes * 60.0 or WALL_SECONDS,
        silence_seconds=settings.tasks.silence_limit_minutes * 60.0,
        grace_seconds=settings.runtime.stop_grace_seconds,
    )
    work = scratch_work(folder, f"{prompt}\n{ENDING}")
    return replace(work, limits=limits, private=secret_files(settings))


class Trial:
    """One agent at work on a trial. `stop` may be called by a signal's handler at any time."""

    def __init__(
        self,
        agent: Agent,
        work: Assignment,
        clock: Clock,
        heard: Callable[[Line], None],
    ) -> None:
        self._agent = agent
        self._work = work
        self._clock = clock
        self._heard = heard
        self._kind = kind_of(agent)
        self._tally = Tally()
        self._graces = iter((work.limits.grace_seconds,))
        self._shim: int | None = None
        make_folder(work.run_dir)
        self._tails = [Tail(work.run_dir / stream, stream) for stream in Stream]

    def run(self, settings: Settings, ours: Mapping[str, str]) -> Tried:
        """From launch to verdict. Nothing of the agent is left when this returns or raises."""
        launch = prepare(self._agent, self._work, ours, secret_names(settings))
        folder, spec = str(self._work.run_dir), launch.spec(self._work.run)
        files.write(f"{folder}/{files.SPEC}", spec)
        spawned = spawn(self._work.run, folder, shim_environment(ours, spec["inherit"]))
        try:
            mark = str(spawned.ready()["mark"])
            self._shim = spawned.hand_over()
            self._see_out(spawned, self._shim)
        except BaseException:
            self.stop()
            raise
        finally:
            self._let_go(spawned)
        return self._concluded(mark)

    def stop(self) -> None:
        """Ask the supervisor to end the agent's whole tree; the second time, without grace."""
        asked = {"why": "the trial was interrupted", "grace_seconds": next(self._graces, 0.0)}
        # One that is interrupted by the next one has asked already.
        with suppress(FileNotFoundError):
            files.write(str(self._work.run_dir / files.STOP), asked)
        if self._shim is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._shim, signal.SIGUSR1)

    def _see_out(self, spawned: Spawned, shim: int) -> None:
        """Until the shim has left."""
        with watch(self._clock, [self._work.run_dir]) as watching:
            threading.Thread(target=_stop_with, args=[watching, shim], daemon=True).start()
            spawned.go()
            while not watching.stopped:
                self._listen()
                watching.wait()

    def _let_go(self, spawned: Spawned) -> None:
        shim, self._shim = self._shim, None
        if shim is None:
            spawned.discard()
            return
        reap(shim)
        os.close(shim)

    def _listen(self, *, rest: bool = False) -> None:
        for tail in self._tails:
            for line in tail.rest() if rest else tail.lines():
                events = [dated(one, self._clock.now()) for one in self._kind.events(line)]
                self._tally = tally(events, self._tally)
                self._heard(line)

    def _concluded(self, mark: str) -> Tried:
        word = read_exit_file(self._work.run_dir)
        if word is None:
            # The shim was killed: what the agent had started is found by its mark.
            sweep.end(mark, self._work.limits.grace_seconds)
        self._listen(rest=True)
        end = read_word(word) if word is not None else LOST
        verdict = conclude(self._agent, self._work.run_dir, self._work.task_dir, end, self._tally)
        seconds = (word or {}).get("seconds")
        return Tried(verdict, self._tally, seconds if isinstance(seconds, float) else 0.0)


def _stop_with(watching: Watch, shim: int) -> None:
    """Wake whoever watches when the shim has left."""
    poll = select.poll()
    poll.register(shim, select.POLLIN)
    poll.poll()
    watching.stop()
