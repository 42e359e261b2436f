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
from hostler.cli.demo.people import ActionRefused, DemoUsers, due_actions, is_settled
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
    """Collects stop signals while it is entered, so that none interrupts the demo."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}
        # A pipe, because a signal handler must not take the lock of an event.
        self._reader, self._writer = os.pipe()

    def __enter__(self) -> Self:
        for number in _STOP_SIGNALS:
            # nohup ignores SIGHUP: keep it ignored.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    @property
    def asked(self) -> bool:
        """Whether a stop was requested."""
        return bool(self.signal)

    @property
    def exit_code(self) -> int:
        """The exit code that shells report for a program ended by the signal."""
        return 128 + self.signal

    def wait(self, seconds: float | None = None) -> None:
        """Wait for a stop request, or until the time has passed."""
        select.select([self._reader], [], [], seconds)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self.signal:
            self.signal = number
            os.write(self._writer, b"!")


# Changes on the sandbox GitHub send no event, so it is read this often.
OBSERVE_SECONDS = 0.25
STORY_CHECK = "all issues were finished in time"


@dataclass
class DemoLoop:
    """The main loop of the demo, with what it needs."""

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
        """Seconds since the start."""
        return self.clock.monotonic() - self.began

    def run(self) -> DemoCheck:
        """Run until everything is settled, or something ends it."""
        while True:
            self._observe()
            if is_settled(self.scenario, self.snapshot):
                return DemoCheck(STORY_CHECK, ())
            if failure := self._failure():
                return DemoCheck(STORY_CHECK, tuple(filter(None, (failure, self.refused))))
            self._act()
            if not self.database.wait(OBSERVE_SECONDS):
                self.stop_request.wait(OBSERVE_SECONDS)

    def _observe(self) -> None:
        now = DemoSnapshot(self.github.look(), self.database.look())
        for line in find_events(self.snapshot, now):
            self.view.tell(self.elapsed, line)
        self.snapshot = now
        self.view.draw(self.elapsed, now)

    def _failure(self) -> str:
        if self.stop_request.asked:
            return "it was stopped"
        if self.service.has_ended():
            return "the service exited unexpectedly"
        return f"not finished after {self.seconds:.0f} s" if self.elapsed > self.seconds else ""

    def _act(self) -> None:
        """Do what users are due to do; refused actions are retried in the next iteration."""
        for action in due_actions(self.scenario, self.snapshot.github):
            try:
                self.people.act(action)
            except ActionRefused as error:
                if self.refused != error.what:
                    self.view.tell(
                        self.elapsed, DemoEvent("", action.who, f"is refused: {error.what}")
                    )
                self.refused = error.what


@dataclass
class DemoFolder:
    """A temporary folder that may be kept."""

    path: Path
    keep: bool = False


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of a demo, and callbacks for its output."""

    seconds: float
    keep: bool
    show: Callable[[DemoSummary], None]
    invite: Callable[[DemoPaths, str, DemoScenario], None]
    point_to: Callable[[DemoPaths, bool], None]


@dataclass(frozen=True, slots=True)
class DemoSession:
    """What is open while a demo runs."""

    scenario: DemoScenario
    paths: DemoPaths
    sandbox: Running
    people: DemoUsers
    service: GuardedService

    def github_observer(self) -> GitHubObserver:
        """Build an observer of the sandbox."""
        return GitHubObserver(
            self.sandbox, tuple(project.name for project in self.scenario.projects)
        )

    def prove(self) -> DemoCheck:
        """Run the tests of the merged code."""
        folder = self.paths.folder / "merged"
        folder.mkdir()
        env = self.paths.environment(os.environ)
        return run_merged_tests(self.scenario, self.sandbox.url, folder, env)


def run_demo(options: DemoOptions, view: DemoView, stop_request: StopRequest, clock: Clock) -> int:
    """Run the demo; return its exit code."""
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
    """Stop the service and show the summary."""
    checks = (*checks, check_service_exit(session.service.stop()))
    summary = summarise(loop.elapsed, loop.snapshot, checks)
    options.show(summary)
    return summary.good


def _report_and_wait(
    options: DemoOptions, session: DemoSession, loop: DemoLoop, checks: tuple[DemoCheck, ...]
) -> bool:
    """Show the summary, and keep everything running until a stop is requested."""
    summary = summarise(loop.elapsed, loop.snapshot, checks)
    options.show(summary)
    options.invite(session.paths, session.sandbox.url, session.scenario)
    loop.stop_request.wait()
    return summary.good and check_service_exit(session.service.stop()).holds


@contextmanager
def _make_temporary_folder() -> Iterator[DemoFolder]:
    """Create a temporary folder, and delete it afterwards unless `keep` is set."""
    folder = DemoFolder(Path(tempfile.mkdtemp(prefix="hostler-demo-")))
    try:
        yield folder
    finally:
        if not folder.keep:
            shutil.rmtree(folder.path, ignore_errors=True)


@contextmanager
def _open_session(folder: DemoFolder) -> Iterator[DemoSession]:
    """Start the sandbox with its repositories and users, and the service."""
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
        # Stopped before the sandbox, so that its last requests are answered.
        stack.callback(lambda: service.close(keep=folder.keep))
        yield DemoSession(scenario, paths, sandbox, people, service)
