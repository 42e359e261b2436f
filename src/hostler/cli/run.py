"""`hostler run owner/repo#12`: one issue now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.logbook import logbook
from hostler.cli.output import note, say, say_json
from hostler.cli.service import end_now, leave_on_signals, note_time
from hostler.cli.state import globals_of, settings_of

if TYPE_CHECKING:
    from hostler.clock import Clock
    from hostler.service import House
    from hostler.store.tasks import Flow, Task
    from hostler.telemetry.logs import Log


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(run)


def run(
    context: typer.Context,
    issue: Annotated[str, typer.Argument(help="The issue: owner/repo#12 of a watched repository.")],
    flow: Annotated[
        str | None,
        typer.Option(help="design, bugfix or small_job [default: by its label, else small_job]."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Stay until no agent is needed any more.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Work on one issue now, whatever its labels and author.

    It is also the way to start a task again that was stopped, has failed or is blocked. A
    running service takes the work; without one, this command does it, and Ctrl-C leaves the
    agent at work for the next start. Exit code 0: a pull request awaits review, or it is done;
    3: a person is needed, or it waits for a time; 1: it failed or was stopped.

    \b
    Example:
      hostler run octo/stable#12
      hostler run octo/stable#12 --flow bugfix --no-wait
    """
    from hostler.clock import SystemClock
    from hostler.service.opening import opened
    from hostler.service.single import begin, exit_code, refer

    given, clock = globals_of(context), SystemClock()
    settings = settings_of(given).settings
    wanted, chosen = refer(settings, issue), _flow(flow)
    with (
        logbook(given, settings, "run") as log,
        opened(given.home_folder, settings, clock) as house,
    ):
        task = begin(house, wanted, chosen)
        if wait:
            task = _see_through(house, clock, log, task)
        else:
            note("It is queued; a running service takes it.")
    _say(task, json=json)
    end_now(exit_code(task) if wait else 0)


def _flow(name: str | None) -> Flow | None:
    from hostler.errors import HostlerError
    from hostler.store.tasks import Flow

    if name is None:
        return None
    allowed = [Flow.DESIGN, Flow.BUGFIX, Flow.SMALL_JOB]
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    if plain not in allowed:
        names = ", ".join(allowed)
        raise HostlerError(f"There is no flow {name!r}.", remedy=f"Choose one of: {names}.")
    return Flow(plain)


def _see_through(house: House, clock: Clock, log: Log, task: Task) -> Task:
    """Do the work, or watch the service that does it."""
    from hostler.errors import HomeLocked
    from hostler.store.homelock import home_lock

    try:
        with home_lock(house.home, clock):
            return _work(house, clock, log, task)
    except HomeLocked as locked:
        note(f"{locked.holder or 'Another process'} works on this home and takes it.")
        return _watch(house, task)


def _work(house: House, clock: Clock, log: Log, task: Task) -> Task:
    from hostler.checkouts.git import version as require_git
    from hostler.service import Duty, Journal, ServiceRunner
    from hostler.service.following import Follower
    from hostler.service.single import at_rest

    require_git()
    runner = ServiceRunner(house, clock, Journal(log, note_time), Duty(polls=False, only={task.id}))
    follower = Follower(house.store, note_time, {task.id})
    leave_on_signals(runner, stop_agents=False)

    def rested() -> bool:
        follower.look()
        return at_rest(house.store, task.id) is not None

    runner.run(rested)
    return _present(house, task)


def _watch(house: House, task: Task) -> Task:
    from hostler.service.following import Follower
    from hostler.service.single import at_rest

    follower = Follower(house.store, note_time, {task.id})
    while True:
        mark = house.store.change_mark()
        follower.look()
        rested = at_rest(house.store, task.id)
        if rested is not None:
            return rested
        house.store.wait_for_change(mark)


def _present(house: House, task: Task) -> Task:
    from hostler.store.tasks import require_task

    with house.store.read() as tx:
        return require_task(tx, task.id)


def _say(task: Task, *, json: bool) -> None:
    if json:
        words = ("id", "project", "repo_full_name", "issue_number", "pr_number", "reason")
        facts = {name: getattr(task, name) for name in words}
        say_json({**facts, "flow": task.flow.value, "state": task.state.value})
        return
    from hostler.service.following import sentence

    say(sentence(task))
