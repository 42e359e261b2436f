"""`hostler service`: watch repositories, run agents; or say what would be picked up."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from hostler.cli.faces import Face, Shift, tell
from hostler.cli.logbook import logbook
from hostler.cli.output import DIM, coloured, note, say, say_json
from hostler.cli.state import Globals, globals_of, hand_on, read_again, settings_of
from hostler.cli.web_beside import Wanted, api

if TYPE_CHECKING:
    from hostler.cli.leaving import Ear
    from hostler.config import Loaded, Settings
    from hostler.errors import HostlerError
    from hostler.intake import Preview
    from hostler.service import House, Journal, ServiceRunner
    from hostler.service.restarting import Means
    from hostler.service.webhooks import Receiver
    from hostler.store.engine.locks import HomeLock


commands = typer.Typer(name="service", rich_markup_mode=None, invoke_without_command=True)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    from hostler.cli import service_install, service_restart

    commands.command("restart")(service_restart.restart)
    commands.command("install")(service_install.install)
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
    given = globals_of(context)
    loaded = settings_of(given)
    if dry_run:
        _require(loaded.settings, repository=True)
        _preview(given, loaded.settings, json=json)
        return
    if json:
        raise typer.BadParameter("it belongs to --dry-run", param_hint="--json")
    if web is False and web_listen:
        raise typer.BadParameter("it does not go with --no-web", param_hint="--web-listen")
    face = Face(web=Wanted(True if web_listen else web, web_listen))
    start(given, loaded, stop_agents=stop_agents, once=once, face=face)


def start(
    given: Globals,
    loaded: Loaded,
    *,
    stop_agents: bool = False,
    once: bool = False,
    face: Face | None = None,
) -> NoReturn:
    """Work in the foreground until it is asked to leave."""
    _require(loaded.settings, repository=False)
    if loaded.path is not None:
        # Whoever starts the next program, wherever it stands, means the same file.
        loaded = replace(loaded, path=loaded.path.absolute())
    hand_on(loaded)
    _serve(given, loaded, face or Face(), stop_agents=stop_agents, once=once)


def _require(settings: Settings, *, repository: bool) -> None:
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


def _serve(
    given: Globals, loaded: Loaded, face: Face, *, stop_agents: bool, once: bool
) -> NoReturn:
    from hostler.checkouts.git import version as require_git
    from hostler.clock import SystemClock
    from hostler.service import Journal
    from hostler.service.opening import entered
    from hostler.service.presence import ONE_LOOK, SERVICE
    from hostler.service.replacing import inherited
    from hostler.service.systemd import Systemd

    lock, clock, settings = inherited(), SystemClock(), loaded.settings
    systemd = Systemd(os.environ, clock)
    ear = face.ear(systemd.stopping, stop_agents=stop_agents)
    # Before anything is started, which would otherwise be deaf as long as we are.
    ear.listen()
    if settings.repo:
        require_git()
    purpose = ONE_LOOK if once else SERVICE
    with logbook(replace(given, debug=given.debug and face.lines), settings, "service") as log:
        journal = Journal(log, face.tell, reloaded=systemd.ready)
        means = _means(given, loaded, journal, face, stop_agents=stop_agents)
        entering = entered(
            given.home_folder,
            settings,
            clock,
            lock,
            purpose=purpose,
            unfit=partial(_go_back, means, ear),
        )
        with entering as (house, lock_held):
            shift = Shift(loaded, systemd, ear, face, once=once)
            runner = _work_and_restart(house, lock_held, means, shift)
            say_farewell(runner.house)
    end_now(1 if once and runner.unreached() else 0)


def _means(
    given: Globals, loaded: Loaded, journal: Journal, face: Face, *, stop_agents: bool
) -> Means:
    from hostler.service.replacing import program
    from hostler.service.restarting import Means

    calling = program(given.home_folder, loaded.path, debug=given.debug)
    return Means(
        given.home_folder,
        loaded.settings,
        dict(os.environ),
        journal,
        check=[*calling, "doctor", "--quick"],
        again=[
            *calling,
            face.command,
            *(["--stop-agents"] if stop_agents else []),
            *face.web.options(),
        ],
    )


class _Undoing:
    """Is asked to leave while an update is undone: its command is ended."""

    def leave(self, *, stop_agents: bool = False) -> None:  # noqa: ARG002
        from hostler.checkouts.process import halt

        halt()


def _go_back(means: Means, ear: Ear, lock: HomeLock, error: HostlerError) -> None:
    """The layout that an update needs cannot be had."""
    from hostler.service.restarting import undo_update

    ear.attach(_Undoing())
    undo_update(means, lock, ear.leaves, error)


def _work_and_restart(house: House, lock: HomeLock, means: Means, shift: Shift) -> ServiceRunner:
    """Work until it is asked to leave. A restart that fails is no reason to; others end here."""
    from hostler.checkouts.process import unhalt
    from hostler.clock import SystemClock
    from hostler.service.restarting import restart
    from hostler.service.updating import longest_seconds

    ear = shift.ear
    while True:
        runner = _work(house, means.journal, shift)
        house = runner.house
        if not runner.restarting or ear.asked:
            return runner
        # What is started from here on is not ended any more because we left.
        unhalt()
        # Once more: a signal from just before may have been undone with it.
        if ear.asked:
            return runner
        shift.systemd.updating(longest_seconds(house.settings.runtime))
        means = replace(means, settings=house.settings)
        restart(means, house.store, lock, SystemClock(), ear.leaves)
        if ear.asked:
            return runner


def _work(house: House, journal: Journal, shift: Shift) -> ServiceRunner:
    """One service from its start to its end."""
    from hostler.clock import SystemClock
    from hostler.service import Duty, ServiceRunner
    from hostler.service.following import Follower
    from hostler.service.reloading import SettingsFile
    from hostler.service.systemd import Watchdog
    from hostler.service.webhooks import webhooks

    face, systemd, ear, once = shift.face, shift.systemd, shift.ear, shift.once
    clock, settings, file = SystemClock(), house.settings, None
    if shift.loaded.path is not None:
        path = shift.loaded.path
        file = SettingsFile(path, settings, lambda: read_again(path), clock)
    runner = ServiceRunner(house, clock, journal, Duty(once=once), settings_file=file)
    follower = Follower(house.store, face.tell)
    # Before anybody is told how to end it.
    ear.attach(runner)
    if face.reloads:
        reload_on_signal(runner, told=systemd.reloading if file is not None else lambda: None)
    _say_hello(settings, face.tell, once=once)
    # Once, after the first turn: from then on it really works.
    greetings = [systemd.ready]

    with (
        webhooks(settings.github, runner.look_at, journal.knocked) as receiver,
        api(runner, journal.log, face.web) as served,
        Watchdog(systemd, clock, runner.wake) as watchdog,
    ):
        _tell_of_webhooks(settings, receiver, face.tell)
        if served is not None:
            face.tell(served.sentence())

        def look() -> bool:
            while greetings:
                greetings.pop()(f"At work on {len(settings.repo)} repositories.")
            watchdog.turned()
            follower.look()
            return False

        face.work(runner, look, ear.ask)
    return runner


def _say_hello(settings: Settings, tell: Callable[[str], None], *, once: bool) -> None:
    names = ", ".join(f"{repo.owner}/{repo.name}" for repo in settings.repo.values())
    none = "no repository: only tasks by hand are taken"
    if once:
        tell(f"One look at {names or none}.")
    else:
        tell(f"Watching {names or none}. Ctrl-C to leave; agents go on.")


def _tell_of_webhooks(
    settings: Settings, receiver: Receiver | None, tell: Callable[[str], None]
) -> None:
    from hostler.service.webhooks import is_loopback

    if receiver is None:
        return
    where = settings.github.webhook_listen.rpartition(":")[0]
    wide = "" if is_loopback(settings.github.webhook_listen) else ", open to other machines"
    tell(f"Webhooks are taken at http://{where}:{receiver.port}/webhook{wide}.")


def note_time(text: str) -> None:
    """The same on standard error, where standard output is for a result."""
    from datetime import datetime

    note(f"{coloured(f'{datetime.now().astimezone():%H:%M:%S}', DIM, sys.stderr)}  {text}")


def reload_on_signal(runner: ServiceRunner, told: Callable[[], None] = lambda: None) -> None:
    """SIGHUP: the settings are read again; `told` hears it first."""
    import signal

    def handle(_number: int, _frame: Any) -> None:
        told()
        runner.reload()

    signal.signal(signal.SIGHUP, handle)


def say_farewell(house: House) -> None:
    """What goes on without us."""
    from hostler.store.runs import live_runs

    with house.store.read() as tx:
        agents = sum(run.shim is not None for run in live_runs(tx))
    if agents:
        many = f"{agents} agent{'s' if agents > 1 else ''}"
        tell(f"Left. {many} at work; the next start takes over.")
    else:
        tell("Left.")


def end_now(code: int) -> NoReturn:
    """End the process: a thread that still waits for a network must not keep us."""
    # A terminal that was closed takes no last word.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _preview(given: Globals, settings: Settings, *, json: bool) -> None:
    """Decide about all open issues as a service would; nothing is written anywhere."""
    from tempfile import TemporaryDirectory

    from hostler.clock import SystemClock
    from hostler.errors import HostlerError, StoreMissing
    from hostler.service.opening import opened
    from hostler.service.previewing import preview_of
    from hostler.store import open_store

    clock = SystemClock()
    home = given.home_folder
    with TemporaryDirectory() as empty:
        try:
            open_store(home, settings.runtime.database_url or None, clock=clock).close()
        except StoreMissing:
            # What a first start would see, without making anything that stays.
            home, settings = _elsewhere(empty, settings)
        with opened(home, settings, clock) as house:
            found: dict[str, list[Preview] | HostlerError] = {}
            for project, repo in settings.repo.items():
                note(f"Asking GitHub about {repo.owner}/{repo.name} ...")
                try:
                    found[project] = preview_of(house, project)
                except HostlerError as error:
                    found[project] = error
    if json:
        say_json(_as_json(settings, found))
    else:
        _as_text(settings, found)
    if any(isinstance(one, HostlerError) for one in found.values()):
        raise typer.Exit(1)


def _elsewhere(folder: str, settings: Settings) -> tuple[Any, Settings]:
    from pathlib import Path

    runtime = settings.runtime.model_copy(update={"database_url": ""})
    return Path(folder), settings.model_copy(update={"runtime": runtime})


def _as_json(settings: Settings, found: dict[str, Any]) -> dict[str, Any]:
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


def _as_text(settings: Settings, found: dict[str, Any]) -> None:
    from hostler.cli.output import GREEN, RED
    from hostler.errors import HostlerError

    for project, result in found.items():
        repo = settings.repo[project]
        say(f"{repo.owner}/{repo.name}")
        if isinstance(result, HostlerError):
            say(f"  {coloured('error:', RED)} {' '.join(result.lines())}")
            continue
        for one in result:
            flow = one.flow.value.replace("_", " ") if one.flow else ""
            mark = coloured(f"{flow:<10}", GREEN) if flow else f"{'-':<10}"
            say(f"  #{one.number:<5} {mark} {one.title[:60]}  ({one.reason})")
        if not result:
            say("  No open issues.")
