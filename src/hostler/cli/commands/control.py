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
    """Stop starting new work; running agents continue.

    Applies to all repositories and manual tasks. `hostler repo pause` pauses one repository.

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
    print_line(f"All work is {already}paused, since {held.since} by {held.by}{reason}")


def unpause(context: typer.Context, json: JsonOption = False) -> None:
    """Resume starting new work after `hostler pause`.

    Repositories paused with `hostler repo pause` stay paused.

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
    print_line("Resumed." if changed else "There was no pause.")
    for scope in left:
        print_line(
            f"Still paused: {scope.removeprefix('project:')} (resume with `hostler repo unpause`)"
        )


def stop_all(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    why: ReasonOption = "",
    json: JsonOption = False,
) -> None:
    """Stop all running and waiting tasks and their agents.

    New issues and tasks still start work; use `hostler pause` to prevent that.

    \b
    Example:
      hostler stop-all
      hostler stop-all --yes --why "the key leaked"
    """
    from hostler.service.tasks.control import ACTIVE_STATES, TaskStopper
    from hostler.store.tasks import tasks_in

    with open_home(context) as opened:
        with opened.store.read() as tx:
            count = len(tasks_in(tx, ACTIVE_STATES))
        if count and not yes:
            require_confirmation(f"Stop {count} task{'s' if count != 1 else ''} and their agents?")
        grace = float(opened.settings.runtime.stop_grace_seconds)
        reason = " ".join(why.split())
        stopper = TaskStopper(
            opened.home, opened.store, opened.clock, grace, current_actor(), reason
        )
        changed = stopper.stop_everything()
    print_changed(changed, json=json)
    if not changed:
        print_note("No task is running or waiting.")


def register_run(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(run)


def run(
    context: typer.Context,
    issue: Annotated[
        str,
        typer.Argument(
            metavar="ISSUE", help="Issue of a watched repository, such as octo/stable#12."
        ),
    ],
    flow: Annotated[
        str | None,
        typer.Option(
            metavar="FLOW",
            help="design, bugfix or small_job [default: by the issue's label, else small_job].",
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait/--no-wait", help="Wait until the task finishes or needs you."),
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Work on one issue now, whatever its labels and author.

    Also restarts a task that was stopped, failed or is blocked. A running service does the
    work; without one, this command does it, and after Ctrl-C the agent keeps running until the
    next start. Exit code 0: a pull request is in review, or the task is done; 1: it failed or
    was stopped; 3: the task needs you, waits for something else, or was left running.

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
        open_context(given.home_folder, settings, clock) as app,
    ):
        task = start_issue_task(app, wanted, chosen)
        if wait:
            task = run_task_to_end(app, clock, log, task)
        else:
            print_note("Queued. A running service will start it.")
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
        raise HostlerError(f"Unknown flow {name!r}.", remedy=f"Choose one of: {names}.")
    return Flow(plain)


def _print_task(task: Task, *, json: bool) -> None:
    if json:
        words = ("id", "project", "repo_full_name", "issue_number", "pr_number", "reason")
        facts = {name: getattr(task, name) for name in words}
        print_json({**facts, "flow": task.flow.value, "state": task.state.value})
        return
    from hostler.service.tasks.summary import describe_task

    print_line(describe_task(task))
