"""`hostler console`: the service and its screen, in one process."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from hostler.cli.faces import Face, tell
from hostler.cli.output import note
from hostler.cli.service import start
from hostler.cli.state import globals_of, settings_of
from hostler.cli.top import require_terminal
from hostler.cli.who import person


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(console)


def console(
    context: typer.Context,
    stop_agents: Annotated[
        bool, typer.Option("--stop-agents", help="End the agents too when it is asked to leave.")
    ] = False,
) -> None:
    """Work as `hostler service` does, and show it on a screen; `s` stops a task.

    `q` or Ctrl-C: it leaves as a service does, agents go on, and the next start takes them over.
    A terminal that is closed is such an end too. Its log is a panel, and in the home as always.

    \b
    Example:
      hostler console
      hostler console --stop-agents
    """
    require_terminal("console", "hostler service")
    from hostler.tui.terminal import can_be_drawn_on

    given = globals_of(context)
    loaded = settings_of(given)
    if not can_be_drawn_on(os.environ):
        note("This terminal cannot be drawn on (TERM): these are the lines of `hostler service`.")
        start(given, loaded, stop_agents=stop_agents)
    start(given, loaded, stop_agents=stop_agents, face=_face())


def _face() -> Face:
    from hostler.tui.console import Console

    screen = Console(tell, person())
    return Face(
        "console",
        screen.tell,
        screen.work,
        asked=screen.close,
        cut_off=screen.give_back,
        lines=False,
    )
