"""`hostler top` and `hostler console`: the terminal dashboard, without and with the service."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.commands.service import start_service
from hostler.cli.context import current_user, global_options, load_settings
from hostler.cli.foreground import ServiceUi, print_timed
from hostler.cli.output import print_line, print_note
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.config.settings import Settings


def register_top(app: typer.Typer) -> None:
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
    from hostler.tui.terminal import supports_cursor
    from hostler.tui.top import render_once, run_top

    given = global_options(context)
    # Now, too: settings with mistakes are told of before a screen hides them.
    load_settings(given)

    def settings() -> Settings:
        return load_settings(given).settings

    if supports_cursor(os.environ):
        raise typer.Exit(run_top(given.home_folder, settings))
    print_note("This terminal cannot be drawn on (TERM): this is how it is now.")
    print_line(render_once(given.home_folder, settings, shutil.get_terminal_size().columns))


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


def register_console(app: typer.Typer) -> None:
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
    from hostler.tui.terminal import supports_cursor

    given = global_options(context)
    loaded = load_settings(given)
    if not supports_cursor(os.environ):
        print_note(
            "This terminal cannot be drawn on (TERM): these are the lines of `hostler service`."
        )
        start_service(given, loaded, stop_agents=stop_agents)
    start_service(given, loaded, stop_agents=stop_agents, ui=_build_ui())


def _build_ui() -> ServiceUi:
    from hostler.tui.console import Console

    screen = Console(print_timed, current_user())
    return ServiceUi(
        "console",
        screen.tell,
        screen.work,
        asked=screen.close,
        cut_off=screen.give_back,
        lines=False,
    )
