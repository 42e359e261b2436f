"""`hostler db`: create, upgrade, back up, restore, check and vacuum the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.context import JsonOption, global_options, load_settings, open_command_log
from hostler.cli.help import CommandGroup
from hostler.cli.output import print_json, print_line, print_note

if TYPE_CHECKING:
    from hostler.clock import Clock
    from hostler.store.admin.migrate import Upgrade
    from hostler.store.engine.backend import Place
    from hostler.store.engine.sqlite import Patience
    from hostler.telemetry.logs import EventLog


# Smaller copies finish before a progress line could be read.
_MIN_PAGES_FOR_PROGRESS = 25_000

commands = CommandGroup("db")


def register_db(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.callback()
def options(
    context: typer.Context,
    database_url: Annotated[
        str | None,
        typer.Option(
            envvar="HOSTLER_DATABASE_URL",
            metavar="URL",
            help="PostgreSQL address without password [default: from the settings, else SQLite in "
            "the home].",
        ),
    ] = None,
) -> None:
    """Create, upgrade, back up, restore and check the database.

    \b
    Example:
      hostler db upgrade
      hostler db --database-url postgresql://hostler@db.example/hostler check
    """
    context.obj = database_url


@dataclass(frozen=True, slots=True)
class _DatabaseTarget:
    """The database and log that one command of this group works on."""

    home: Path
    place: Place
    clock: Clock
    patience: Patience
    log: EventLog


@contextmanager
def _open_target(context: typer.Context, command: str) -> Iterator[_DatabaseTarget]:
    """Find the database by option, environment or settings, and open the command's log."""
    from hostler.clock import SystemClock
    from hostler.store.engine.backend import find_place
    from hostler.store.engine.sqlite import Patience

    given = global_options(context)
    settings = load_settings(given).settings
    chosen = context.parent.obj if context.parent else None
    url = chosen if isinstance(chosen, str) and chosen else settings.runtime.database_url
    place = find_place(given.home_folder, url or None)
    with open_command_log(given, settings, f"db {command}") as log:
        yield _DatabaseTarget(given.home_folder, place, SystemClock(), Patience(), log)


def _build_progress() -> Callable[[int, int], None]:
    """Return a callback that prints every tenth of a long copy."""
    printed = 0

    def print_progress(done: int, total: int) -> None:
        nonlocal printed
        tenths = done * 10 // total if total else 10
        if total >= _MIN_PAGES_FOR_PROGRESS and tenths > printed:
            printed = tenths
            print_note(f"Copied {tenths * 10} % ...")

    return print_progress


