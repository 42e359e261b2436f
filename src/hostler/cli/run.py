"""`hostler run owner/repo#12`: one issue now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.foreground import see_through
from hostler.cli.logbook import logbook
from hostler.cli.output import note, say, say_json
from hostler.cli.service import end_now
from hostler.cli.state import globals_of, hand_on, settings_of

if TYPE_CHECKING:
    from hostler.store.tasks import Flow, Task


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
    3: a person is needed, it waits for a time or for what nobody works on, or it was left at
    work; 1: it failed or was stopped.

    \b
    Example:
      hostler run octo/stable#12
      hostler run octo/stable#12 --flow bugfix --no-wait
    """
    from hostler.clock import SystemClock
    from hostler.service.opening import opened
    from hostler.service.single import begin, exit_code, refer

    given, clock = globals_of(context), SystemClock()
    loaded = settings_of(given)
    settings = loaded.settings
    wanted, chosen = refer(settings, issue), _flow(flow)
    hand_on(loaded)
    with (
        logbook(given, settings, "run") as log,
        opened(given.home_folder, settings, clock) as house,
    ):
        task = begin(house, wanted, chosen)
        if wait:
            task = see_through(house, clock, log, task)
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


def _say(task: Task, *, json: bool) -> None:
    if json:
        words = ("id", "project", "repo_full_name", "issue_number", "pr_number", "reason")
        facts = {name: getattr(task, name) for name in words}
        say_json({**facts, "flow": task.flow.value, "state": task.state.value})
        return
    from hostler.service.following import sentence

    say(sentence(task))
