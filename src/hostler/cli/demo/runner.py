"""Run the demo: set everything up, loop until the scenario is settled, tear everything down."""

from __future__ import annotations

import os
import select
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from hostler.checkouts.git import require_version as require_git
from hostler.cli.demo.display import DemoEvent, DemoView, find_events
from hostler.cli.demo.environment import (
    BOT,
    DemoPaths,
    DemoScenario,
    build_seed,
    load_scenario,
    set_up_folder,
)
from hostler.cli.demo.observe import DatabaseObserver, DemoSnapshot, GitHubObserver
from hostler.cli.demo.people import DemoUsers, Refused, due_actions, is_settled
from hostler.cli.demo.service_process import GuardedService
from hostler.cli.demo.verify import (
    DemoCheck,
    DemoSummary,
    check_service_exit,
    run_merged_tests,
    summarise,
)
from hostler.clock import Clock
from hostler.sandbox.auth import token_for
from hostler.sandbox.server import Running, running

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """While it is entered, no signal ends us in the middle of anything."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}
        # A pipe, because a handler may come while its own thread holds the lock of an event.
        self._wish, self._asking = os.pipe()

    def __enter__(self) -> Self:
        for number in _STOP_SIGNALS:
            # Under nohup the terminal may go, and we stay.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._heed)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._wish)
        os.close(self._asking)

    @property
    def asked(self) -> bool:
        """Whether somebody wants us to end."""
        return bool(self.signal)

    @property
    def exit_code(self) -> int:
        """As a shell reports a program that was ended by the signal."""
        return 128 + self.signal

    def wait(self, seconds: float | None = None) -> None:
        """Until somebody does, or the time is over."""
        select.select([self._wish], [], [], seconds)

    def _heed(self, number: int, _frame: FrameType | None) -> None:
        if not self.signal:
            self.signal = number
            os.write(self._asking, b"!")


# What happens on GitHub wakes nobody, so it is looked at this often.
OBSERVE_SECONDS = 0.25
STORY_CHECK = "all issues were finished in time"


@dataclass
class DemoLoop:
    """Everything that a story needs, and how it went."""

    scenario: DemoScenario
    github: GitHubObserver
    database: DatabaseObserver
    people: DemoUsers
    service: GuardedService
    view: DemoView
    stop_request: StopRequest
    clock: Clock
    began: float
    seconds: float
    snapshot: DemoSnapshot = field(default_factory=DemoSnapshot)
    refused: str = ""

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self.clock.monotonic() - self.began

    def run(self) -> DemoCheck:
        """Play until everything is settled, or something ends it."""
        while True:
            self._look()
            if is_settled(self.scenario, self.snapshot):
                return DemoCheck(STORY_CHECK, ())
            if wrong := self._over():
                return DemoCheck(STORY_CHECK, tuple(filter(None, (wrong, self.refused))))
            self._move()
            if not self.database.wait(OBSERVE_SECONDS):
                self.stop_request.wait(OBSERVE_SECONDS)

    def _look(self) -> None:
        now = DemoSnapshot(self.github.look(), self.database.look())
        for line in find_events(self.snapshot, now):
            self.view.tell(self.elapsed, line)
        self.snapshot = now
        self.view.draw(self.elapsed, now)

    def _over(self) -> str:
        if self.stop_request.asked:
            return "it was stopped"
        if self.service.has_ended():
            return "the service exited unexpectedly"
        return f"not finished after {self.seconds:.0f} s" if self.elapsed > self.seconds else ""

    def _move(self) -> None:
        """Whoever is refused tries again at the next look, as people do."""
        for move in due_actions(self.scenario, self.snapshot.github):
            try:
                self.people.act(move)
            except Refused as error:
                if self.refused != error.what:
                    self.view.tell(
                        self.elapsed, DemoEvent("", move.who, f"is refused: {error.what}")
                    )
                self.refused = error.what


@dataclass
class DemoFolder:
    """A temporary folder that may be kept."""

    path: Path
    keep: bool = False


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the person who looks on wants, and how they are spoken to."""

    seconds: float
    keep: bool
    show: Callable[[DemoSummary], None]
    invite: Callable[[DemoPaths, str, DemoScenario], None]
    point_to: Callable[[DemoPaths, bool], None]


