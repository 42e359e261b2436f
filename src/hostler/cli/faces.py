"""How a service is seen and heard: in lines on a terminal, unless something else shows it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hostler.cli.output import DIM, coloured, say
from hostler.cli.web_beside import Wanted

if TYPE_CHECKING:
    from hostler.cli.leaving import Ear
    from hostler.config import Loaded
    from hostler.service import ServiceRunner
    from hostler.service.systemd import Systemd

Look = Callable[[], bool]
Nothing = Callable[[], None]


def tell(text: str) -> None:
    """A line with its time, at once."""
    from datetime import datetime

    try:
        say(f"{coloured(f'{datetime.now().astimezone():%H:%M:%S}', DIM)}  {text}")
        sys.stdout.flush()
    except OSError:
        # Nobody reads any more, or the disk of a log is full: the work goes on.
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115


def nothing() -> None:
    """Nothing is to be done."""


def work(runner: ServiceRunner, look: Look, _leave: Nothing) -> None:
    """The service, here."""
    runner.run(look)


@dataclass(frozen=True, slots=True)
class Face:
    """Who shows a service.

    `work` has the runner work, and calls the last argument to have it leave. `asked` hears that
    it was asked to leave, `cut_off` that it ends now. `lines`: log lines may stand between ours.
    `web`: whether the API is served beside it.
    """

    command: str = "service"
    tell: Callable[[str], None] = tell
    work: Callable[[ServiceRunner, Look, Nothing], None] = work
    asked: Nothing = nothing
    cut_off: Nothing = nothing
    lines: bool = True
    web: Wanted = field(default_factory=Wanted)

    @property
    def reloads(self) -> bool:
        """Whether SIGHUP asks for the settings; on a screen it says that the terminal is gone."""
        return self.lines

    def ear(self, told: Nothing, *, stop_agents: bool) -> Ear:
        """Whoever hears signals for it; `told` hears of them too."""
        from hostler.cli.leaving import SIGNALS, WITH_HANG_UP, Ear

        def asked() -> None:
            told()
            self.asked()

        numbers = SIGNALS if self.reloads else WITH_HANG_UP
        return Ear(stop_agents=stop_agents, told=asked, cut_off=self.cut_off, signals=numbers)


@dataclass(frozen=True, slots=True)
class Shift:
    """What one service after another works with, until the program leaves."""

    loaded: Loaded
    systemd: Systemd
    ear: Ear
    face: Face
    once: bool
