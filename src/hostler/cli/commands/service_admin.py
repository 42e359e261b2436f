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
    print_only: Annotated[bool, typer.Option("--print", help="Only print the unit.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing, different unit.")
    ] = False,
) -> None:
    """Install the service as a systemd user unit.

    The unit starts the service with your session and restarts it if it fails. It uses this
    program, home, settings file and the current PATH. Stopping or upgrading the service does not
    stop agents. The unit contains no secrets: put them as NAME=value lines into the file
    `environment` in the home.

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
            f"Cannot write the unit: {error}.", safe="Nothing was written."
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
        print_line(f"{place} is up to date.")
        return
    if known is not None and not force:
        raise HostlerError(
            f"{place} exists and differs.",
            safe="Nothing was written.",
            remedy="Show the new unit with --print; replace the file with --force.",
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    waiting = place.with_suffix(".new")
    waiting.write_text(text, "utf-8")
    waiting.replace(place)
    print_line(f"Wrote {place}.")
    print_note("Next: systemctl --user daemon-reload && systemctl --user enable --now hostler")
    print_note("To keep it running while you are logged out: loginctl enable-linger")


# Commits end the wait earlier; a killed service commits nothing, so check it this often.
CHECK_SECONDS = 5.0
# How long the service may be away: systemd restarts a killed one within this time.
MAX_GONE_SECONDS = 30.0


def restart(
    context: typer.Context,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it has restarted; exit code 1: it failed.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Restart the service once running agents have finished.

    No new work starts until then. With `[runtime] restart_command` the service is updated first,
    and rolled back if the new version fails `hostler doctor --quick`. If agents still run after
    `restart_drain_timeout_seconds`, the restart is given up; agents are never interrupted.

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
            print_note("A restart is already in progress.")
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
            "The service is not running.",
            safe="No restart was requested.",
            remedy="Start it with: hostler service",
        )
    if not found.takes_tasks:
        raise HostlerError(
            f"{found.holder} is using this home and cannot be restarted.",
            safe="No restart was requested.",
            remedy="Wait until it has finished.",
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
    """Wait for the end of the restart; raise HostlerError if the service is gone."""
    from hostler.errors import HostlerError
    from hostler.service.context import read_presence

    gone_since: float | None = None
    while True:
        mark = store.change_mark()
        # Before reading the row: the service may exit right after it has written the result.
        there, now = read_presence(home).takes_tasks, clock.monotonic()
        gone_since = None if there else (gone_since or now)
        found = _read_restart(store)
        if not found.under_way:
            return found
        if gone_since is not None and now - gone_since >= MAX_GONE_SECONDS:
            raise HostlerError(
                "The service exited before it restarted.",
                safe="The request is kept; the next service reports its result.",
                remedy="Start it with: hostler service",
            )
        store.wait_for_change(mark, CHECK_SECONDS)


def _describe_restart(found: Operation) -> str:
    if found.status == "pending":
        return "Restart requested. It happens once running agents have finished."
    if found.status == "running":
        return "Restarting now."
    result = "Restarted." if found.status == "done" else "The restart failed."
    return f"{result} {found.detail}".strip()
