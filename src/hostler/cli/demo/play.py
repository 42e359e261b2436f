"""One story, step by step: look, tell, draw, move, wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from hostler.cli.demo.cast import Plot
from hostler.cli.demo.checks import Check
from hostler.cli.demo.github_eyes import GitHubEyes
from hostler.cli.demo.house_eyes import HouseEyes
from hostler.cli.demo.keeping import Kept
from hostler.cli.demo.news import Line, news
from hostler.cli.demo.people import People, Refused
from hostler.cli.demo.plain import View
from hostler.cli.demo.sight import Sight
from hostler.cli.demo.signals import Ending
from hostler.cli.demo.story import due, settled
from hostler.clock import Clock

# What happens on GitHub wakes nobody, so it is looked at this often.
LOOK_SECONDS = 0.25
PROMISE = "the story came to its end in time"


@dataclass
class Play:
    """Everything that a story needs, and how it went."""

    plot: Plot
    github: GitHubEyes
    house: HouseEyes
    people: People
    service: Kept
    view: View
    ending: Ending
    clock: Clock
    began: float
    seconds: float
    sight: Sight = field(default_factory=Sight)
    refused: str = ""

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self.clock.monotonic() - self.began

    def run(self) -> Check:
        """Play until everything is settled, or something ends it."""
        while True:
            self._look()
            if settled(self.plot, self.sight):
                return Check(PROMISE, ())
            if wrong := self._over():
                return Check(PROMISE, tuple(filter(None, (wrong, self.refused))))
            self._move()
            if not self.house.wait(LOOK_SECONDS):
                self.ending.wait(LOOK_SECONDS)

    def _look(self) -> None:
        now = Sight(self.github.look(), self.house.look())
        for line in news(self.sight, now):
            self.view.tell(self.elapsed, line)
        self.sight = now
        self.view.draw(self.elapsed, now)

    def _over(self) -> str:
        if self.ending.asked:
            return "it was stopped"
        if self.service.has_ended():
            return "the service left by itself"
        return f"{self.seconds:.0f} s were not enough" if self.elapsed > self.seconds else ""

    def _move(self) -> None:
        """Whoever is refused tries again at the next look, as people do."""
        for move in due(self.plot, self.sight.github):
            try:
                self.people.act(move)
            except Refused as error:
                if self.refused != error.what:
                    self.view.tell(self.elapsed, Line("", move.who, f"is refused: {error.what}"))
                self.refused = error.what
