"""`hostler doctor`: is everything in place, and if not, what to do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.output import DIM, GREEN, RED, YELLOW, coloured, say, say_json
from hostler.cli.state import globals_of

if TYPE_CHECKING:
    from hostler.health import Finding, Mended

_LOOK = {"ok": GREEN, "skipped": DIM, "warning": YELLOW, "failed": RED}


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(doctor)


def doctor(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what takes long.")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what is safe to mend, and ask again.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Check settings, database, tools, and what work has left behind.

    Each finding says how we know and what to do. With --fix, rights of others on our files, places
    and processes of the dead, and checkouts with which nothing is lost are mended. Exit code 0: all
    well; 1: something to look at; 2: something is broken.

    \b
    Example:
      hostler doctor
      hostler doctor --fix
      hostler doctor --quick --json
    """
    from hostler import health
    from hostler.clock import SystemClock
    from hostler.config import find

    given = globals_of(context)
    home = given.home_folder
    health.load_room_checks()
    where = health.Context(home, find(home, given.config), SystemClock())
    findings = health.examine(where, quick=quick)
    mended = health.mend_all(where, findings) if fix else []
    if mended:
        findings = health.examine(where, quick=quick)
    if json:
        found = {"findings": [asdict(f) for f in findings], "mended": [asdict(m) for m in mended]}
        say_json({"exit_code": health.verdict(findings), **found})
    else:
        for one in mended:
            _say_mended(one)
        for finding in findings:
            show(finding)
    raise typer.Exit(health.verdict(findings))


def _say_mended(mended: Mended) -> None:
    word, look = ("mended", GREEN) if mended.done else ("not mended", RED)
    say(f"{coloured(f'{word:<8}', look)} {mended.check}: {mended.what}")


def show(finding: Finding, whose: str = "") -> None:
    """One finding, for people; `whose`, if it is about one of many."""
    status = coloured(f"{finding.status:<8}", _LOOK[finding.status])
    about = f"{whose}.{finding.check}" if whose else finding.check
    say(f"{status} {about}: {finding.evidence}")
    if finding.remedy:
        say(f"         {finding.remedy}")
