"""`hostler service install`: a unit of systemd for the user who runs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from hostler.cli.output import note, say
from hostler.cli.state import globals_of, settings_of

NAME = "hostler.service"


def install(
    context: typer.Context,
    print_only: Annotated[
        bool, typer.Option("--print", help="Only print the unit; write nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a unit that says something else.")
    ] = False,
) -> None:
    """Write a unit of systemd that starts the service with your session, and keeps it running.

    It starts this very program with this home, these settings and the present PATH. Stopping or
    upgrading it leaves agents alone. Secrets do not go into the unit: put them as NAME=value
    lines into the file `environment` of the home.

    \b
    Example:
      hostler service install --print
      hostler service install
      systemctl --user daemon-reload
      systemctl --user enable --now hostler
    """
    from hostler.errors import HostlerError
    from hostler.service.unit import Plan, Unfit, unit_text

    given = globals_of(context)
    loaded = settings_of(given)
    config = loaded.path.absolute() if loaded.path is not None else None
    plan = Plan(
        (sys.executable, "-m", "hostler"),
        given.home_folder.absolute(),
        Path.cwd(),
        config,
        {"PATH": os.environ.get("PATH", os.defpath)},
    )
    try:
        text = unit_text(plan)
    except Unfit as error:
        raise HostlerError(
            f"No unit can be written: {error}.", safe="Nothing was written."
        ) from error
    if print_only:
        say(text.rstrip())
        return
    _write(_folder() / NAME, text, force=force)


def _folder() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(config) if config.startswith("/") else Path.home() / ".config"
    return base / "systemd" / "user"


def _write(place: Path, text: str, *, force: bool) -> None:
    from hostler.errors import HostlerError

    known = place.read_text("utf-8") if place.exists() else None
    if known == text:
        say(f"{place} is as it should be.")
        return
    if known is not None and not force:
        raise HostlerError(
            f"{place} says something else.",
            safe="Nothing was written.",
            remedy="Look at it with --print, and replace it with --force.",
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    waiting = place.with_suffix(".new")
    waiting.write_text(text, "utf-8")
    waiting.replace(place)
    say(f"Wrote {place}.")
    note("Now: systemctl --user daemon-reload && systemctl --user enable --now hostler")
    note("To run it without a session: loginctl enable-linger")
