"""`hostler service restart`: ask the service that works on this home to be replaced."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.output import note, say, say_json
from hostler.cli.state import globals_of, settings_of

if TYPE_CHECKING:
    from hostler.clock import Clock
    from hostler.store import Store
    from hostler.store.operator import Operation

# A commit wakes us; this is for a service that was killed, which says nothing.
LOOK_SECONDS = 5.0
# How long nobody may work on the home: a service that was killed is started again meanwhile.
GONE_SECONDS = 30.0


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

    given = globals_of(context)
    settings = settings_of(given).settings
    with closing(open_store(given.home_folder, settings.runtime.database_url or None)) as store:
        _require_service(given.home_folder)
        asked = _ask(store)
        if not asked:
            note("A restart is under way already.")
        found = _wait(store, given.home_folder, SystemClock()) if wait else _last(store)
    if json:
        say_json({**asdict(found), "status": found.status.value, "asked": asked})
    else:
        say(_sentence(found))
    raise typer.Exit(1 if wait and found.status == "failed" else 0)


def _require_service(home: Path) -> None:
    from hostler.errors import HostlerError
    from hostler.service.presence import presence

    found = presence(home)
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


def _ask(store: Store) -> bool:
    from hostler.cli.who import who
    from hostler.flows.operations import SCOPES, request_restart

    with store.write(*SCOPES) as tx:
        return request_restart(tx, who())


def _last(store: Store) -> Operation:
    from hostler.store.operator import RESTART, find_operation

    with store.read() as tx:
        found = find_operation(tx, RESTART)
    assert found is not None
    return found


def _wait(store: Store, home: Path, clock: Clock) -> Operation:
    """The restart, when it is over; an error if nobody is there to carry it out."""
    from hostler.errors import HostlerError
    from hostler.service.presence import presence

    gone_since: float | None = None
    while True:
        mark = store.change_mark()
        # Before the row: a service that has told its end may be gone a moment later.
        there, now = presence(home).takes_tasks, clock.monotonic()
        gone_since = None if there else (gone_since or now)
        found = _last(store)
        if not found.under_way:
            return found
        if gone_since is not None and now - gone_since >= GONE_SECONDS:
            raise HostlerError(
                "The service has ended before it restarted.",
                safe="The restart is still asked for: the next service tells what became of it.",
                remedy="Start one: hostler service",
            )
        store.wait_for_change(mark, LOOK_SECONDS)


def _sentence(found: Operation) -> str:
    if found.status == "pending":
        return "Asked for: it restarts as soon as all work is over; nothing begins until then."
    if found.status == "running":
        return "It restarts now."
    word = "Restarted." if found.status == "done" else "The restart failed."
    return f"{word} {found.detail}".strip()
