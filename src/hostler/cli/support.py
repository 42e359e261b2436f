"""`hostler support-bundle`: what people need who are to help, and nothing that is not theirs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.output import note, say, say_json
from hostler.cli.state import Globals, globals_of, settings_of

if TYPE_CHECKING:
    from hostler.config import Loaded

ABOUT = {
    "versions.json": "Hostler, Python, the system, libraries",
    "settings.toml": "the settings in force, without secrets",
    "doctor.json": "what `hostler doctor --quick` finds",
    "counts.json": "rows of each table, tasks, runs and writes by state",
    "disks.json": "room on the disks of the home",
    "log.jsonl": "the last log lines, without anybody's words",
}


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("support-bundle")(support_bundle)


def support_bundle(
    context: typer.Context,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; it must not exist.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Put together what helps others to help you: versions, settings, findings, counts, log lines.

    Secrets, prompts, code, titles and comments are not in it; names of repositories are. It asks
    nobody, and changes nothing. `MANIFEST.txt` inside lists everything.

    \b
    Example:
      hostler support-bundle
      hostler support-bundle --output bundle.tar.gz
    """
    from hostler.clock import SystemClock
    from hostler.service import support

    given = globals_of(context)
    moment = f"{SystemClock().now():%Y%m%d-%H%M%S}"
    name = f"hostler-support-{moment}"
    parts = _parts(given)
    parts = {support.MANIFEST: support.manifest(parts, ABOUT), **parts}
    place = output or Path(f"{name}.tar.gz")
    _write(place, support.packed(parts, name))
    if json:
        say_json({"file": str(place), "parts": {name: len(text) for name, text in parts.items()}})
        return
    say(parts[support.MANIFEST].rstrip())
    note(f"Wrote {place}.")


def _parts(given: Globals) -> dict[str, str]:
    from hostler.service import support
    from hostler.service.space import rooms_of

    loaded, broken = _settings(given)
    home = given.home_folder
    makers: dict[str, Callable[[], str]] = {
        "versions.json": lambda: support.as_json(support.versions()),
        "settings.toml": lambda: _toml(loaded) if loaded else f"# {broken}\n",
        "doctor.json": lambda: support.as_json(_findings(given)),
        "counts.json": lambda: support.as_json(_counts(given, loaded)),
        "disks.json": lambda: support.as_json([_room(one) for one in rooms_of(home)]),
        "log.jsonl": lambda: "".join(f"{one}\n" for one in support.log_lines(home / "logs")),
    }
    return {name: _made(make) for name, make in makers.items()}


def _made(make: Callable[[], str]) -> str:
    """A part, or why it could not be made: a bundle is wanted most where much is broken."""
    from hostler.telemetry.redact import redact

    try:
        return make()
    except Exception as error:  # whatever it is, the other parts are wanted
        return redact(f"({type(error).__name__}: it could not be put together)\n")


def _settings(given: Globals) -> tuple[Loaded | None, str]:
    from hostler.errors import HostlerError

    try:
        return settings_of(given), ""
    except HostlerError as error:
        return None, f"The settings have mistakes ({type(error).__name__})."


def _toml(loaded: Loaded) -> str:
    from hostler.config.explain import as_toml
    from hostler.telemetry.redact import redact

    return redact(as_toml(loaded.settings, loaded.given))


def _findings(given: Globals) -> list[dict[str, str]]:
    from hostler import health
    from hostler.clock import SystemClock
    from hostler.config import find
    from hostler.service.support import findings

    home = given.home_folder
    health.load_room_checks()
    where = health.Context(home, find(home, given.config), SystemClock())
    return findings(health.examine(where, quick=True))


def _counts(given: Globals, loaded: Loaded | None) -> object:
    from contextlib import closing

    from hostler.errors import StoreMissing
    from hostler.store import open_store
    from hostler.store.admin.inspect import census

    url = loaded.settings.runtime.database_url if loaded else ""
    try:
        with closing(open_store(given.home_folder, url or None)) as store, store.read() as tx:
            return census(tx)
    except StoreMissing:
        return {"rows": {}}


def _room(room: object) -> dict[str, object]:
    from dataclasses import asdict

    from hostler.service.space import Room

    assert isinstance(room, Room)
    return asdict(room)


def _write(place: Path, data: bytes) -> None:
    from hostler.errors import HostlerError

    try:
        # It is for people whom you choose: nobody else on this machine.
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise HostlerError(
            f"{place} exists already.",
            safe="Nothing was written.",
            remedy="Name another file with --output.",
        ) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
