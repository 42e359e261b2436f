"""Run all collectors, kind after kind, page by page."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from hostler.service.gc.context import Collector, GcContext, GcKind, GcResult
from hostler.service.gc.database import InboxCollector, OutboxCollector, TaskCollector
from hostler.service.gc.files import (
    BusCollector,
    CheckoutCollector,
    LogCollector,
    MirrorCollector,
    RunCollector,
)
from hostler.service.gc.folders import clear_trash

COLLECTORS = (
    CheckoutCollector,
    TaskCollector,
    RunCollector,
    MirrorCollector,
    OutboxCollector,
    InboxCollector,
    BusCollector,
    LogCollector,
)
# Where folders are renamed away before they are deleted.
_TRASH_FOLDERS = ("checkouts/*", "projects/*/tasks", "projects/*/tasks/*/runs", "mirrors/*")


def collect_garbage(
    at: GcContext, kinds: Collection[GcKind] = tuple(GcKind), *, dry_run: bool = False
) -> Iterator[GcResult]:
    """Collect each kind; yield what was removed, or would be in a dry run."""
    if not dry_run:
        _clear_leftover_trash(at.home)
    for collector in (make(at) for make in COLLECTORS):
        if collector.kind in kinds:
            swept = _collect_kind(collector, dry_run=dry_run)
            at.going.add(swept)
            yield swept


def _collect_kind(collector: Collector, *, dry_run: bool) -> GcResult:
    """Scan one kind, and remove page by page what may be removed."""
    swept = GcResult(collector.kind)
    for page in collector.scan():
        going = [one for one in page if one.goes]
        swept.add([one for one in page if not one.goes])
        swept.add(collector.remove(going) if going and not dry_run else going)
    return swept


def _clear_leftover_trash(home: Path) -> None:
    """Delete folders that a killed collection had renamed."""
    clear_trash(home, (folder for pattern in _TRASH_FOLDERS for folder in home.glob(pattern)))
