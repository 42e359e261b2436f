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


commands = typer.Typer(name="service", rich_markup_mode=None, invoke_without_command=True)


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
        bool, typer.Option("--dry-run", help="Only say which issues would be picked up, and why.")
    ] = False,
    stop_agents: Annotated[
        bool, typer.Option("--stop-agents", help="End the agents too when it is asked to leave.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="One look at each repository; end when its work is over.")
    ] = False,
    web: Annotated[
        bool | None,
        typer.Option("--web/--no-web", help="Serve the API too [default: as in [web]]."),
    ] = None,
    web_listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where; implies --web.")
    ] = "",
    json: Annotated[
        bool, typer.Option("--json", help="With --dry-run: print JSON for programs.")
    ] = False,
) -> None:
    """Watch the repositories and run agents on their issues, until it is asked to leave.

    Tasks by hand (`hostler task submit`) are taken too, also where no repository is watched.
    It works in the foreground. Ctrl-C or SIGTERM: it leaves within seconds, agents go on, and
    the next start takes them over. A second Ctrl-C leaves at once. A settings file that changes
    is read again (SIGHUP: at once); what needs a restart is named.

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
        raise typer.BadParameter("it belongs to --dry-run", param_hint="--json")
    if web is False and web_listen:
        raise typer.BadParameter("it does not go with --no-web", param_hint="--web-listen")
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
    """Work in the foreground until it is asked to leave."""
    _require_configured(loaded.settings, repository=False)
    if loaded.path is not None:
        # Whoever starts the next program, wherever it stands, means the same file.
        loaded = replace(loaded, path=loaded.path.absolute())
    export_config_path(loaded)
    _run_until_stopped(given, loaded, ui or ServiceUi(), stop_agents=stop_agents, once=once)


def _require_configured(settings: Settings, *, repository: bool) -> None:
    """Something to work with, and (for looking at issues) something to work on."""
    from hostler.errors import HostlerError

    if not settings.repo and (repository or not settings.agent):
        raise HostlerError(
            "The settings name no repository" + ("." if settings.agent else ", and no agent."),
            safe="Nothing was started.",
            remedy="Add one: hostler repo add owner/name (or write a file: hostler init).",
        )
    if not settings.agent:
        raise HostlerError(
            "The settings name no agent.",
            safe="Nothing was started.",
            remedy="Add an [agent.<name>] table, or write a file with `hostler init`.",
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
    # Before anything is started, which would otherwise be deaf as long as we are.
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
        with entering as (house, lock_held):
            session = ServiceSession(loaded, systemd, signal_handler, ui, once=once)
            runner = _run_and_restart(house, lock_held, means, session)
            _print_exit(runner.house)
    exit_now(1 if once and runner.unreached() else 0)


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
    """Is asked to leave while an update is undone: its command is ended."""

    def leave(self, *, stop_agents: bool = False) -> None:  # noqa: ARG002
        from hostler.checkouts.process import halt_children

        halt_children()


def _roll_back_update(
    means: RestartDeps, signal_handler: SignalHandler, lock: HomeLock, error: HostlerError
) -> None:
    """The layout that an update needs cannot be had."""
    from hostler.service.restart import roll_back_update

    signal_handler.attach(_RollbackHalt())
    roll_back_update(means, lock, signal_handler.leaves, error)


def _run_and_restart(
    house: AppContext, lock: HomeLock, means: RestartDeps, session: ServiceSession
) -> ServiceRunner:
    """Work until it is asked to leave. A restart that fails is no reason to; others end here."""
    from hostler.checkouts.process import allow_children
    from hostler.clock import SystemClock
    from hostler.service.restart import carry_out_restart, max_update_seconds

    signal_handler = session.signal_handler
    while True:
        runner = _run_service(house, means.journal, session)
        house = runner.house
        if not runner.restarting or signal_handler.asked:
            return runner
        # What is started from here on is not ended any more because we left.
        allow_children()
        # Once more: a signal from just before may have been undone with it.
        if signal_handler.asked:
            return runner
        session.systemd.updating(max_update_seconds(house.settings.runtime))
        means = replace(means, settings=house.settings)
        carry_out_restart(means, house.store, lock, SystemClock(), signal_handler.leaves)
        if signal_handler.asked:
            return runner


def _run_service(house: AppContext, journal: ServiceLog, session: ServiceSession) -> ServiceRunner:
    """One service from its start to its end."""
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
    clock, settings, file = SystemClock(), house.settings, None
    if session.loaded.path is not None:
        path = session.loaded.path
        file = SettingsFile(path, settings, lambda: reload_settings(path), clock)
    runner = ServiceRunner(house, clock, journal, ServiceMode(once=once), settings_file=file)
    follower = TaskFollower(house.store, ui.tell)
    # Before anybody is told how to end it.
    signal_handler.attach(runner)
    if ui.reloads:
        _reload_on_sighup(runner, told=systemd.reloading if file is not None else lambda: None)
    _print_start(settings, ui.tell, once=once)
    # Once, after the first turn: from then on it really works.
    greetings = [systemd.ready]

    with (
        receive_webhooks(settings.github, runner.look_at, journal.knocked) as receiver,
        serve_api(runner, journal.log, ui.web) as served,
        Watchdog(systemd, clock, runner.wake) as watchdog,
    ):
        _print_webhook_address(settings, receiver, ui.tell)
        if served is not None:
            ui.tell(served.describe())

        def look() -> bool:
            while greetings:
                greetings.pop()(f"At work on {len(settings.repo)} repositories.")
            watchdog.turned()
            follower.look()
            return False

        ui.work(runner, look, signal_handler.ask)
    return runner


def _print_start(settings: Settings, tell: Callable[[str], None], *, once: bool) -> None:
    names = ", ".join(f"{repo.owner}/{repo.name}" for repo in settings.repo.values())
    none = "no repository: only tasks by hand are taken"
    if once:
        tell(f"One look at {names or none}.")
    else:
        tell(f"Watching {names or none}. Ctrl-C to leave; agents go on.")


def _print_webhook_address(
    settings: Settings, receiver: WebhookReceiver | None, tell: Callable[[str], None]
) -> None:
    from hostler.service.polling.webhooks import is_loopback

    if receiver is None:
        return
    where = settings.github.webhook_listen.rpartition(":")[0]
    wide = "" if is_loopback(settings.github.webhook_listen) else ", open to other machines"
    tell(f"Webhooks are taken at http://{where}:{receiver.port}/webhook{wide}.")


def _reload_on_sighup(runner: ServiceRunner, told: Callable[[], None] = lambda: None) -> None:
    """SIGHUP: the settings are read again; `told` hears it first."""
    import signal

    def handle(_number: int, _frame: Any) -> None:
        told()
        runner.reload()

    signal.signal(signal.SIGHUP, handle)


def _print_exit(house: AppContext) -> None:
    """What goes on without us."""
    from hostler.store.runs import live_runs

    with house.store.read() as tx:
        agents = sum(run.shim is not None for run in live_runs(tx))
    if agents:
        many = f"{agents} agent{'s' if agents > 1 else ''}"
        print_timed(f"Left. {many} at work; the next start takes over.")
    else:
        print_timed("Left.")


def _preview_issues(given: GlobalOptions, settings: Settings, *, json: bool) -> None:
    """Decide about all open issues as a service would; nothing is written anywhere."""
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
            # What a first start would see, without making anything that stays.
            home, settings = _use_empty_home(empty, settings)
        with open_context(home, settings, clock) as house:
            found: dict[str, list[IssuePreview] | HostlerError] = {}
            for project, repo in settings.repo.items():
                print_note(f"Asking GitHub about {repo.owner}/{repo.name} ...")
                try:
                    found[project] = preview_repository(house, project)
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
