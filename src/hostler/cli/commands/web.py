"""`hostler web`: serve the API without a service, and print its URL and token."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.context import global_options, load_settings
from hostler.cli.help import CommandGroup
from hostler.cli.output import print_json, print_line, print_note

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hostler.config.settings import Settings
    from hostler.store import Store
    from hostler.telemetry.logs import EventLog
    from hostler.web.server import RunningApi


ListenOption = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Address to listen on [default: as in [web]].")
]
commands = CommandGroup("web")


def register_web(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.callback()
def web() -> None:
    """Serve the web dashboard; print its address and token.

    \b
    Example:
      hostler web serve
      curl -H "Authorization: Bearer $(hostler web token)" "$(hostler web url)/api/v1/status"
    """


@commands.command()
def serve(context: typer.Context, listen: ListenOption = "") -> None:
    """Run the dashboard and API without the service, until Ctrl-C.

    Actions are queued until the service starts. `hostler service --web` runs both.

    \b
    Example:
      hostler web serve
      hostler web serve --listen 127.0.0.1:9000
    """
    from hostler.cli.context import open_command_log, open_home
    from hostler.cli.foreground import SignalHandler

    given = global_options(context)
    signal_handler, leaving = SignalHandler(), _StopWaiter()
    signal_handler.listen()
    signal_handler.attach(leaving)
    with (
        open_home(context, make=True) as opened,
        open_command_log(given, opened.settings, "web serve") as log,
    ):
        serving = start_api(opened.home, opened.store, lambda: opened.settings, log, listen)
        with serving as served:
            print_line(served.describe())
            print_note("Press Ctrl-C to stop.")
            leaving.wait()


@commands.command()
def url(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the address of the dashboard and API.

    \b
    Example:
      hostler web url
    """
    from hostler.web.discovery import read_live_url
    from hostler.web.server import choose_address

    given = global_options(context)
    known = read_live_url(given.home_folder)
    at = choose_address(load_settings(given).settings.web, "")
    found = known or f"http://{f'[{at.host}]' if ':' in at.host else at.host}:{at.port}"
    if json:
        print_json({"url": found, "answers": bool(known)})
        return
    print_line(found)
    if not known:
        print_note(
            "It is not running. Start it with `hostler service --web` or `hostler web serve`."
        )


@commands.command()
def token(context: typer.Context) -> None:
    """Print the access token of the dashboard and API.

    The first call creates it. Keep it secret: it gives full control over Hostler.

    \b
    Example:
      hostler web token
    """
    from hostler.web.auth import read_or_create_token
    from hostler.web.server import choose_address

    given = global_options(context)
    settings = load_settings(given).settings.web
    require_own = choose_address(settings, "").is_remote
    found = read_or_create_token(settings, given.home_folder, os.environ, require_own=require_own)
    # Not through print_line, which would redact it.
    sys.stdout.write(f"{found.value}\n")


def start_api(
    home: Path, store: Store, settings: Callable[[], Settings], log: EventLog, listen: str
) -> AbstractContextManager[RunningApi]:
    """Serve the API for the block."""
    from hostler.clock import SystemClock
    from hostler.service.tasks.control import current_user
    from hostler.web.server import ApiDeps, choose_address, serve_api

    ground = ApiDeps(home, store, SystemClock(), settings, current_user(), log, os.environ)
    return serve_api(ground, choose_address(settings().web, listen))


class _StopWaiter:
    """Waits until it is asked to stop."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def leave(self, *, stop_agents: bool = False) -> None:  # noqa: ARG002
        self._asked.set()

    def wait(self) -> None:
        self._asked.wait()
