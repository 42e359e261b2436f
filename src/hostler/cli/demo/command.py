"""`hostler demo`: options and output."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.output import print_json, print_note

if TYPE_CHECKING:
    from hostler.cli.demo.display import DemoView
    from hostler.cli.demo.environment import DemoPaths, DemoScenario
    from hostler.cli.demo.verify import DemoSummary


LOG_TAIL_LINES = 15


def register_demo(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(demo)


def demo(
    plain: Annotated[
        bool, typer.Option("--plain", help="Print one line per event instead of a live view.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep everything running afterwards, until Ctrl-C.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=1, max=3600, help="Time limit of the whole demo."),
    ] = 85.0,
    json: Annotated[bool, typer.Option("--json", help="Print only the summary, as JSON.")] = False,
) -> None:
    """Watch Hostler work on a local GitHub with scripted agents.

    Takes about a minute. Needs no token, model or network, and does not touch your files. At the
    end it checks the result of every issue. Exit code 0: all checks passed.

    \b
    Example:
      hostler demo
      hostler demo --plain
      hostler demo --keep
    """
    from hostler.cli.demo.runner import DemoOptions, StopRequest, run_demo
    from hostler.clock import SystemClock

    show = _print_summary_json if json else _print_summary_text
    with StopRequest() as stop_request:
        options = DemoOptions(timeout, keep, show, _print_hints, _print_folder)
        code = run_demo(
            options, _choose_view(plain=plain, silent=json), stop_request, SystemClock()
        )
    if code > 128:
        print_note("Stopped.")
    raise typer.Exit(code)


def _choose_view(*, plain: bool, silent: bool) -> DemoView:
    from hostler.cli.demo.display import PlainView, SilentView

    if silent:
        return SilentView()
    if plain or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return PlainView()
    from hostler.cli.demo.screen import LiveView

    return LiveView()


def _print_summary_text(summary: DemoSummary) -> None:
    from hostler.cli.demo.verify import print_summary

    print_summary(summary)
    sys.stdout.flush()


def _print_summary_json(summary: DemoSummary) -> None:
    from hostler.cli.demo.verify import summary_json

    print_json(summary_json(summary))
    sys.stdout.flush()


def _print_hints(paths: DemoPaths, url: str, scenario: DemoScenario) -> None:
    """Print where everything is, and commands to try."""
    from hostler.cli.demo.environment import render_hints

    # Without redaction: these tokens are valid for this sandbox only.
    sys.stderr.write("\n".join(render_hints(paths, url, scenario, sys.argv[0])) + "\n")
    sys.stderr.flush()


def _print_folder(paths: DemoPaths, good: bool) -> None:
    """Print where the kept folder is, and after a failure the end of the service's log."""
    print_note(f"The folder of the demo was kept: {paths.folder}")
    if not good and paths.log.exists():
        lines = paths.log.read_text(encoding="utf-8", errors="replace").splitlines()
        print_note(f"Last lines of the service ({paths.log.name}):")
        for line in lines[-LOG_TAIL_LINES:]:
            print_note(f"  {line}")
