"""The whole demo: everything is opened in order, and closed whatever happens."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hostler.checkouts.git import version as require_git
from hostler.cli.demo.cast import BOT, Plot, load_plot, seed
from hostler.cli.demo.checks import Check
from hostler.cli.demo.github_eyes import GitHubEyes
from hostler.cli.demo.house_eyes import HouseEyes
from hostler.cli.demo.keeping import Kept
from hostler.cli.demo.people import People
from hostler.cli.demo.plain import View
from hostler.cli.demo.play import Play
from hostler.cli.demo.proof import prove
from hostler.cli.demo.signals import Ending
from hostler.cli.demo.stage import Stage, set_up
from hostler.cli.demo.summary import Summary, service_check, sum_up
from hostler.clock import Clock
from hostler.sandbox.auth import token_for
from hostler.sandbox.server import Running, running


@dataclass
class Folder:
    """A temporary folder that may be kept."""

    path: Path
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the person who looks on wants, and how they are spoken to."""

    seconds: float
    keep: bool
    show: Callable[[Summary], None]
    invite: Callable[[Stage, str, Plot], None]
    point_to: Callable[[Stage, bool], None]


@dataclass(frozen=True, slots=True)
class Theatre:
    """What is open while a demo is played."""

    plot: Plot
    stage: Stage
    sandbox: Running
    people: People
    service: Kept

    def eyes(self) -> GitHubEyes:
        """Somebody who looks at the sandbox."""
        return GitHubEyes(self.sandbox, tuple(project.name for project in self.plot.projects))

    def prove(self) -> Check:
        """Whether what was merged works."""
        folder = self.stage.folder / "merged"
        folder.mkdir()
        env = self.stage.environment(os.environ)
        return prove(self.plot, self.sandbox.url, folder, env)


def perform(wishes: Wishes, view: View, ending: Ending, clock: Clock) -> int:
    """Play the demo; its exit code."""
    require_git()
    began = clock.monotonic()
    with (
        temporary_folder() as folder,
        opened(folder) as theatre,
        closing(HouseEyes(theatre.stage.home)) as house,
    ):
        play = Play(
            theatre.plot,
            theatre.eyes(),
            house,
            theatre.people,
            theatre.service,
            view,
            ending,
            clock,
            began,
            wishes.seconds,
        )
        with view:
            story = play.run()
        if ending.asked:
            return ending.exit_code
        checks = (story, theatre.prove())
        good = (_stay_open if wishes.keep else _end)(wishes, theatre, play, checks)
        if ending.asked and not wishes.keep:
            return ending.exit_code
        folder.keep = wishes.keep or not good
        if folder.keep:
            wishes.point_to(theatre.stage, good)
        return 0 if good else 1


def _end(wishes: Wishes, theatre: Theatre, play: Play, checks: tuple[Check, ...]) -> bool:
    """Stop the service, and show what came of everything."""
    checks = (*checks, service_check(theatre.service.stop()))
    summary = sum_up(play.elapsed, play.sight, checks)
    wishes.show(summary)
    return summary.good


def _stay_open(wishes: Wishes, theatre: Theatre, play: Play, checks: tuple[Check, ...]) -> bool:
    """Show how it went, and leave everything running until somebody says that it is enough."""
    summary = sum_up(play.elapsed, play.sight, checks)
    wishes.show(summary)
    wishes.invite(theatre.stage, theatre.sandbox.url, theatre.plot)
    play.ending.wait()
    return summary.good and service_check(theatre.service.stop()).holds


@contextmanager
def temporary_folder() -> Iterator[Folder]:
    """A folder that is gone in the end, unless somebody wants to keep it."""
    folder = Folder(Path(tempfile.mkdtemp(prefix="hostler-demo-")))
    try:
        yield folder
    finally:
        if not folder.keep:
            shutil.rmtree(folder.path, ignore_errors=True)


@contextmanager
def opened(folder: Folder) -> Iterator[Theatre]:
    """A sandbox with its repositories, people, and the service at work on it."""
    plot = load_plot()
    with ExitStack() as stack:
        sandbox = stack.enter_context(running(seed(plot), git=True))
        people = People(sandbox)
        stack.callback(people.close)
        people.fill(plot)
        stage = set_up(folder.path, plot, sandbox.url, token_for(BOT))
        service = Kept(stage.folder, stage.log, stage.service(), stage.environment(os.environ))
        # Before the sandbox: what the service still wants to say finds a listener.
        stack.callback(lambda: service.close(keep=folder.keep))
        yield Theatre(plot, stage, sandbox, people, service)
