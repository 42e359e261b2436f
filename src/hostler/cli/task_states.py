"""`hostler task stop | resume | cancel | retry`: what people do with tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hostler.cli.output import note, say, say_json
from hostler.cli.task import Json, Opened, Those, Why, opened
from hostler.cli.who import who

if TYPE_CHECKING:
    from hostler.service.directing import Director
    from hostler.store.tasks import Task


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
    with opened(context) as house:
        say_changed(director(house).stop(tasks, why), json=json)


def cancel(context: typer.Context, tasks: Those, why: Why = "", json: Json = False) -> None:
    """Stop tasks for good: only `retry` brings them back.

    \b
    Example:
      hostler task cancel octo/stable#12 --why "no longer needed"
    """
    with opened(context) as house:
        say_changed(director(house).cancel(tasks, why), json=json)


def resume(context: typer.Context, tasks: Those, why: Why = "", json: Json = False) -> None:
    """Let tasks go on that were stopped, are blocked, or wait; in their sessions.

    \b
    Example:
      hostler task resume 20260301-101500-stable-tidy-up
    """
    with opened(context) as house:
        changed = director(house).resume(tasks, why)
        _note_absence(house)
        say_changed(changed, json=json)


def retry(context: typer.Context, tasks: Those, why: Why = "", json: Json = False) -> None:
    """Begin tasks anew, with all counters at zero; their checkouts and branches stay.

    \b
    Example:
      hostler task retry 20260301-101500-stable-tidy-up
    """
    with opened(context) as house:
        changed = director(house).retry(tasks, why)
        _note_absence(house)
        say_changed(changed, json=json)


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


def director(house: Opened) -> Director:
    """Whoever gives a command here."""
    from hostler.service.directing import Director

    grace = float(house.settings.runtime.stop_grace_seconds)
    return Director(house.home, house.store, house.clock, grace, who())


def _note_absence(house: Opened) -> None:
    """Nobody may be there to take what was queued."""
    from hostler.service.presence import presence

    found = presence(house.home)
    if not found.takes_tasks:
        note(found.sentence())
