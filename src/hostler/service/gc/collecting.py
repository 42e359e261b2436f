"""The whole round: kind after kind, each in pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from hostler.service.gc.buses import Buses
from hostler.service.gc.checkouts import Checkouts
from hostler.service.gc.folders import clear_trash
from hostler.service.gc.logs import Logs
from hostler.service.gc.mirrors import Mirrors
from hostler.service.gc.premises import Premises
from hostler.service.gc.report import Broom, Kind, Swept
from hostler.service.gc.runs import Runs
from hostler.service.gc.tasks import Tasks
from hostler.service.gc.threads import Inbox
from hostler.service.gc.writes import Outbox

BROOMS = (Checkouts, Tasks, Runs, Mirrors, Outbox, Inbox, Buses, Logs)
# Where folders are renamed away before they are deleted.
_WITH_TRASH = ("checkouts/*", "projects/*/tasks", "projects/*/tasks/*/runs", "mirrors/*")


def collect(
    at: Premises, kinds: Collection[Kind] = tuple(Kind), *, dry_run: bool = False
) -> Iterator[Swept]:
    """What went of each kind, or would go, as soon as it is through."""
    if not dry_run:
        clear_leftovers(at.home)
    for broom in (make(at) for make in BROOMS):
        if broom.kind in kinds:
            swept = sweep(broom, dry_run=dry_run)
            at.going.add(swept)
            yield swept


def sweep(broom: Broom, *, dry_run: bool) -> Swept:
    """Look over one kind, and remove page by page what may go."""
    swept = Swept(broom.kind)
    for page in broom.look():
        going = [one for one in page if one.goes]
        swept.add([one for one in page if not one.goes])
        swept.add(broom.remove(going) if going and not dry_run else going)
    return swept


def clear_leftovers(home: Path) -> None:
    """Delete what a round that was killed had renamed away."""
    clear_trash(home, (folder for pattern in _WITH_TRASH for folder in home.glob(pattern)))
