"""Check an agent's configuration, and run a smoke test with a small prompt."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hostler.agents import program_check
from hostler.agents.adapters.provider_errors import resolve_clock_time
from hostler.agents.adapters.registry import find_kind
from hostler.agents.agent_files import OutputLine, OutputStream, OutputTail
from hostler.agents.assignment import Assignment, RunLimits
from hostler.agents.classify import judge_finished_run
from hostler.agents.errors import SecretRefused
from hostler.agents.events import StreamTally, tally_events
from hostler.agents.prepare import make_own_folders, plan_launch, prepare_launch, secret_variables
from hostler.agents.program_check import check_login
from hostler.agents.program_query import query_program
from hostler.agents.sandbox import check_sandbox
from hostler.agents.verdict import LOST_EXIT, RunVerdict, parse_exit
from hostler.bus.watch import BusWatch, open_watch
from hostler.clock import Clock
from hostler.config.settings import Agent, Settings, list_secret_files
from hostler.errors import HostlerError
from hostler.governor.policy import pool_of
from hostler.health import CheckStatus, Finding
from hostler.runs.dispatcher import Spawned, shim_environment, spawn
from hostler.runs.process_watch import reap
from hostler.runs.run_folder import make_folder, read_exit_file
from hostler.service.scheduling.placement import list_fallbacks
from hostler.shim import orphans, run_files

# Where nothing is known of an agent's own PATH.
_NO_PATH = ""
_ENVIRONMENT_CHECK, _FALLBACK_CHECK = "environment", "fallback"


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """One agent of the settings. No path: its program is missing, or a part of Hostler."""

    name: str
    kind: str
    model: str
    pool: str
    program: str
    path: str | None
    version: str
    fallback: str


def list_agents(settings: Settings, ours: Mapping[str, str], folder: Path) -> Iterator[AgentInfo]:
    """All agents, with the versions that their programs tell. Each program is asked once."""
    versions: dict[str, str] = {}
    for name, agent in settings.agent.items():
        env = _environment_or_path(agent, settings, ours, folder)
        path = program_check.find_program_path(agent, env["PATH"])
        if path is not None and path not in versions:
            versions[path] = program_check.read_version(agent, env, folder)
        yield AgentInfo(
            name=name,
            kind=agent.kind,
            model=agent.model,
            pool=pool_of(agent),
            program=program_check.program_name(agent),
            path=path,
            version=versions.get(path or "", ""),
            fallback=agent.fallback,
        )


def _environment_or_path(
    agent: Agent, settings: Settings, ours: Mapping[str, str], folder: Path
) -> Mapping[str, str]:
    """For a look that refuses nothing: of an agent that may not start, where its program is."""
    try:
        return _build_environment(agent, settings, ours, folder)
    except SecretRefused:
        return {"PATH": ours.get("PATH", _NO_PATH)}


def check_agent(
    settings: Settings, name: str, ours: Mapping[str, str], folder: Path
) -> Iterator[Finding]:
    """All questions to one agent, in an empty folder of its own."""
    agent = settings.agent[name]
    try:
        env = _build_environment(agent, settings, ours, folder)
    except SecretRefused as refused:
        yield Finding(_ENVIRONMENT_CHECK, CheckStatus.FAILED, refused.what, refused.remedy)
        return
    yield Finding(
        _ENVIRONMENT_CHECK, CheckStatus.OK, f"{len(env)} variables, none of them a secret of ours"
    )
    present = program_check.check_installed(agent, env["PATH"])
    yield from present
    if all(one.status is CheckStatus.OK for one in present):
        yield from program_check.check_version(
            agent, program_check.read_version(agent, env, folder)
        )
        yield from check_login(agent, env, folder)
    yield from program_check.check_memory(agent)
    yield from check_sandbox(agent.sandbox, ours)
    yield from _check_fallbacks(settings, name)


def _build_environment(
    agent: Agent, settings: Settings, ours: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """As a launch in this folder would make it, with what the supervisor hands on."""
    work = _build_scratch_assignment(folder)
    launch = plan_launch(agent, work, ours, secret_variables(settings))
    make_own_folders(agent, work)
    return {**launch.env, **{name: ours[name] for name in launch.inherit}}


def _build_scratch_assignment(folder: Path, prompt: str = "") -> Assignment:
    """An assignment of nobody's, in a scratch folder."""
    task = folder / "task"
    return Assignment(
        run="trial",
        task="trial",
        project="trial",
        attempt=1,
        home=folder,
        task_dir=task,
        run_dir=task / "runs" / "trial",
        checkout=folder / "checkout",
        prompt=prompt,
        context={"flow": "task", "prompt": prompt},
    )


def _check_fallbacks(settings: Settings, name: str) -> Iterator[Finding]:
    """Who takes new tasks while its pool is closed. Pure."""
    order = [name, *list_fallbacks(settings, name)]
    if len(order) == 1:
        return
    pools = [pool_of(settings.agent[one]) for one in order]
    told = ", then ".join(f"{one} ({pool})" for one, pool in zip(order, pools, strict=True))
    if len(set(pools)) == len(pools):
        yield Finding(_FALLBACK_CHECK, CheckStatus.OK, told)
    else:
        remedy = "Give one of them another `pool`, or take it out of the chain."
        yield Finding(
            _FALLBACK_CHECK, CheckStatus.WARNING, f"{told}: one pool closes for both", remedy
        )


