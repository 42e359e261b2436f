"""`hostler web`: the API without a service, its address and its token."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.output import note, say, say_json
from hostler.cli.state import globals_of, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hostler.config import Settings
    from hostler.store import Store
    from hostler.telemetry.logs import Log
    from hostler.web.beside import Served

Listen = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Where to listen [default: as in [web]].")
]
commands = typer.Typer(
    name="web",
    help="Serve the API without a service; print its address and its token.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.callback()
def web() -> None:
    """Serve the API without a service; print its address and its token.

    \b
    Example:
      curl -H "Authorization: Bearer $(hostler web token)" "$(hostler web url)/api/v1/status"
    """


@commands.command()
def serve(context: typer.Context, listen: Listen = "") -> None:
    """Answer until Ctrl-C, without a service: look, and give commands for the next one.

    `hostler service --web` does the same beside a service.

    \b
    Example:
      hostler web serve
      hostler web serve --listen 127.0.0.1:9000
    """
    from hostler.cli.leaving import Ear
    from hostler.cli.logbook import logbook
    from hostler.cli.task import opened

    given = globals_of(context)
    ear, leaving = Ear(), _Leaving()
    ear.listen()
    ear.attach(leaving)
    with opened(context, make=True) as house, logbook(given, house.settings, "web serve") as log:
        serving = api_beside(house.home, house.store, lambda: house.settings, log, listen)
        with serving as served:
            say(served.sentence())
            note("Ctrl-C ends it.")
            leaving.wait()


@commands.command()
def url(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print where the API of this home answers, or would.

    \b
    Example:
      hostler web url
    """
    from hostler.web.beside import address_for
    from hostler.web.notes import known_url

    given = globals_of(context)
    known = known_url(given.home_folder)
    at = address_for(settings_of(given).settings.web, "")
    found = known or f"http://{f'[{at.host}]' if ':' in at.host else at.host}:{at.port}"
    if json:
        say_json({"url": found, "answers": bool(known)})
        return
    say(found)
    if not known:
        note("Nobody answers there now: start `hostler service --web` or `hostler web serve`.")


@commands.command()
def token(context: typer.Context) -> None:
    """Print the access token; the first time, one is made. Whoever has it may do all that you may.

    \b
    Example:
      hostler web token
    """
    from hostler.web.beside import address_for
    from hostler.web.keys import token_for

    given = globals_of(context)
    settings = settings_of(given).settings.web
    wide = address_for(settings, "").wide
    found = token_for(settings, given.home_folder, os.environ, wide=wide)
    # Straight out: whatever else we say has secrets taken out of it.
    sys.stdout.write(f"{found.value}\n")


def api_beside(
    home: Path, store: Store, settings: Callable[[], Settings], log: Log, listen: str
) -> AbstractContextManager[Served]:
    """An API for the length of a block."""
    from hostler.clock import SystemClock
    from hostler.service.persons import person
    from hostler.web.beside import Ground, address_for, web_beside

    ground = Ground(home, store, SystemClock(), settings, person(), log, os.environ)
    return web_beside(ground, address_for(settings().web, listen))


class _Leaving:
    """Waits until it is asked to leave."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def leave(self, *, stop_agents: bool = False) -> None:  # noqa: ARG002
        self._asked.set()

    def wait(self) -> None:
        self._asked.wait()
