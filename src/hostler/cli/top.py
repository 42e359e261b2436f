"""`hostler top`: the house on a screen; any number of them, and nothing is written."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import typer

from hostler.cli.output import note, say
from hostler.cli.state import globals_of, settings_of
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.config import Settings


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(top)


def top(context: typer.Context) -> None:
    """Watch agents, queue, questions, pull requests and history on a screen; it only looks.

    It works with and without a service, and asks GitHub nothing. Keys: `?` shows them, `q` quits.

    \b
    Example:
      hostler top
      ssh barn -t hostler top
    """
    require_terminal("top", "hostler status")
    from hostler.tui.terminal import can_be_drawn_on
    from hostler.tui.top import tell_once, watch

    given = globals_of(context)
    # Now, too: settings with mistakes are told of before a screen hides them.
    settings_of(given)

    def settings() -> Settings:
        return settings_of(given).settings

    if can_be_drawn_on(os.environ):
        raise typer.Exit(watch(given.home_folder, settings))
    note("This terminal cannot be drawn on (TERM): this is how it is now.")
    say(tell_once(given.home_folder, settings, shutil.get_terminal_size().columns))


def require_terminal(command: str, instead: str) -> None:
    """A screen needs a terminal; code 2 without one."""
    from hostler.tui.terminal import is_terminal

    if is_terminal():
        return
    error = HostlerError(
        f"`hostler {command}` needs a terminal, and this is none.",
        safe="Nothing was started.",
        remedy=f"Run it on a terminal (over ssh: `ssh -t`), or use `{instead}`.",
    )
    error.exit_code = 2
    raise error