@dataclass(frozen=True, slots=True)
class DemoSession:
    """What is open while a demo is played."""

    scenario: DemoScenario
    paths: DemoPaths
    sandbox: Running
    people: DemoUsers
    service: GuardedService

    def github_observer(self) -> GitHubObserver:
        """Somebody who looks at the sandbox."""
        return GitHubObserver(
            self.sandbox, tuple(project.name for project in self.scenario.projects)
        )

    def prove(self) -> DemoCheck:
        """Whether what was merged works."""
        folder = self.paths.folder / "merged"
        folder.mkdir()
        env = self.paths.environment(os.environ)
        return run_merged_tests(self.scenario, self.sandbox.url, folder, env)


def run_demo(options: DemoOptions, view: DemoView, stop_request: StopRequest, clock: Clock) -> int:
    """Play the demo; its exit code."""
    require_git()
    began = clock.monotonic()
    with (
        _make_temporary_folder() as folder,
        _open_session(folder) as session,
        closing(DatabaseObserver(session.paths.home)) as database,
    ):
        loop = DemoLoop(
            session.scenario,
            session.github_observer(),
            database,
            session.people,
            session.service,
            view,
            stop_request,
            clock,
            began,
            options.seconds,
        )
        with view:
            story = loop.run()
        if stop_request.asked:
            return stop_request.exit_code
        checks = (story, session.prove())
        good = (_report_and_wait if options.keep else _stop_and_report)(
            options, session, loop, checks
        )
        if stop_request.asked and not options.keep:
            return stop_request.exit_code
        folder.keep = options.keep or not good
        if folder.keep:
            options.point_to(session.paths, good)
        return 0 if good else 1


def _stop_and_report(
    options: DemoOptions, session: DemoSession, loop: DemoLoop, checks: tuple[DemoCheck, ...]
) -> bool:
    """Stop the service, and show what came of everything."""
    checks = (*checks, check_service_exit(session.service.stop()))
    summary = summarise(loop.elapsed, loop.snapshot, checks)
    options.show(summary)
    return summary.good


def _report_and_wait(
    options: DemoOptions, session: DemoSession, loop: DemoLoop, checks: tuple[DemoCheck, ...]
) -> bool:
    """Show how it went, and leave everything running until somebody says that it is enough."""
    summary = summarise(loop.elapsed, loop.snapshot, checks)
    options.show(summary)
    options.invite(session.paths, session.sandbox.url, session.scenario)
    loop.stop_request.wait()
    return summary.good and check_service_exit(session.service.stop()).holds


@contextmanager
def _make_temporary_folder() -> Iterator[DemoFolder]:
    """A folder that is gone in the end, unless somebody wants to keep it."""
    folder = DemoFolder(Path(tempfile.mkdtemp(prefix="hostler-demo-")))
    try:
        yield folder
    finally:
        if not folder.keep:
            shutil.rmtree(folder.path, ignore_errors=True)


@contextmanager
def _open_session(folder: DemoFolder) -> Iterator[DemoSession]:
    """A sandbox with its repositories, people, and the service at work on it."""
    scenario = load_scenario()
    with ExitStack() as stack:
        sandbox = stack.enter_context(running(build_seed(scenario), git=True))
        people = DemoUsers(sandbox)
        stack.callback(people.close)
        people.fill(scenario)
        paths = set_up_folder(folder.path, scenario, sandbox.url, token_for(BOT))
        service = GuardedService(
            paths.folder, paths.log, paths.service(), paths.environment(os.environ)
        )
        # Before the sandbox: what the service still wants to say finds a listener.
        stack.callback(lambda: service.close(keep=folder.keep))
        yield DemoSession(scenario, paths, sandbox, people, service)
