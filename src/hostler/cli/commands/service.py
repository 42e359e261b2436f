"""`hostler service`: poll repositories and run agents, or preview which issues would start."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from hostler.cli.context import (
    GlobalOptions,
    export_config_path,
    global_options,
    load_settings,
    open_command_log,
    reload_settings,
)
from hostler.cli.foreground import (
    ApiOptions,
    ServiceSession,
    ServiceUi,
    exit_now,
    print_timed,
    serve_api,
)
from hostler.cli.help import CommandGroup
from hostler.cli.output import colourise, print_json, print_line, print_note

if TYPE_CHECKING:
    from hostler.cli.foreground import SignalHandler
    from hostler.config.loader import LoadedSettings
    from hostler.config.settings import Settings
    from hostler.errors import HostlerError
    from hostler.intake.decisions import IssuePreview
    from hostler.service.context import AppContext
    from hostler.service.polling.webhooks import WebhookReceiver
    from hostler.service.restart import RestartDeps
    from hostler.service.runner import ServiceRunner
    from hostler.service.service_log import ServiceLog
    from hostler.store.engine.locks import HomeLock


commands = CommandGroup("service", runs_alone=True)


def register_service(app: typer.Typer) -> None:
    """Add the commands of this file."""
    from hostler.cli.commands import service_admin

    commands.command("restart")(service_admin.restart)
    commands.command("install")(service_admin.install)
    app.add_typer(commands)


@commands.callback()
def service(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show which issues would be picked up, and why.")
    ] = False,
    stop_agents: Annotated[
        bool, typer.Option("--stop-agents", help="Stop running agents when the service stops.")
    ] = False,
    once: Annotated[
        bool,
        typer.Option("--once", help="Poll each repository once; exit when the work is finished."),
    ] = False,
    web: Annotated[
        bool | None,
        typer.Option(
            "--web/--no-web", help="Serve the web dashboard and the API [default: as in [web]]."
        ),
    ] = None,
    web_listen: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Address of the dashboard; implies --web."),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="With --dry-run: print JSON.")] = False,
) -> None:
    """Watch repositories and run agents on their issues.

    Also runs manual tasks (`hostler task submit`), with or without watched repositories. Runs in
    the foreground. Ctrl-C or SIGTERM stops it within seconds; agents keep running, and the next
    start takes them over. A second Ctrl-C exits immediately. Changed settings are reloaded
    automatically (immediately on SIGHUP); it reports those that need a restart.

    \b
    Example:
      hostler service --dry-run
      hostler service
      hostler service --stop-agents
      hostler service --once
      hostler service --web --web-listen 127.0.0.1:8473
    """
    if context.invoked_subcommand is not None:
        return
    given = global_options(context)
    loaded = load_settings(given)
    if dry_run:
        _require_configured(loaded.settings, repository=True)
        _preview_issues(given, loaded.settings, json=json)
        return
    if json:
        raise typer.BadParameter("only valid with --dry-run", param_hint="--json")
    if web is False and web_listen:
        raise typer.BadParameter("not valid with --no-web", param_hint="--web-listen")
    ui = ServiceUi(web=ApiOptions(True if web_listen else web, web_listen))
    start_service(given, loaded, stop_agents=stop_agents, once=once, ui=ui)


def start_service(
    given: GlobalOptions,
    loaded: LoadedSettings,
    *,
    stop_agents: bool = False,
    once: bool = False,
    ui: ServiceUi | None = None,
) -> NoReturn:
    """Run the service in the foreground until it is asked to stop."""
    _require_configured(loaded.settings, repository=False)
    if loaded.path is not None:
        # Programs that we start in other folders must find the same file.
        loaded = replace(loaded, path=loaded.path.absolute())
    export_config_path(loaded)
    _run_until_stopped(given, loaded, ui or ServiceUi(), stop_agents=stop_agents, once=once)


def _require_configured(settings: Settings, *, repository: bool) -> None:
    """Raise HostlerError if no agent is configured, or no repository if one is needed."""
    from hostler.errors import HostlerError

    if not settings.repo and (repository or not settings.agent):
        raise HostlerError(
            "No repository" + ("" if settings.agent else " and no agent") + " is configured.",
            safe="Nothing was started.",
            remedy="Create the settings with `hostler init`, or run `hostler repo add owner/name`.",
        )
    if not settings.agent:
        raise HostlerError(
            "No agent is configured.",
            safe="Nothing was started.",
            remedy="Add an [agent.<name>] table, or create the settings with `hostler init`.",
        )


def _run_until_stopped(
    given: GlobalOptions, loaded: LoadedSettings, ui: ServiceUi, *, stop_agents: bool, once: bool
) -> NoReturn:
    from hostler.checkouts.git import require_version as require_git
    from hostler.clock import SystemClock
    from hostler.service.context import ONE_POLL_PURPOSE, SERVICE_PURPOSE, lock_and_open
    from hostler.service.restart import take_inherited_lock
    from hostler.service.service_log import ServiceLog
    from hostler.service.systemd import SystemdNotifier

    lock, clock, settings = take_inherited_lock(), SystemClock(), loaded.settings
    systemd = SystemdNotifier(os.environ, clock)
    signal_handler = ui.signal_handler(systemd.stopping, stop_agents=stop_agents)
    # Before starting children: they would inherit blocked signals.
    signal_handler.listen()
    if settings.repo:
        require_git()
    purpose = ONE_POLL_PURPOSE if once else SERVICE_PURPOSE
    with open_command_log(
        replace(given, debug=given.debug and ui.lines), settings, "service"
    ) as log:
        journal = ServiceLog(log, ui.tell, reloaded=systemd.ready)
        means = _build_restart_means(given, loaded, journal, ui, stop_agents=stop_agents)
        entering = lock_and_open(
            given.home_folder,
            settings,
            clock,
            lock,
            purpose=purpose,
            unfit=partial(_roll_back_update, means, signal_handler),
        )
        with entering as (app, lock_held):
            session = ServiceSession(loaded, systemd, signal_handler, ui, once=once)
            runner = _run_and_restart(app, lock_held, means, session)
            _print_exit(runner.app)
    exit_now(1 if once and runner.unreached_repositories() else 0)


def _build_restart_means(
    given: GlobalOptions,
    loaded: LoadedSettings,
    journal: ServiceLog,
    ui: ServiceUi,
    *,
    stop_agents: bool,
) -> RestartDeps:
    from hostler.service.restart import RestartDeps, program_command

    calling = program_command(given.home_folder, loaded.path, debug=given.debug)
    return RestartDeps(
        given.home_folder,
        loaded.settings,
        dict(os.environ),
        journal,
        check=[*calling, "doctor", "--quick"],
        again=[
            *calling,
            ui.command,
            *(["--stop-agents"] if stop_agents else []),
            *ui.web.options(),
        ],
    )


class _RollbackHalt:
    """Ends the command of an update that is being rolled back, when the service must stop."""

    def leave(self, *, stop_agents: bool = False) -> None:  # noqa: ARG002
        from hostler.checkouts.process import halt_children

        halt_children()


def _roll_back_update(
    means: RestartDeps, signal_handler: SignalHandler, lock: HomeLock, error: HostlerError
) -> None:
    """Roll back an update whose database schema cannot be opened."""
    from hostler.service.restart import roll_back_update

    signal_handler.attach(_RollbackHalt())
    roll_back_update(means, lock, signal_handler.leaves, error)


def _run_and_restart(
    app: AppContext, lock: HomeLock, means: RestartDeps, session: ServiceSession
) -> ServiceRunner:
    """Run the service until it is asked to stop, and carry out restarts.

    A successful restart replaces this process; after a failed one the service continues.
    """
    from hostler.checkouts.process import allow_children
    from hostler.clock import SystemClock
    from hostler.service.restart import carry_out_restart, max_update_seconds

    signal_handler = session.signal_handler
    while True:
        runner = _run_service(app, means.service_log, session)
        app = runner.app
        if not runner.restarting or signal_handler.asked:
            return runner
        # Children started from here on outlive the stop request that drained the service.
        allow_children()
        # Check again: a signal may have arrived between the last check and this.
        if signal_handler.asked:
            return runner
        session.systemd.updating(max_update_seconds(app.settings.runtime))
        means = replace(means, settings=app.settings)
        carry_out_restart(means, app.store, lock, SystemClock(), signal_handler.leaves)
        if signal_handler.asked:
            return runner


def _run_service(app: AppContext, journal: ServiceLog, session: ServiceSession) -> ServiceRunner:
    """Run the service once, from start to stop."""
    from hostler.clock import SystemClock
    from hostler.service.change_detection import SettingsFile
    from hostler.service.polling.webhooks import receive_webhooks
    from hostler.service.runner import ServiceRunner
    from hostler.service.systemd import Watchdog
    from hostler.service.tasks.summary import TaskFollower
    from hostler.service.wiring import ServiceMode

    ui, systemd, signal_handler, once = (
        session.ui,
        session.systemd,
        session.signal_handler,
        session.once,
    )
    clock, settings, file = SystemClock(), app.settings, None
    if session.loaded.path is not None:
        path = session.loaded.path
        file = SettingsFile(path, settings, lambda: reload_settings(path), clock)
    runner = ServiceRunner(app, clock, journal, ServiceMode(once=once), settings_file=file)
    follower = TaskFollower(app.store, ui.tell)
    # Before the start message, which says that Ctrl-C stops the service.
    signal_handler.attach(runner)
    if ui.reloads:
        _reload_on_sighup(runner, told=systemd.reloading if file is not None else lambda: None)
    _print_start(settings, ui.tell, once=once)
    # Report readiness to systemd once, after the first iteration.
    greetings = [systemd.ready]

    with (
        receive_webhooks(
            settings.github, runner.poll_repository_soon, journal.webhook_answered
        ) as receiver,
        serve_api(runner, journal.log, ui.web) as served,
        Watchdog(systemd, clock, runner.wake) as watchdog,
    ):
        _print_webhook_address(settings, receiver, ui.tell)
        if served is not None:
            ui.tell(served.describe())

        def look() -> bool:
            while greetings:
                count = len(settings.repo)
                greetings.pop()(f"Watching {count} repositor{'y' if count == 1 else 'ies'}.")
            watchdog.turned()
            follower.report_changes()
            return False

        ui.work(runner, look, signal_handler.ask)
    return runner


def _print_start(settings: Settings, tell: Callable[[str], None], *, once: bool) -> None:
    names = ", ".join(f"{repo.owner}/{repo.name}" for repo in settings.repo.values())
    none = "no repository; running manual tasks only"
    if once:
        tell(f"Polling once: {names or none}.")
    else:
        tell(f"Watching {names or none}. Press Ctrl-C to stop; agents keep running.")


def _print_webhook_address(
    settings: Settings, receiver: WebhookReceiver | None, tell: Callable[[str], None]
) -> None:
    from hostler.service.polling.webhooks import is_loopback

    if receiver is None:
        return
    where = settings.github.webhook_listen.rpartition(":")[0]
    wide = "" if is_loopback(settings.github.webhook_listen) else " (reachable from other machines)"
    tell(f"Receiving webhooks at http://{where}:{receiver.port}/webhook{wide}.")


def _reload_on_sighup(runner: ServiceRunner, told: Callable[[], None] = lambda: None) -> None:
    """Reload the settings on SIGHUP; `told` is called first."""
    import signal

    def handle(_number: int, _frame: Any) -> None:
        told()
        runner.reload()

    signal.signal(signal.SIGHUP, handle)


def _print_exit(app: AppContext) -> None:
    """Print how many agents keep running."""
    from hostler.store.runs import live_runs

    with app.store.read() as tx:
        agents = sum(run.shim is not None for run in live_runs(tx))
    if agents:
        many = f"{agents} agent{'s' if agents > 1 else ''}"
        verb = "keep" if agents > 1 else "keeps"
        print_timed(f"Stopped. {many} {verb} running; the next start takes over.")
    else:
        print_timed("Stopped.")


def _preview_issues(given: GlobalOptions, settings: Settings, *, json: bool) -> None:
    """Show what the service would decide about all open issues, without writing anything."""
    from tempfile import TemporaryDirectory

    from hostler.clock import SystemClock
    from hostler.errors import HostlerError, StoreMissing
    from hostler.service.context import open_context
    from hostler.service.polling.repo_poller import preview_repository
    from hostler.store import open_store

    clock = SystemClock()
    home = given.home_folder
    with TemporaryDirectory() as empty:
        try:
            open_store(home, settings.runtime.database_url or None, clock=clock).close()
        except StoreMissing:
            # Preview a first start in a temporary home, so that no database is created.
            home, settings = _use_empty_home(empty, settings)
        with open_context(home, settings, clock) as app:
            found: dict[str, list[IssuePreview] | HostlerError] = {}
            for project, repo in settings.repo.items():
                print_note(f"Reading the open issues of {repo.owner}/{repo.name} ...")
                try:
                    found[project] = preview_repository(app, project)
                except HostlerError as error:
                    found[project] = error
    if json:
        print_json(_preview_json(settings, found))
    else:
        _print_preview(settings, found)
    if any(isinstance(one, HostlerError) for one in found.values()):
        raise typer.Exit(1)


def _use_empty_home(folder: str, settings: Settings) -> tuple[Any, Settings]:
    from pathlib import Path

    runtime = settings.runtime.model_copy(update={"database_url": ""})
    return Path(folder), settings.model_copy(update={"runtime": runtime})


def _preview_json(settings: Settings, found: dict[str, Any]) -> dict[str, Any]:
    from dataclasses import asdict

    from hostler.errors import HostlerError

    listed = []
    for project, result in found.items():
        repo = settings.repo[project]
        one: dict[str, Any] = {"id": project, "repository": f"{repo.owner}/{repo.name}"}
        if isinstance(result, HostlerError):
            one["error"] = {"what": result.what, "remedy": result.remedy}
        else:
            one["issues"] = [asdict(preview) for preview in result]
        listed.append(one)
    return {"repositories": listed}


def _print_preview(settings: Settings, found: dict[str, Any]) -> None:
    from hostler.cli.output import GREEN, RED
    from hostler.errors import HostlerError

    for project, result in found.items():
        repo = settings.repo[project]
        print_line(f"{repo.owner}/{repo.name}")
        if isinstance(result, HostlerError):
            print_line(f"  {colourise('error:', RED)} {' '.join(result.lines())}")
            continue
        for one in result:
            flow = one.flow.value.replace("_", " ") if one.flow else ""
            mark = colourise(f"{flow:<10}", GREEN) if flow else f"{'-':<10}"
            print_line(f"  #{one.number:<5} {mark} {one.title[:60]}  ({one.reason})")
        if not result:
            print_line("  No open issues.")
