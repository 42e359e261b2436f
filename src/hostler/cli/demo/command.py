"""`hostler demo`: the whole way of several issues, on this machine alone."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.output import note, say_json

if TYPE_CHECKING:
    from hostler.cli.demo.cast import Plot
    from hostler.cli.demo.plain import View
    from hostler.cli.demo.stage import Stage
    from hostler.cli.demo.summary import Summary

LAST_LINES = 15


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(demo)


def demo(
    plain: Annotated[
        bool, typer.Option("--plain", help="One line per thing that happens, for logs.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running afterwards, until Ctrl-C.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, max=3600, help="Longest time for the story, in seconds.")
    ] = 85.0,
    json: Annotated[
        bool, typer.Option("--json", help="Print only the summary, as JSON for programs.")
    ] = False,
) -> None:
    """Watch Hostler at work: a GitHub of your own, a few people, and agents that play a script.

    It takes about a minute, needs no token, no model and no network, touches nothing of yours,
    and checks in the end what came of each issue. Exit code 0: everything holds.

    \b
    Example:
      hostler demo
      hostler demo --plain
      hostler demo --keep
    """
    from hostler.cli.demo.signals import Ending
    from hostler.cli.demo.theatre import Wishes, perform
    from hostler.clock import SystemClock

    show = _show_json if json else _show_text
    with Ending() as ending:
        wishes = Wishes(timeout, keep, show, _invite, _point_to)
        code = perform(wishes, _view(plain=plain, silent=json), ending, SystemClock())
    if code > 128:
        note("Stopped.")
    raise typer.Exit(code)


def _view(*, plain: bool, silent: bool) -> View:
    from hostler.cli.demo.plain import Plain, Silence

    if silent:
        return Silence()
    if plain or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return Plain()
    from hostler.cli.demo.screen import Screen

    return Screen()


def _show_text(summary: Summary) -> None:
    from hostler.cli.demo.summary import show

    show(summary)
    sys.stdout.flush()


def _show_json(summary: Summary) -> None:
    from hostler.cli.demo.summary import as_data

    say_json(as_data(summary))
    sys.stdout.flush()


def _invite(stage: Stage, url: str, plot: Plot) -> None:
    """Where everything is, and what to try."""
    from hostler.cli.demo.invitation import invitation

    # Not by way of the redactor: these tokens open nothing but this sandbox, and are to be shown.
    sys.stderr.write("\n".join(invitation(stage, url, plot, sys.argv[0])) + "\n")
    sys.stderr.flush()


def _point_to(stage: Stage, good: bool) -> None:
    """Where to look after a failure, or after a look around."""
    note(f"The demo's folder is kept: {stage.folder}")
    if not good and stage.log.exists():
        lines = stage.log.read_text(encoding="utf-8", errors="replace").splitlines()
        note(f"The service's last lines ({stage.log.name}):")
        for line in lines[-LAST_LINES:]:
            note(f"  {line}")
