"""The root command: global options, the list of commands, and the one place errors are caught."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from hostler.cli import (
    agent_words,
    agents,
    bus,
    console,
    db,
    doctor,
    feedback,
    gc,
    github,
    governor,
    holding,
    notify,
    repo,
    sandbox,
    service,
    sim,
    status,
    support,
    task,
    top,
    web,
    why,
    wrap,
)
from hostler.cli import config as config_commands
from hostler.cli import init as init_command
from hostler.cli import run as run_command
from hostler.cli.demo import command as demo_command
from hostler.cli.narrowing import narrowed
from hostler.cli.output import emit, note, report
from hostler.cli.quickhelp import quick_help
from hostler.cli.state import Globals, folder
from hostler.cli.stdio import whole_output
from hostler.errors import HostlerError

# Plain help: the decorated kind doubles the start-up time of every `--help`.
app = typer.Typer(
    name="hostler",
    rich_markup_mode=None,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for room in (
    agent_words,
    agents,
    bus,
    config_commands,
    console,
    db,
    demo_command,
    doctor,
    feedback,
    gc,
    github,
    governor,
    holding,
    init_command,
    notify,
    repo,
    run_command,
    sandbox,
    service,
    sim,
    status,
    support,
    task,
    top,
    web,
    why,
    wrap,
):
    room.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        from hostler import __version__

        typer.echo(f"hostler {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    home: Annotated[
        Path | None,
        typer.Option(envvar="HOSTLER_HOME", help="Folder of the database, logs and checkouts."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            envvar="HOSTLER_CONFIG",
            help="Settings file [default: ./hostler.toml, then the home's].",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    _version_wanted: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_version, help="Show the version."),
    ] = False,
) -> None:
    """Run a stable of coding agents on GitHub issues, never more than you allow.

    \b
    Start here:
      hostler init                 write a settings file
      hostler doctor               see whether everything is in place
      hostler sandbox              a GitHub of your own to try things on
    """
    if home is not None:
        # For what we start, and for the log of a defect, which is written outside any command.
        os.environ["HOSTLER_HOME"] = str(folder(home))
    context.obj = Globals(home=home, config=config, debug=debug)
    if context.invoked_subcommand is None:
        from hostler.cli.bare import bare

        bare(context, context.obj)


def run() -> None:
    """Run the command line; turn errors into one clear message and an exit code."""
    debug = "--debug" in sys.argv[1:]
    try:
        with whole_output():
            less = narrowed(app, sys.argv[1:])
            text = quick_help(less, sys.argv[1:])
            less() if text is None else emit(text)
    except KeyboardInterrupt:
        note("Stopped.")
        sys.exit(130)
    except Exception as error:
        if debug:
            raise
        told = translated(error)
        report(told)
        sys.exit(told.exit_code)


def translated(error: Exception) -> HostlerError:
    """Any error as one that a person can read."""
    if isinstance(error, HostlerError):
        return error
    if isinstance(error, OSError) and error.strerror:
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        return HostlerError(
            f"The system refused: {what}.", remedy="Mend that, or name another place."
        )
    return _unexpected(error)


def _unexpected(error: Exception) -> HostlerError:
    """A defect of ours: keep the traceback in the log, tell the person in one line."""
    from hostler.cli.logbook import keep_traceback

    kept = keep_traceback(error)
    told = HostlerError(
        f"Hostler has a defect: {type(error).__name__}: {error}",
        safe=f"The details are in {kept}." if kept else "",
        remedy="Please report it; --debug shows the details here.",
    )
    told.exit_code = 70
    return told
