"""The root command: global options, the list of commands, and the only place that catches errors.

Typer reads the signature of every registered command and loads its validation library to convert
options. Both take longer than most commands, so only the named command is kept, and a plain
`--help` is answered without parsing.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.main import get_command, get_command_name
from typer.models import CommandInfo, TyperInfo

from hostler.cli.commands.agents import register_agent_results, register_agents
from hostler.cli.commands.bus import register_bus
from hostler.cli.commands.config import register_config, register_init
from hostler.cli.commands.control import register_pause, register_run
from hostler.cli.commands.db import register_db
from hostler.cli.commands.dev_tools import register_sandbox, register_sim
from hostler.cli.commands.doctor import register_doctor, register_notify, register_support_bundle
from hostler.cli.commands.feedback import register_feedback
from hostler.cli.commands.gc import register_gc
from hostler.cli.commands.github import register_github
from hostler.cli.commands.governor import register_governor
from hostler.cli.commands.repo import register_repo
from hostler.cli.commands.service import register_service
from hostler.cli.commands.status import register_status, register_why
from hostler.cli.commands.task import register_task
from hostler.cli.commands.top import register_console, register_top
from hostler.cli.commands.web import register_web
from hostler.cli.commands.wrap import register_wrap
from hostler.cli.context import GlobalOptions, load_settings, resolve_folder
from hostler.cli.demo.command import register_demo
from hostler.cli.help import RootCommands
from hostler.cli.output import print_error, print_line, print_note, print_raw
from hostler.cli.stdio import guard_output
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.config.loader import LoadedSettings
    from hostler.config.settings import Settings


# Options of the root command that are followed by a value.
_OPTIONS_WITH_VALUE = frozenset({"--home", "--config"})


def keep_named_command(app: typer.Typer, arguments: Sequence[str]) -> typer.Typer:
    """Return the program with only the command that these arguments name.

    Return all of it if they name none: then the others are listed or suggested.
    """
    named = _command_words(arguments)
    return _keep_only(app, named[0], named[1:]) if named else app


def _keep_only(app: typer.Typer, name: str, rest: Sequence[str]) -> typer.Typer:
    """Return the group reduced to one of its commands; unchanged if it has none of that name."""
    groups = [info for info in app.registered_groups if _group_name(info) == name]
    commands = [info for info in app.registered_commands if _command_name(info) == name]
    if not groups + commands:
        return app
    reduced = copy.copy(app)
    reduced.registered_groups = [_narrow_group(info, rest) for info in groups]
    reduced.registered_commands = commands
    return reduced


def _narrow_group(info: TyperInfo, rest: Sequence[str]) -> TyperInfo:
    # A group has no options but --help, so the name of its command comes first or not at all.
    if info.typer_instance is None or not rest:
        return info
    reduced = copy.copy(info)
    reduced.typer_instance = _keep_only(info.typer_instance, rest[0], rest[1:])
    return reduced


def _command_words(arguments: Sequence[str]) -> Sequence[str]:
    """Return the command's name and everything after it, skipping options of the root."""
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        index += 2 if arguments[index] in _OPTIONS_WITH_VALUE else 1
    return arguments[index:]


def _group_name(info: TyperInfo) -> str | None:
    name = info.name or (info.typer_instance and info.typer_instance.info.name)
    return name if isinstance(name, str) else None


def _command_name(info: CommandInfo) -> str | None:
    return info.name or (get_command_name(info.callback.__name__) if info.callback else None)


def _render_help(app: typer.Typer, arguments: Sequence[str]) -> str | None:
    """Return the help text that these arguments ask for, or None if they ask for anything else."""
    *names, last = arguments or [""]
    if last not in {"--help", "-h"}:
        return None
    command = get_command(app)
    context = typer.Context(command, info_name="hostler", **command.context_settings)
    for name in names:
        found = getattr(command, "commands", {}).get(name)
        if found is None:
            return None
        command = found
        context = typer.Context(command, info_name=name, parent=context, **command.context_settings)
    return command.get_help(context)


# File in the home that records who confirmed the first start, and when.
CONSENT_FILE = "agreed.json"


def _run_without_command(context: typer.Context, given: GlobalOptions) -> None:
    """Start the service after a confirmation, asked once per home; otherwise print help."""
    loaded = _load_startable(given)
    if loaded is None:
        print_raw(context.get_help())
        raise typer.Exit(2)
    if not _has_consent(given.home_folder):
        for line in describe_start(loaded.settings):
            print_line(line)
        if not typer.confirm("Start now?", err=True):
            print_note("Nothing was started. Start it later with: hostler service")
            raise typer.Exit(1)
        _store_consent(given.home_folder)
    from hostler.cli.commands.service import start_service

    start_service(given, loaded)


