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
    """Show a live dashboard in the terminal (read-only).

    Shows running agents, queue, questions, pull requests and history, with or without a running
    service; works offline. Press `?` for the keys and `q` to quit.

    \b
    Example:
      hostler top
      ssh -t server hostler top
    """
    require_terminal("top", "hostler status")
    from hostler.tui.terminal import supports_cursor
    from hostler.tui.top import render_once, run_top

    given = global_options(context)
    # Report mistakes in the settings before the screen hides them.
    load_settings(given)

    def settings() -> Settings:
        return load_settings(given).settings

    if supports_cursor(os.environ):
        raise typer.Exit(run_top(given.home_folder, settings))
    print_note("This terminal (TERM) does not support a live screen. Current state:")
    print_line(render_once(given.home_folder, settings, shutil.get_terminal_size().columns))


def require_terminal(command: str, instead: str) -> None:
    """Raise HostlerError with exit code 2 if there is no interactive terminal."""
    from hostler.tui.terminal import is_terminal

    if is_terminal():
        return
    error = HostlerError(
        f"`hostler {command}` requires an interactive terminal.",
        safe="Nothing was started.",
        remedy=f"Run it in a terminal (over ssh: `ssh -t`), or use `{instead}`.",
    )
    error.exit_code = 2
    raise error


def register_console(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(console)


def console(
    context: typer.Context,
    stop_agents: Annotated[
        bool, typer.Option("--stop-agents", help="Stop running agents when the service stops.")
    ] = False,
) -> None:
    """Run the service with a live dashboard in the terminal.

    `s` stops a task. `q`, Ctrl-C or closing the terminal stops the service; agents keep running,
    and the next start takes them over. The log is a panel, and is written to the home as usual.

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
            "This terminal (TERM) does not support a live screen. Running as `hostler service`:"
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