# A small prompt takes minutes at most; nobody wants to pay for more.
_MAX_TEST_SECONDS = 600.0
DEFAULT_PROMPT = "This is a trial. Write the line `It works.` to the file `trial.txt` here."
_PROMPT_ENDING = """
Then run `hostler done --summary "It works."`, or write `{"status": "done", "summary": "It works."}`
to the path in the environment variable HOSTLER_RESULT, and end.
"""
_README_TEXT = "A scratch repository. Nothing in it is kept.\n"


class NoRepository(HostlerError):
    """The scratch repository of a trial could not be made."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"A scratch repository could not be made: {why}",
            safe="No agent was started.",
            remedy="Install git, or make room where temporary files are.",
        )


@dataclass(frozen=True, slots=True)
class SmokeTestResult:
    """How a trial ended."""

    verdict: RunVerdict
    tally: StreamTally
    seconds: float

    @property
    def wrote_result(self) -> bool:
        return self.verdict.result is not None


def create_scratch_repository(folder: Path, ours: Mapping[str, str]) -> None:
    """A repository with one commit; nobody's git settings play a part."""
    (folder / "README.md").write_text(_README_TEXT)
    env = {"PATH": ours.get("PATH", os.defpath), "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=Hostler", "-c", "user.email=hostler@localhost")
    steps = (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "README.md"),
        (*who, "commit", "--quiet", "--message=Begin"),
    )
    for step in steps:
        done = query_program(["git", *step], env, folder)
        if done.code != 0:
            raise NoRepository(done.problem or done.err.strip())


def build_smoke_test(agent: Agent, settings: Settings, folder: Path, prompt: str) -> Assignment:
    """What the agent is asked to do. Pure."""
    limits = RunLimits(
        wall_seconds=agent.wall_limit_minutes * 60.0 or _MAX_TEST_SECONDS,
        silence_seconds=settings.tasks.silence_limit_minutes * 60.0,
        grace_seconds=settings.runtime.stop_grace_seconds,
    )
    work = _build_scratch_assignment(folder, f"{prompt}\n{_PROMPT_ENDING}")
    return replace(work, limits=limits, private=list_secret_files(settings))


class AgentSmokeTest:
    """One agent at work on a trial. `stop` may be called by a signal's handler at any time."""

    def __init__(
        self,
        agent: Agent,
        work: Assignment,
        clock: Clock,
        heard: Callable[[OutputLine], None],
    ) -> None:
        self._agent = agent
        self._work = work
        self._clock = clock
        self._heard = heard
        self._kind = find_kind(agent)
        self._tally = StreamTally()
        self._graces = iter((work.limits.grace_seconds,))
        self._shim: int | None = None
        make_folder(work.run_dir)
        self._tails = [OutputTail(work.run_dir / stream, stream) for stream in OutputStream]

    def run(self, settings: Settings, ours: Mapping[str, str]) -> SmokeTestResult:
        """From launch to verdict. Nothing of the agent is left when this returns or raises."""
        launch = prepare_launch(self._agent, self._work, ours, secret_variables(settings))
        folder, spec = str(self._work.run_dir), launch.spec(self._work.run)
        run_files.write_json(f"{folder}/{run_files.SPEC_FILE}", spec)
        spawned = spawn(self._work.run, folder, shim_environment(ours, spec["inherit"]))
        try:
            mark = str(spawned.read_identity()["mark"])
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
            run_files.write_json(str(self._work.run_dir / run_files.STOP_FILE), asked)
        if self._shim is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._shim, signal.SIGUSR1)

    def _see_out(self, spawned: Spawned, shim: int) -> None:
        """Until the shim has left."""
        with open_watch(self._clock, [self._work.run_dir]) as watching:
            threading.Thread(target=_stop_watch_on_exit, args=[watching, shim], daemon=True).start()
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
                events = [
                    resolve_clock_time(one, self._clock.now()) for one in self._kind.events(line)
                ]
                self._tally = tally_events(events, self._tally)
                self._heard(line)

    def _concluded(self, mark: str) -> SmokeTestResult:
        word = read_exit_file(self._work.run_dir)
        if word is None:
            # The shim was killed: what the agent had started is found by its mark.
            orphans.end_marked_processes(mark, self._work.limits.grace_seconds)
        self._listen(rest=True)
        end = parse_exit(word) if word is not None else LOST_EXIT
        verdict = judge_finished_run(
            self._agent, self._work.run_dir, self._work.task_dir, end, self._tally
        )
        seconds = (word or {}).get("seconds")
        return SmokeTestResult(verdict, self._tally, seconds if isinstance(seconds, float) else 0.0)


def _stop_watch_on_exit(watching: BusWatch, shim: int) -> None:
    """Wake whoever watches when the shim has left."""
    poll = select.poll()
    poll.register(shim, select.POLLIN)
    poll.poll()
    watching.stop()
