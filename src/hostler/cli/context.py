"""Global options, settings, the open home, the command's log, and access to a running service."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.clock import SystemClock
    from hostler.config.loader import LoadedSettings
    from hostler.config.settings import Settings
    from hostler.service.tasks.control import PauseControl, TaskControl, TaskController
    from hostler.store import Store
    from hostler.telemetry.logs import EventLog
    from hostler.web.client.connection import ServiceConnection


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The global options of one call."""

    home: Path | None
    config: Path | None
    debug: bool

    @property
    def home_folder(self) -> Path:
        """The home: `--home`, `HOSTLER_HOME`, or `~/.hostler`."""
        return resolve_folder(self.home) if self.home else find_default_home()


def find_default_home() -> Path:
    """Return the home for calls without --home."""
    return resolve_folder(Path(os.environ.get("HOSTLER_HOME") or "~/.hostler"))


def resolve_folder(path: Path) -> Path:
    """Return a path given by the user as absolute path, with `~` expanded."""
    try:
        return path.expanduser().absolute()
    except (RuntimeError, OSError) as error:
        raise HostlerError(
            f"Cannot resolve the path {path}: {str(error).rstrip('.')}.",
            remedy="Give the full path with --home or HOSTLER_HOME.",
        ) from error


def load_settings(given: GlobalOptions) -> LoadedSettings:
    """Load the settings, and redact the secrets they name in all output from now on."""
    from hostler.config.loader import load_settings as load

    if given.config is None and os.environ.get("HOSTLER_RUN"):
        loaded = _load_settings_in_run(given.home_folder)
    else:
        loaded = load(given.home_folder, given.config)
    _register_secrets(loaded.settings)
    return loaded


def reload_settings(path: Path) -> Settings:
    """Load a changed settings file, and redact the secrets it names in all output."""
    from hostler.config.loader import read_settings

    settings = read_settings(path).settings
    _register_secrets(settings)
    return settings


def _register_secrets(settings: Settings) -> None:
    from hostler.config.settings import read_named_secrets
    from hostler.telemetry.redaction import register_secret

    for secret in read_named_secrets(settings, os.environ):
        register_secret(secret)


def _load_settings_in_run(home: Path) -> LoadedSettings:
    """Load the settings inside a run: a hostler.toml in the agent's checkout is ignored."""
    from hostler.config.loader import SETTINGS_FILE_NAME, LoadedSettings, path_exists, read_settings
    from hostler.config.settings import Settings

    path = home / SETTINGS_FILE_NAME
    return (
        read_settings(path) if path_exists(path) else LoadedSettings(Settings(), None, frozenset())
    )


def export_config_path(loaded: LoadedSettings) -> None:
    """Set HOSTLER_CONFIG, so that agents that call `hostler` use the same settings."""
    if loaded.path is not None:
        os.environ["HOSTLER_CONFIG"] = str(loaded.path.absolute())


def global_options(context: typer.Context) -> GlobalOptions:
    """Return the global options of this call."""
    found = context.find_root().obj
    assert isinstance(found, GlobalOptions)
    return found


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


TaskArgument = Annotated[
    str,
    typer.Argument(metavar="TASK", help="Task ID or its beginning, or an issue as owner/repo#12."),
]


TasksArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TASK...", help="Task IDs or their beginnings, or issues as owner/repo#12."
    ),
]


ReasonOption = Annotated[
    str, typer.Option(metavar="TEXT", help="Reason (shown in status and history).")
]


@dataclass(frozen=True, slots=True)
class CommandHome:
    """A home whose database is open."""

    home: Path
    loaded: LoadedSettings
    store: Store
    clock: SystemClock

    @property
    def settings(self) -> Settings:
        return self.loaded.settings


@contextmanager
def open_home(context: typer.Context, *, make: bool = False) -> Iterator[CommandHome]:
    """Open the home and its database; `make`: create the database if there is none."""
    from hostler.clock import SystemClock
    from hostler.service.context import open_or_create_store
    from hostler.store import open_store

    given, clock = global_options(context), SystemClock()
    loaded = load_settings(given)
    home, url = given.home_folder, loaded.settings.runtime.database_url or None
    store = open_or_create_store(home, url, clock) if make else open_store(home, url, clock=clock)
    try:
        yield CommandHome(home, loaded, store, clock)
    finally:
        store.close()