@commands.command()
def upgrade(
    context: typer.Context,
    backup: Annotated[
        bool, typer.Option("--backup/--no-backup", help="Take a backup before changing anything.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Create the database, or upgrade it to the schema version of this program.

    Writes a backup to `backups` in the home, then upgrades in one transaction. Stop the service
    first. Does nothing if the database is up to date.

    \b
    Example:
      hostler db upgrade
    """
    from hostler.store.admin.migrate import Plan
    from hostler.store.admin.migrate import upgrade as upgrade_database
    from hostler.telemetry.names import STORE_UPGRADED

    target = context.with_resource(_open_target(context, "upgrade"))
    print_note(f"Upgrading {target.place} ...")
    done = upgrade_database(
        target.home,
        target.place,
        clock=target.clock,
        patience=target.patience,
        progress=_build_progress(),
        plan=Plan(with_backup=backup),
    )
    kept = str(done.backup.path) if done.backup else None
    if done.changed:
        moved = target.log.bind(from_revision=done.before, to_revision=done.after)
        moved.event(STORE_UPGRADED, backup=kept)
    if json:
        facts = {"changed": done.changed, "from": done.before, "to": done.after}
        print_json({"database": str(target.place), **facts, "backup": kept})
    else:
        _print_upgrade(target.place, done)


def _print_upgrade(place: Place, done: Upgrade) -> None:
    if not done.changed:
        print_line(f"The database is up to date (schema {done.after}).")
    elif done.before is None:
        print_line(f"Created {place} (schema {done.after}).")
    else:
        print_line(f"Upgraded {place} from schema {done.before} to {done.after}.")
        print_line(f"Backup: {done.backup.path}" if done.backup else "No backup was taken.")


@commands.command("backup")
def back_up(
    context: typer.Context,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="New file [default: one in `backups` in the home]."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Back up the database; the service may keep running.

    PostgreSQL: needs pg_dump.

    \b
    Example:
      hostler db backup
      hostler db backup --to /mnt/safe/hostler-monday.db
    """
    from hostler.store.admin.backup import backup_path, take_backup
    from hostler.store.admin.migrate import present_revision
    from hostler.store.engine.errors import missing
    from hostler.telemetry.names import STORE_BACKED_UP

    target = context.with_resource(_open_target(context, "backup"))
    revision = present_revision(target.place, target.clock, target.patience)
    if revision is None:
        raise missing(target.place)
    path = to.absolute() if to else None
    path = path or backup_path(target.home, target.place, revision, target.clock)
    print_note(f"Backing up {target.place} ...")
    taken = take_backup(target.place, path, revision, _build_progress())
    target.log.event(STORE_BACKED_UP, backup=str(taken.path))
    if json:
        print_json({"backup": taken.path, "revision": taken.revision, "bytes": taken.size})
    else:
        print_line(f"Backup: {taken.path} ({taken.size:,} bytes, schema {taken.revision})")


@commands.command()
def restore(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Backup made by `hostler db backup` or `db upgrade`."),
    ],
    json: JsonOption = False,
) -> None:
    """Replace the database with a backup, and keep the current one in a separate file.

    Checks the whole backup before it changes anything. Stop the service first.

    \b
    Example:
      hostler db restore ~/.hostler/backups/hostler-0002-20260301T120000000Z.db
    """
    from hostler.store.admin.backup import restore as restore_database
    from hostler.store.admin.revision import HEAD
    from hostler.telemetry.names import STORE_RESTORED

    target = context.with_resource(_open_target(context, "restore"))
    print_note(f"Restoring {file} ...")
    done = restore_database(
        target.home,
        target.place,
        file.absolute(),
        clock=target.clock,
        patience=target.patience,
        progress=_build_progress(),
    )
    target.log.event(STORE_RESTORED, backup=str(done.backup.path), kept=str(done.kept or ""))
    if json:
        facts = {"restored": done.backup.path, "revision": done.backup.revision}
        print_json({"database": str(target.place), **facts, "kept": done.kept})
        return
    print_line(f"Restored {target.place} from {done.backup.path} (schema {done.backup.revision}).")
    if done.kept:
        print_line(f"The previous database was moved to {done.kept}.")
    if done.backup.revision != HEAD:
        print_line("Its schema is older than this program: run `hostler db upgrade` next.")


@commands.command()
def check(context: typer.Context, json: JsonOption = False) -> None:
    """Check the whole database for damage, broken references and a wrong schema.

    Exit code 0: no problems; 1: problems, one per line.

    \b
    Example:
      hostler db check
      hostler db check --json
    """
    from hostler.store.admin.inspect import inspect_database

    target = context.with_resource(_open_target(context, "check"))
    print_note(f"Checking {target.place} ...")
    found = inspect_database(target.place, target.clock, target.patience)
    if json:
        facts = {"sound": found.sound, "revision": found.revision, "problems": found.problems}
        print_json({"database": str(target.place), **facts})
    elif found.sound:
        print_line(f"No problems found (schema {found.revision}).")
    else:
        for problem in found.problems:
            print_line(f"problem: {problem}")
    raise typer.Exit(0 if found.sound else 1)


@commands.command()
def vacuum(context: typer.Context, json: JsonOption = False) -> None:
    """Shrink the database file by releasing unused space.

    SQLite needs free disk space of the size of the database; stop the service first. A
    PostgreSQL server keeps the space for new rows.

    \b
    Example:
      hostler db vacuum
    """
    from hostler.store.admin.inspect import vacuum as vacuum_database

    target = context.with_resource(_open_target(context, "vacuum"))
    print_note(f"Vacuuming {target.place} ...")
    done = vacuum_database(target.home, target.place, clock=target.clock, patience=target.patience)
    if json:
        print_json({"database": str(target.place), "before": done.before, "after": done.after})
    else:
        print_line(f"{done.before:,} bytes before, {done.after:,} bytes after.")
