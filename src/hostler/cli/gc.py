"""`hostler gc`: remove what is old and of no more use."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.logbook import logbook
from hostler.cli.output import DIM, coloured, note, say, say_json
from hostler.cli.state import globals_of, settings_of
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hostler.service.gc import Premises, Swept

MOST_TOLD = 3
_ROWS = ("tasks", "outbox", "inbox")


class Only(StrEnum):
    """The kinds by name; what they are is said in the service, which is not loaded for this."""

    CHECKOUTS = "checkouts"
    TASKS = "tasks"
    RUNS = "runs"
    MIRRORS = "mirrors"
    OUTBOX = "outbox"
    INBOX = "inbox"
    BUS = "bus"
    LOGS = "logs"


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(gc)


def gc(
    context: typer.Context,
    older_than: Annotated[
        int, typer.Option(metavar="DAYS", min=1, max=36_500, help="How many days old it must be.")
    ] = 30,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would go, what stays, and why.")
    ] = False,
    only: Annotated[
        list[Only] | None,
        typer.Option(
            metavar="KIND",
            help="Only checkouts, tasks, runs, mirrors, outbox, inbox, bus or logs (repeatable).",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Remove what is old and of no more use; never what is live, dirty or younger.

    Finished tasks, folders of their runs, their checkouts, mirrors of repositories that are not
    watched any more, threads and writes of GitHub that are over, old files of buses, old logs. A
    service may run meanwhile. Exit code 1: something could not be removed.

    \b
    Example:
      hostler gc --dry-run
      hostler gc --older-than 90 --only runs --only checkouts
      hostler gc --yes --json
    """
    from contextlib import closing

    from hostler.service.gc import Kind, premises
    from hostler.store import open_store

    given = globals_of(context)
    settings = settings_of(given).settings
    _require_a_word(dry_run=dry_run, yes=yes, json=json)
    kinds = [Kind(one.value) for one in only or tuple(Only)]
    home = given.home_folder
    with (
        logbook(given, settings, "gc") as log,
        closing(open_store(home, settings.runtime.database_url or None)) as store,
    ):

        def at() -> Premises:
            return premises(home, settings, store, older_than)

        if not dry_run and not yes:
            _ask(at(), kinds)
        # Whoever was asked has just read why the rest stays.
        tell = None if json else _say if dry_run or yes else _say_gone
        swept = _round(at(), kinds, dry_run=dry_run, tell=tell)
        if not dry_run:
            _log(log, swept)
    if json:
        say_json(_as_json(swept, older_than, dry_run=dry_run))
    else:
        _say_sum(swept, dry_run=dry_run)
    if any(one.refused for one in swept):
        raise typer.Exit(1)


def _require_a_word(*, dry_run: bool, yes: bool, json: bool) -> None:
    """Nothing goes unless somebody says so, here or now."""
    if dry_run or yes:
        return
    if json or not sys.stdin.isatty():
        raise HostlerError(
            "There is no terminal to ask on." if not json else "With --json nobody is asked.",
            safe="Nothing was removed.",
            remedy="Look with --dry-run, then use --yes.",
        )


def _ask(at: Premises, kinds: Sequence[Any]) -> None:
    """Show what would go, and leave unless somebody agrees."""
    swept = _round(at, kinds, dry_run=True, tell=_say)
    if not any(one.gone for one in swept):
        say("Nothing is to be removed.")
        raise typer.Exit(0)
    if not typer.confirm(f"Remove {_sum(swept)}?", err=True):
        note("Nothing was removed.")
        raise typer.Exit(1)


def _round(
    at: Premises,
    kinds: Sequence[Any],
    *,
    dry_run: bool,
    tell: Callable[[Swept, bool], None] | None,
) -> list[Swept]:
    from hostler.service.gc import collect

    done: list[Swept] = []
    for swept in collect(at, kinds, dry_run=dry_run):
        done.append(swept)
        if tell is not None:
            tell(swept, dry_run)
    return done


def _say_gone(swept: Swept, dry_run: bool) -> None:
    """One kind: what goes."""
    goes = "would go" if dry_run else "gone"
    say(f"{swept.kind.value:<10} {len(swept.gone):>6} {goes}, {in_words(swept.size)}")


def _say(swept: Swept, dry_run: bool) -> None:
    """One kind: what goes, and what stays by reason."""
    _say_gone(swept, dry_run)
    for why, count in swept.reasons().most_common():
        told = [_name(one) for one in swept.kept if one.why is why][:MOST_TOLD]
        more = ", …" if count > len(told) else ""
        some = coloured(f"({', '.join(told)}{more})", DIM)
        say(f"{'':<10} {count:>6} kept: {why.value} {some}")


def _name(one: Any) -> str:
    from hostler.cli.looks import plain

    return plain(f"{one.name}: {one.detail}" if one.detail else one.name)


def _sum(swept: Sequence[Swept]) -> str:
    things = sum(len(one.gone) for one in swept)
    size = in_words(sum(one.size for one in swept))
    return f"{things} thing{'' if things == 1 else 's'}, {size}"


def _say_sum(swept: Sequence[Swept], *, dry_run: bool) -> None:
    if dry_run:
        say(f"{_sum(swept)} would go. Nothing was removed.")
        return
    say(f"Removed {_sum(swept)}.")
    if any(one.gone for one in swept if one.kind.value in _ROWS):
        say("The database keeps the space for new rows; `hostler db vacuum` gives it back.")


def in_words(size: int) -> str:
    """Bytes as people say them."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"


def _log(log: Any, swept: Sequence[Swept]) -> None:
    from hostler.telemetry.names import GC_SWEPT

    for one in swept:
        if one.gone:
            log.event(GC_SWEPT, kind=one.kind.value, count=len(one.gone), bytes=one.size)


def _as_json(swept: Sequence[Swept], days: int, *, dry_run: bool) -> dict[str, Any]:
    from hostler.cli.looks import visible

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
                    {"name": visible(gone.name), "bytes": gone.size, "detail": gone.detail}
                    for gone in one.gone
                ],
                "kept": [
                    {
                        "name": visible(kept.name),
                        "why": kept.why.name.lower(),
                        "reason": kept.why.value,
                        "detail": visible(kept.detail),
                    }
                    for kept in one.kept
                    if kept.why is not None
                ],
            }
            for one in swept
        ],
    }
