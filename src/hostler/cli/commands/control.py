"""`hostler pause`, `unpause`, `stop-all` and `run`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.commands.task import print_changed
from hostler.cli.context import (
    JsonOption,
    ReasonOption,
    control_pauses,
    current_actor,
    export_config_path,
    global_options,
    load_settings,
    open_command_log,
    open_home,
)
from hostler.cli.foreground import exit_now, run_task_to_end
from hostler.cli.output import print_json, print_line, print_note, require_confirmation

if TYPE_CHECKING:
    from hostler.store.tasks import Flow, Task


def register_pause(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(pause)
    app.command()(unpause)
    app.command("stop-all")(stop_all)


def pause(context: typer.Context, why: ReasonOption = "", json: JsonOption = False) -> None:
    """Start nothing new, on no repository and in no folder; agents at work go on.

    `hostler repo pause` does the same for one repository.

    \b
    Example:
      hostler pause --why "the laptop is on battery"
    """
    from hostler.store.operator import ALL

    found = control_pauses(context, lambda to: to.pause(ALL, why), make=True)
    held, changed = found.held, found.changed
    if json:
        print_json({"changed": changed, "since": held.since, "by": held.by, "why": held.why})
        return
    reason = f": {held.why}" if held.why else "."
    already = "" if changed else "already "
    print_line(f"Everything is {already}paused, since {held.since} by {held.by}{reason}")


def unpause(context: typer.Context, json: JsonOption = False) -> None:
    """Lift the pause of everything; pauses of single repositories stay.

    \b
    Example:
      hostler unpause
    """
    from hostler.errors import StoreMissing
    from hostler.store.operator import ALL

    changed, left = False, list[str]()
    with suppress(StoreMissing):
        changed, left = control_pauses(context, lambda to: to.unpause(ALL))
    if json:
        print_json({"changed": changed, "still_paused": left})
        return
    print_line("Work goes on." if changed else "Everything was not paused.")
    for scope in left:
        print_line(
            f"Still paused: {scope.removeprefix('project:')} (`hostler repo unpause` lifts it)"
        )


def stop_all(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    why: ReasonOption = "",
    json: JsonOption = False,
) -> None:
    """Stop every task that runs or would start by itself; agents at work are ended.

    New issues and new tasks still begin; `hostler pause` holds those back.

    \b
    Example:
      hostler stop-all
      hostler stop-all --yes --why "the key leaked"
    """
    from hostler.service.tasks.control import ACTIVE_STATES, TaskStopper
    from hostler.store.tasks import tasks_in

    with open_home(context) as house:
        with house.store.read() as tx:
            count = len(tasks_in(tx, ACTIVE_STATES))
        if count and not yes:
            require_confirmation(
                f"Stop {count} task{'s' if count != 1 else ''}, and end their agents?"
            )
        grace = float(house.settings.runtime.stop_grace_seconds)
        reason = " ".join(why.split())
        stopper = TaskStopper(house.home, house.store, house.clock, grace, current_actor(), reason)
        changed = stopper.stop_everything()
    print_changed(changed, json=json)
    if not changed:
        print_note("Nothing runs, and nothing waits to.")


def register_run(app: typer.Typer) -> None:
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
    3: a person is needed, it waits for a time or for what nobody works on, or it was left at
    work; 1: it failed or was stopped.

    \b
    Example:
      hostler run octo/stable#12
      hostler run octo/stable#12 --flow bugfix --no-wait
    """
    from hostler.clock import SystemClock
    from hostler.service.context import open_context
    from hostler.service.tasks.foreground import (
        exit_code_for,
        parse_issue_reference,
        start_issue_task,
    )

    given, clock = global_options(context), SystemClock()
    loaded = load_settings(given)
    settings = loaded.settings
    wanted, chosen = parse_issue_reference(settings, issue), _parse_flow(flow)
    export_config_path(loaded)
    with (
        open_command_log(given, settings, "run") as log,
        open_context(given.home_folder, settings, clock) as house,
    ):
        task = start_issue_task(house, wanted, chosen)
        if wait:
            task = run_task_to_end(house, clock, log, task)
        else:
            print_note("It is queued; a running service takes it.")
    _print_task(task, json=json)
    exit_now(exit_code_for(task) if wait else 0)


def _parse_flow(name: str | None) -> Flow | None:
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


def _print_task(task: Task, *, json: bool) -> None:
    if json:
        words = ("id", "project", "repo_full_name", "issue_number", "pr_number", "reason")
        facts = {name: getattr(task, name) for name in words}
        print_json({**facts, "flow": task.flow.value, "state": task.state.value})
        return
    from hostler.service.tasks.summary import describe_task

    print_line(describe_task(task))
