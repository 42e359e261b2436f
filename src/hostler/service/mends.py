"""What `hostler doctor --fix` does: only what loses nothing, whoever else is at work."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from hostler.config import load
from hostler.errors import ConfigError
from hostler.governor import look_around, prune, read_policy
from hostler.health import Context, mend
from hostler.runs.run_folder import kill_orphans
from hostler.service.gc import premises
from hostler.service.gc.checkouts import Checkouts
from hostler.service.leftovers import strays, unowned
from hostler.service.visiting import visiting
from hostler.store.engine.backend import SqlitePlace

OTHERS = stat.S_IRWXO
ALL_BUT_OWNER = stat.S_IRWXG | stat.S_IRWXO


@mend("home")
def keep_the_home_ours(context: Context) -> Iterator[str]:
    """Nobody else writes to the home."""
    yield from _without(context.home, stat.S_IWOTH)


@mend("store.database")
def keep_the_database_ours(context: Context) -> Iterator[str]:
    """Nobody else reads the database."""
    with visiting(context) as visit:
        place = visit.store.place if visit else None
    if isinstance(place, SqlitePlace):
        yield from _without(place.path, OTHERS)


@mend("credentials")
def keep_credentials_ours(context: Context) -> Iterator[str]:
    """Only their owner reads the files of credentials."""
    try:
        github = load(context.home, context.config_path).settings.github
    except ConfigError:
        return
    for name in filter(None, (github.token_file, github.app_private_key_file)):
        yield from _without(Path(name).expanduser(), ALL_BUT_OWNER)


@mend("governor.leases")
def give_back_what_the_dead_held(context: Context) -> Iterator[str]:
    """Leases and wishes of dead processes go."""
    with visiting(context) as visit:
        if visit is None:
            return
        policy, here = read_policy(context.home, visit.settings), look_around()
        with visit.store.write("admission", relaxed=True) as tx:
            found = prune(tx, policy, here)
    if found.ended:
        yield f"{len(found.ended)} lease(s) of the dead were given back"


@mend("service.runs")
def end_strays(context: Context) -> Iterator[str]:
    """Processes of runs that are over end."""
    with visiting(context) as visit:
        if visit is None:
            return
        grace = float(visit.settings.runtime.stop_grace_seconds)
        for stray in strays(visit.store):
            yield f"{kill_orphans(stray.run, grace)} process(es) of {stray.run.run} were ended"


@mend("service.checkouts")
def remove_unused_checkouts(context: Context) -> Iterator[str]:
    """Checkouts of finished tasks go, if nothing is lost with them."""
    with visiting(context) as visit:
        if visit is None:
            return
        over = {f"{one.project}/{one.id}" for one in unowned(context.home, visit.store).over}
        broom = Checkouts(premises(context.home, visit.settings, visit.store, days=0))
        for page in broom.look():
            # Only what the check has told of: one that failed may go on in its checkout.
            gone = broom.remove([one for one in page if one.goes and one.name in over])
            yield from (f"the checkout {one.name} was removed" for one in gone if one.goes)


def _without(path: Path, rights: int) -> Iterator[str]:
    """Take rights away; what is not ours stays as it is, and says so by failing."""
    if not path.exists():
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & rights:
        os.chmod(path, mode & ~rights)  # noqa: PTH101 - a link's target, as it was looked at
        yield f"{path}: rights {mode:o} became {mode & ~rights:o}"
