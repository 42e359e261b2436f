"""`hostler task stop | resume | cancel | retry`: what people do with tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from hostler.cli.output import note, say, say_json
from hostler.cli.task import Json, Opened, Those, Why, opened
from hostler.cli.who import who

if TYPE_CHECKING:
    from hostler.store import Transaction
    from hostler.store.tasks import Task

    Change = Callable[[Transaction, Task, str, str], Task]


def register(commands: typer.Typer) -> None:
    """Add the commands of this file."""
    for command in (stop, resume, cancel, retry):
        commands.command()(command)


def stop(context: typer.Context, tasks: Those, why: Why = "", json: Json = False) -> None:
    """Stop tasks and all that came from them; their agents are ended.

    Nothing starts again by itself; `resume` goes on, `retry` begins anew. Several tasks are
    stopped together, or none is.

    \b
    Example:
      hostler task stop 20260301-101500-stable-tidy-up --why "wrong branch"
    """
    from hostler.flows import commands

    with opened(context) as house:
        say_changed(_halt(house, tasks, why, commands.stop), json=json)


def cancel(context: typer.Context, tasks: Those, why: Why = "", json: Json = False) -> None:
    """Stop tasks for good: only `retry` brings them back.

    \b
    Example:
      hostler task cancel octo/stable#12 --why "no longer needed"
    """
    from hostler.flows import commands

    with opened(context) as house:
        say_changed(_halt(house, tasks, why, commands.cancel), json=json)


def resume(context: typer.Context, tasks: Those, why: Why = "", json: Json = False) -> None:
    """Let tasks go on that were stopped, are blocked, or wait; in their sessions.

    \b
    Example:
      hostler task resume 20260301-101500-stable-tidy-up
    """
    from hostler.flows import commands

    with opened(context) as house:
        say_changed(_queue(house, tasks, why, commands.resume), json=json)


def retry(context: typer.Context, tasks: Those, why: Why = "", json: Json = False) -> None:
    """Begin tasks anew, with all counters at zero; their checkouts and branches stay.

    \b
    Example:
      hostler task retry 20260301-101500-stable-tidy-up
    """
    from hostler.flows import commands

    with opened(context) as house:
        say_changed(_queue(house, tasks, why, commands.retry), json=json)


def say_changed(changed: list[Task], *, json: bool) -> None:
    """What became of each."""
    if json:
        words = ("id", "project", "reason")
        say_json(
            [
                {**{name: getattr(task, name) for name in words}, "state": task.state.value}
                for task in changed
            ]
        )
        return
    for task in changed:
        say(f"{task.id}  {task.state.value}. {task.reason}")


def _halt(
    house: Opened,
    tasks: list[str],
    why: str,
    halt: Callable[[Transaction, Task, str, str], list[Task]],
) -> list[Task]:
    from hostler.service.naming import tasks_meant
    from hostler.service.stopping import Stopper

    grace = float(house.settings.runtime.stop_grace_seconds)
    stopper = Stopper(house.home, house.store, house.clock, grace, who(), " ".join(why.split()))
    with house.store.read() as tx:
        names = [task.id for task in tasks_meant(tx, tasks)]
    return stopper.stop(names, halt)


def _queue(house: Opened, tasks: list[str], why: str, change: Change) -> list[Task]:
    from hostler.service.naming import tasks_meant
    from hostler.service.presence import presence
    from hostler.service.stopping import SCOPES

    reason = " ".join(why.split())
    with house.store.write(*SCOPES) as tx:
        changed = [change(tx, task, who(), reason) for task in tasks_meant(tx, tasks)]
    found = presence(house.home)
    if not found.takes_tasks:
        note(found.sentence())
    return changed