def current_actor() -> str:
    """Return who is recorded as the author of this command's actions."""
    task = os.environ.get("HOSTLER_TASK", "")
    return f"the agent of {task}" if task and os.environ.get("HOSTLER_RUN") else current_user()


def current_user() -> str:
    """Return the login name of the user."""
    from hostler.service.tasks.control import current_user as found

    return found()


@contextmanager
def open_command_log(given: GlobalOptions, settings: Settings, command: str) -> Iterator[EventLog]:
    """Open the log and the trace of one command; `--debug` also logs to the terminal."""
    from hostler.clock import SystemClock
    from hostler.telemetry import tracing
    from hostler.telemetry.logs import LogCaps, LogDestinations
    from hostler.telemetry.names import LogLevel

    runtime = settings.runtime
    if runtime.otel:
        tracing.start_tracing()
    logging = LogDestinations(
        SystemClock(),
        given.home_folder / "logs",
        retention_days=runtime.log_retention_days,
        caps=LogCaps.of_mb(runtime.log_max_mb_per_day, runtime.log_max_mb),
        least=LogLevel(runtime.log_level),
        terminal=sys.stderr if given.debug else None,
    )
    logging.capture_foreign()
    try:
        with tracing.span(f"hostler {command}"):
            yield logging.log
    finally:
        logging.close()
        tracing.stop_tracing()


def log_traceback(error: Exception) -> Path | None:
    """Write a traceback to the home's log; return its path, or None if that fails."""
    from hostler.clock import SystemClock
    from hostler.telemetry.logs import LogDestinations
    from hostler.telemetry.names import COMMAND_FAILED

    try:
        folder, clock = find_default_home() / "logs", SystemClock()
        logging = LogDestinations(clock, folder)
        logging.log.event(COMMAND_FAILED, error=error, command=" ".join(sys.argv[1:3]))
        logging.close()
    except Exception:  # the caller is reporting an error already
        return None
    return folder / f"{clock.now().date().isoformat()}.jsonl" if logging.complete else None


T = TypeVar("T")
# A running service writes its address to this file: see `web/discovery.py`.
ADDRESS_FILE = "web.json"


def call_service_or_local(
    context: typer.Context,
    remote: Callable[[ServiceConnection], T],
    local: Callable[[], T],
    by: str = "",
) -> T:
    """Call the running service if it would do exactly the same; otherwise act locally."""
    home = global_options(context).home_folder
    # The cheap checks first: the client of the service takes time to import.
    if is_inside_run(os.environ) or not (home / ADDRESS_FILE).exists():
        return local()
    from hostler.web.client.connection import NotExecuted
    from hostler.web.discovery import connect_to_service

    settings = load_settings(global_options(context)).settings
    line = connect_to_service(home, settings, os.environ, by or current_actor())
    if line is not None:
        with closing(line), suppress(NotExecuted):
            return remote(line)
    return local()


def is_inside_run(environment: Mapping[str, str]) -> bool:
    """Return whether an agent is calling, which must not use the operator's token."""
    return bool(environment.get("HOSTLER_RUN") or environment.get("HOSTLER_TASK"))


def control_tasks(context: typer.Context, act: Callable[[TaskControl], T]) -> T:
    """Run an action on tasks, in the service or here."""

    def remote(line: ServiceConnection) -> T:
        from hostler.web.client.commands import RemoteTasks

        return act(RemoteTasks(line))

    def local() -> T:
        with open_home(context) as opened:
            return act(_build_controller(opened))

    return call_service_or_local(context, remote, local)


def control_pauses(
    context: typer.Context, act: Callable[[PauseControl], T], *, make: bool = False
) -> T:
    """Pause or unpause, in the service or here; `make`: create the database if needed."""

    def remote(line: ServiceConnection) -> T:
        from hostler.web.client.commands import RemotePauses

        return act(RemotePauses(line))

    def local() -> T:
        with open_home(context, make=make) as opened:
            return act(_build_controller(opened))

    return call_service_or_local(context, remote, local)


def _build_controller(opened: CommandHome) -> TaskController:
    """Build the controller that acts in this process."""
    from hostler.service.tasks.control import TaskController

    grace = float(opened.settings.runtime.stop_grace_seconds)
    return TaskController(opened.home, opened.store, opened.clock, grace, current_actor())