def describe_start(settings: Settings) -> list[str]:
    """Describe what the service would do with these settings, and its limits."""
    runtime, budget = settings.runtime, settings.budget
    agents = ", ".join(f"{name} ({agent.kind})" for name, agent in settings.agent.items())
    repos = [f"{repo.owner}/{repo.name}" for repo in settings.repo.values()]
    limits = ((budget.per_task_usd, "task"), (budget.per_day_usd, "day"))
    caps = [f"{usd:g} USD per {what}" if usd else f"no limit per {what}" for usd, what in limits]
    return [
        "The service will watch "
        + (", ".join(repos) or "no repository, and run manual tasks only")
        + ".",
        f"Labelled issues of allowed users start agents: {agents}.",
        f"Agents cost money. Limits: {runtime.worker_count} agents at once; {', '.join(caps)}",
        "(costs are counted when an agent finishes; running agents are not interrupted).",
        "To preview which issues would start: hostler service --dry-run",
    ]


def _load_startable(given: GlobalOptions) -> LoadedSettings | None:
    """Return the settings if the service can be started from here; otherwise None.

    It needs a terminal to ask on, a settings file with an agent, and no running service.
    """
    from hostler.service.context import read_presence

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    loaded = load_settings(given)
    presence = read_presence(given.home_folder)
    if presence.holder is not None:
        print_note(presence.sentence())
        return None
    return loaded if loaded.path is not None and loaded.settings.agent else None


def _has_consent(home: Path) -> bool:
    return (home / CONSENT_FILE).exists()


def _store_consent(home: Path) -> None:
    import json
    from datetime import UTC, datetime

    from hostler.cli.context import current_user
    from hostler.cli.output import write_atomically
    from hostler.model import format_timestamp

    consent = {"by": current_user(), "at": format_timestamp(datetime.now(UTC))}
    write_atomically(home / CONSENT_FILE, json.dumps(consent) + "\n")


app = RootCommands()
for register in (
    register_agent_results,
    register_agents,
    register_bus,
    register_config,
    register_console,
    register_db,
    register_demo,
    register_doctor,
    register_feedback,
    register_gc,
    register_github,
    register_governor,
    register_pause,
    register_init,
    register_notify,
    register_repo,
    register_run,
    register_sandbox,
    register_service,
    register_sim,
    register_status,
    register_support_bundle,
    register_task,
    register_top,
    register_web,
    register_why,
    register_wrap,
):
    register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from hostler import __version__

        typer.echo(f"hostler {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    home: Annotated[
        Path | None,
        typer.Option(
            envvar="HOSTLER_HOME",
            metavar="DIR",
            help="The home: folder of the database, logs and checkouts [default: ~/.hostler].",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            envvar="HOSTLER_CONFIG",
            metavar="FILE",
            help="Settings file [default: ./hostler.toml, else hostler.toml in the home].",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and log lines.")] = False,
    _version_wanted: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version."),
    ] = False,
) -> None:
    """Run coding agents on GitHub issues, within limits that you set.

    \b
    Start here:
      hostler demo       watch it work, in one minute, without any account
      hostler init       write a settings file
      hostler doctor     check the setup
      hostler service    watch the repositories and start working
    """
    if home is not None:
        # For child processes, and for the log of a defect, which is written outside any command.
        os.environ["HOSTLER_HOME"] = str(resolve_folder(home))
    context.obj = GlobalOptions(home=home, config=config, debug=debug)
    if context.invoked_subcommand is None:
        _run_without_command(context, context.obj)


def run() -> None:
    """Run the command line; turn errors into one clear message and an exit code."""
    debug = "--debug" in sys.argv[1:]
    try:
        with guard_output():
            reduced = keep_named_command(app, sys.argv[1:])
            text = _render_help(reduced, sys.argv[1:])
            reduced() if text is None else print_raw(text)
    except KeyboardInterrupt:
        print_note("Stopped.")
        sys.exit(130)
    except Exception as error:
        if debug:
            raise
        translated = _translate_error(error)
        print_error(translated)
        sys.exit(translated.exit_code)


def _translate_error(error: Exception) -> HostlerError:
    """Turn any error into a HostlerError with a readable message."""
    if isinstance(error, HostlerError):
        return error
    if isinstance(error, OSError) and error.strerror:
        if not error.filename:
            return HostlerError(f"System error: {error.strerror}.")
        return HostlerError(
            f"Cannot access {error.filename}: {error.strerror}.",
            remedy="Fix its permissions, or use --home to choose another folder.",
        )
    return _build_defect_error(error)


def _build_defect_error(error: Exception) -> HostlerError:
    """Log the traceback of an unexpected error, and describe it in one line."""
    from hostler.cli.context import log_traceback

    log_path = log_traceback(error)
    defect = HostlerError(
        f"Internal error (a bug in Hostler): {type(error).__name__}: {error}",
        safe=f"Details: {log_path}" if log_path else "",
        remedy="Please report it. --debug shows the traceback.",
    )
    defect.exit_code = 70
    return defect
