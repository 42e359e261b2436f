"""What `hostler doctor` asks of the database."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator

from hostler.config.loader import load_settings
from hostler.errors import ConfigError, StoreError, StoreMissing, StoreOutdated
from hostler.health import CheckContext, CheckStatus, Finding, check
from hostler.store.engine.backend import URL_VARIABLE, Place, SqlitePlace, find_place

DATABASE, INTEGRITY, SPACE, WAL = (
    "store.database",
    "store.integrity",
    "store.space",
    "store.wal",
)
MEGABYTE = 1024 * 1024
LITTLE_SPACE = 1024 * MEGABYTE
NO_SPACE = 64 * MEGABYTE
LARGE_WAL = 256 * MEGABYTE


def _url(context: CheckContext) -> str | None:
    """The address that the environment or the settings name."""
    if named := os.environ.get(URL_VARIABLE):
        return named
    try:
        return (
            load_settings(context.home, context.config_path).settings.runtime.database_url or None
        )
    except ConfigError as error:
        raise StoreError(
            "The settings have mistakes, so where the database is cannot be known.",
            remedy="Mend them first: `hostler config check`.",
        ) from error


def _place(context: CheckContext) -> Place:
    return find_place(context.home, _url(context))


@check(DATABASE)
def database(context: CheckContext) -> Iterator[Finding]:
    """Is it there, and has it the layout of this program?"""
    from hostler.store.admin.backup import read_meta
    from hostler.store.store import open_store

    try:
        store = open_store(context.home, _url(context), clock=context.clock)
    except (StoreMissing, StoreOutdated) as error:
        yield Finding(DATABASE, CheckStatus.WARNING, error.what, error.remedy)
        return
    try:
        with store.read() as tx:
            made = read_meta(tx).get("created_at", "?")
    finally:
        store.close()
    if _others_may_read(store.place):
        evidence = f"{store.place} can be read by every user of this machine"
        yield Finding(DATABASE, CheckStatus.WARNING, evidence, f"Run: chmod o= {store.place}")
        return
    yield Finding(DATABASE, CheckStatus.OK, f"{store.place}, made {made}")


def _others_may_read(place: Place) -> bool:
    if not isinstance(place, SqlitePlace):
        return False
    folder, file = place.path.parent.stat().st_mode, place.path.stat().st_mode
    return bool(folder & stat.S_IXOTH and file & stat.S_IROTH)


@check(INTEGRITY, quick=False)
def integrity(context: CheckContext) -> Iterator[Finding]:
    """Is its content sound?"""
    from hostler.store.admin.inspect import inspect_database
    from hostler.store.engine.sqlite import Patience

    try:
        found = inspect_database(_place(context), context.clock, Patience())
    except StoreMissing as error:
        yield Finding(INTEGRITY, CheckStatus.SKIPPED, error.what)
        return
    if found.sound:
        yield Finding(INTEGRITY, CheckStatus.OK, f"all pages read, layout {found.revision}")
        return
    more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
    remedy = "See all with `hostler db check`; go back with `hostler db restore FILE`."
    yield Finding(INTEGRITY, CheckStatus.FAILED, found.problems[0] + more, remedy)


@check(SPACE)
def space(context: CheckContext) -> Iterator[Finding]:
    """Is there room in the home?"""
    folder = context.home
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    evidence = f"{free // MEGABYTE:,} MB free in {folder}"
    if free >= LITTLE_SPACE:
        yield Finding(SPACE, CheckStatus.OK, evidence)
        return
    status = CheckStatus.FAILED if free < NO_SPACE else CheckStatus.WARNING
    yield Finding(SPACE, status, evidence, "Free some space; old files in `backups` may go.")


@check(WAL)
def write_ahead_log(context: CheckContext) -> Iterator[Finding]:
    """Does the log of recent writes get moved into the file?"""
    place = _place(context)
    if not isinstance(place, SqlitePlace) or not place.wal.exists():
        yield Finding(WAL, CheckStatus.SKIPPED, "there is no write-ahead log beside the database")
        return
    size = place.wal.stat().st_size
    evidence = f"{size // MEGABYTE:,} MB in {place.wal.name}"
    if size <= LARGE_WAL:
        yield Finding(WAL, CheckStatus.OK, evidence)
        return
    # It only shrinks when no reader is left in it.
    remedy = "Some process keeps a read open; end it, then run `hostler db vacuum`."
    yield Finding(WAL, CheckStatus.WARNING, evidence, remedy)
