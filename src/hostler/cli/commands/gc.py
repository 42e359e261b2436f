"""`hostler gc`: remove old tasks, runs, checkouts, mirrors and logs."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.context import global_options, load_settings, open_command_log
from hostler.cli.output import DIM, colourise, print_json, print_line, print_note
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hostler.service.gc.context import GcContext, GcResult


MAX_LISTED = 3
_DATABASE_KINDS = ("tasks", "outbox", "inbox")


class GcKindOption(StrEnum):
    """Kinds of data to delete; repeated here so that help does not load the service."""

    CHECKOUTS = "checkouts"
    TASKS = "tasks"
    RUNS = "runs"
    MIRRORS = "mirrors"
    OUTBOX = "outbox"
    INBOX = "inbox"
    BUS = "bus"
    LOGS = "logs"


def register_gc(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(gc)


def gc(
    context: typer.Context,
    older_than: Annotated[
        int, typer.Option(metavar="DAYS", min=1, max=36_500, help="Minimum age in days.")
    ] = 30,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be deleted, and what not.")
    ] = False,
    only: Annotated[
        list[GcKindOption] | None,
        typer.Option(
            metavar="KIND",
            help="Only checkouts, tasks, runs, mirrors, outbox, inbox, bus or logs (repeatable).",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Delete old, unused data. Never touches active or unsaved work.

    Deletes finished tasks, their run folders and checkouts, mirrors of repositories that are no
    longer watched, processed GitHub events and writes, old bus files and old logs. The service
    may keep running. Exit code 1: something could not be deleted.

    \b
    Example:
      hostler gc --dry-run
      hostler gc --older-than 90 --only runs --only checkouts
      hostler gc --yes --json
    """
    from contextlib import closing

    from hostler.service.gc.context import GcKind, build_gc_context
    from hostler.store import open_store

    given = global_options(context)
    settings = load_settings(given).settings
    _require_consent(dry_run=dry_run, yes=yes, json=json)
    kinds = [GcKind(one.value) for one in only or tuple(GcKindOption)]
    home = given.home_folder
    with (
        open_command_log(given, settings, "gc") as log,
        closing(open_store(home, settings.runtime.database_url or None)) as store,
    ):

        def at() -> GcContext:
            return build_gc_context(home, settings, store, older_than)

        if not dry_run and not yes:
            _confirm_removal(at(), kinds)
        # The confirmation has just listed what is kept and why: do not repeat it.
        report = None if json else _print_kind if dry_run or yes else _print_removed
        swept = _collect(at(), kinds, dry_run=dry_run, report=report)
        if not dry_run:
            _log_removals(log, swept)
    if json:
        print_json(_result_json(swept, older_than, dry_run=dry_run))
    else:
        _print_total(swept, dry_run=dry_run)
    if any(one.refused for one in swept):
        raise typer.Exit(1)


def _require_consent(*, dry_run: bool, yes: bool, json: bool) -> None:
    """Raise HostlerError if the user can neither be asked nor has passed --yes or --dry-run."""
    if dry_run or yes:
        return
    if json or not sys.stdin.isatty():
        raise HostlerError(
            "Not a terminal: cannot ask for confirmation."
            if not json
            else "--json cannot ask for confirmation.",
            safe="Nothing was deleted.",
            remedy="Preview with --dry-run, then use --yes.",
        )


def _confirm_removal(at: GcContext, kinds: Sequence[Any]) -> None:
    """Show what would be deleted, and exit unless the user confirms."""
    swept = _collect(at, kinds, dry_run=True, report=_print_kind)
    if not any(one.gone for one in swept):
        print_line("Nothing to delete.")
        raise typer.Exit(0)
    if not typer.confirm(f"Delete {_format_total(swept)}?", err=True):
        print_note("Nothing was deleted.")
        raise typer.Exit(1)


def _collect(
    at: GcContext,
    kinds: Sequence[Any],
    *,
    dry_run: bool,
    report: Callable[[GcResult, bool], None] | None,
) -> list[GcResult]:
    from hostler.service.gc.collector import collect_garbage

    done: list[GcResult] = []
    for swept in collect_garbage(at, kinds, dry_run=dry_run):
        done.append(swept)
        if report is not None:
            report(swept, dry_run)
    return done


def _print_removed(swept: GcResult, dry_run: bool) -> None:
    """Print how much of one kind is deleted."""
    verb = "would be deleted" if dry_run else "deleted"
    print_line(f"{swept.kind.value:<10} {len(swept.gone):>6} {verb}, {format_bytes(swept.size)}")


def _print_kind(swept: GcResult, dry_run: bool) -> None:
    """Print how much of one kind is deleted, and what is kept by reason."""
    _print_removed(swept, dry_run)
    for why, count in swept.reasons().most_common():
        names = [_format_item(one) for one in swept.kept if one.why is why][:MAX_LISTED]
        more = ", …" if count > len(names) else ""
        some = colourise(f"({', '.join(names)}{more})", DIM)
        print_line(f"{'':<10} {count:>6} kept: {why.value} {some}")


def _format_item(one: Any) -> str:
    from hostler.text import escape_line

    return escape_line(f"{one.name}: {one.detail}" if one.detail else one.name)


def _format_total(swept: Sequence[GcResult]) -> str:
    count = sum(len(one.gone) for one in swept)
    size = format_bytes(sum(one.size for one in swept))
    return f"{count} item{'' if count == 1 else 's'}, {size}"


def _print_total(swept: Sequence[GcResult], *, dry_run: bool) -> None:
    if dry_run:
        print_line(f"Would delete {_format_total(swept)}. Nothing was deleted.")
        return
    print_line(f"Deleted {_format_total(swept)}.")
    if any(one.gone for one in swept if one.kind.value in _DATABASE_KINDS):
        print_line("The database file keeps its size; `hostler db vacuum` shrinks it.")


def format_bytes(size: int) -> str:
    """Format a size in bytes, kB, MB or GB."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"


def _log_removals(log: Any, swept: Sequence[GcResult]) -> None:
    from hostler.telemetry.names import GC_SWEPT

    for one in swept:
        if one.gone:
            log.event(GC_SWEPT, kind=one.kind.value, count=len(one.gone), bytes=one.size)


def _result_json(swept: Sequence[GcResult], days: int, *, dry_run: bool) -> dict[str, Any]:
    from hostler.text import escape_control

    return {
        "older_than_days": days,
        "dry_run": dry_run,
        "bytes": sum(one.size for one in swept),
        "kinds": [
            {
                "kind": one.kind.value,
                "count": len(one.gone),
                "bytes": one.size,
                "gone": [
                    {"name": escape_control(gone.name), "bytes": gone.size, "detail": gone.detail}
                    for gone in one.gone
                ],
                "kept": [
                    {
                        "name": escape_control(kept.name),
                        "why": kept.why.name.lower(),
                        "reason": kept.why.value,
                        "detail": escape_control(kept.detail),
                    }
                    for kept in one.kept
                    if kept.why is not None
                ],
            }
            for one in swept
        ],
    }
