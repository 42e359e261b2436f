"""`hostler service install` and `hostler service restart`."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.context import global_options, load_settings
from hostler.cli.output import print_json, print_line, print_note

if TYPE_CHECKING:
    from hostler.clock import Clock
    from hostler.store import Store
    from hostler.store.operator import Operation


UNIT_NAME = "hostler.service"


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
    from hostler.service.systemd import InvalidUnitValue, UnitPlan, render_unit

    given = global_options(context)
    loaded = load_settings(given)
    config = loaded.path.absolute() if loaded.path is not None else None
    plan = UnitPlan(
        (sys.executable, "-m", "hostler"),
        given.home_folder.absolute(),
        Path.cwd(),
        config,
        {"PATH": os.environ.get("PATH", os.defpath)},
    )
    try:
        text = render_unit(plan)
    except InvalidUnitValue as error:
        raise HostlerError(
            f"No unit can be written: {error}.", safe="Nothing was written."
        ) from error
    if print_only:
        print_line(text.rstrip())
        return
    _write_unit(_unit_folder() / UNIT_NAME, text, force=force)


def _unit_folder() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(config) if config.startswith("/") else Path.home() / ".config"
    return base / "systemd" / "user"


def _write_unit(place: Path, text: str, *, force: bool) -> None:
    from hostler.errors import HostlerError

    known = place.read_text("utf-8") if place.exists() else None
    if known == text:
        print_line(f"{place} is as it should be.")
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
    print_line(f"Wrote {place}.")
    print_note("Now: systemctl --user daemon-reload && systemctl --user enable --now hostler")
    print_note("To run it without a session: loginctl enable-linger")


# A commit wakes us; this is for a service that was killed, which says nothing.
CHECK_SECONDS = 5.0
# How long nobody may work on the home: a service that was killed is started again meanwhile.
MAX_GONE_SECONDS = 30.0


def restart(
    context: typer.Context,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it is back; exit code 1: it failed.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Ask the service to restart as soon as all work is over; nothing begins until then.

    With `[runtime] restart_command` it is updated first, and rolled back if the new version does
    not pass `hostler doctor --quick`. Work that goes on for longer than
    `restart_drain_timeout_seconds` is never interrupted: there is no restart then.

    \b
    Example:
      hostler service restart
      hostler service restart --wait --json
    """
    from hostler.clock import SystemClock
    from hostler.store import open_store

    given = global_options(context)
    settings = load_settings(given).settings
    with closing(open_store(given.home_folder, settings.runtime.database_url or None)) as store:
        _require_service(given.home_folder)
        asked = _request_restart(store)
        if not asked:
            print_note("A restart is under way already.")
        found = (
            _wait_for_restart(store, given.home_folder, SystemClock())
            if wait
            else _read_restart(store)
        )
    if json:
        print_json({**asdict(found), "status": found.status.value, "asked": asked})
    else:
        print_line(_describe_restart(found))
    raise typer.Exit(1 if wait and found.status == "failed" else 0)


def _require_service(home: Path) -> None:
    from hostler.errors import HostlerError
    from hostler.service.context import read_presence

    found = read_presence(home)
    if found.holder is None:
        raise HostlerError(
            "No service works on this home.",
            safe="Nothing was asked for.",
            remedy="Start one: hostler service",
        )
    if not found.takes_tasks:
        raise HostlerError(
            f"{found.holder} works on this home, and cannot be asked for a restart.",
            safe="Nothing was asked for.",
            remedy="Wait until it has ended.",
        )


def _request_restart(store: Store) -> bool:
    from hostler.cli.context import current_actor
    from hostler.workflows.commands import RESTART_SCOPES, request_restart

    with store.write(*RESTART_SCOPES) as tx:
        return request_restart(tx, current_actor())


def _read_restart(store: Store) -> Operation:
    from hostler.store.operator import RESTART, find_operation

    with store.read() as tx:
        found = find_operation(tx, RESTART)
    assert found is not None
    return found


def _wait_for_restart(store: Store, home: Path, clock: Clock) -> Operation:
    """The restart, when it is over; an error if nobody is there to carry it out."""
    from hostler.errors import HostlerError
    from hostler.service.context import read_presence

    gone_since: float | None = None
    while True:
        mark = store.change_mark()
        # Before the row: a service that has told its end may be gone a moment later.
        there, now = read_presence(home).takes_tasks, clock.monotonic()
        gone_since = None if there else (gone_since or now)
        found = _read_restart(store)
        if not found.under_way:
            return found
        if gone_since is not None and now - gone_since >= MAX_GONE_SECONDS:
            raise HostlerError(
                "The service has ended before it restarted.",
                safe="The restart is still asked for: the next service tells what became of it.",
                remedy="Start one: hostler service",
            )
        store.wait_for_change(mark, CHECK_SECONDS)


def _describe_restart(found: Operation) -> str:
    if found.status == "pending":
        return "Asked for: it restarts as soon as all work is over; nothing begins until then."
    if found.status == "running":
        return "It restarts now."
    word = "Restarted." if found.status == "done" else "The restart failed."
    return f"{word} {found.detail}".strip()
