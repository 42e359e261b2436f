"""`hostler task stop | resume | cancel | retry`: what people do with tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hostler.cli.doing import with_tasks
from hostler.cli.output import note, say, say_json
from hostler.cli.state import globals_of
from hostler.cli.task import Json, Those, Why

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostler.service.doing import Changed


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
    say_changed(with_tasks(context, lambda to: to.stop(tasks, why)), json=json)


def cancel(context: typer.Context, tasks: Those, why: Why = "", json: Json = False) -> None:
    """Stop tasks for good: only `retry` brings them back.

    \b
    Example:
      hostler task cancel octo/stable#12 --why "no longer needed"
    """
    say_changed(with_tasks(context, lambda to: to.cancel(tasks, why)), json=json)


def resume(context: typer.Context, tasks: Those, why: Why = "", json: Json = False) -> None:
    """Let tasks go on that were stopped, are blocked, or wait; in their sessions.

    \b
    Example:
      hostler task resume 20260301-101500-stable-tidy-up
    """
    changed = with_tasks(context, lambda to: to.resume(tasks, why))
    _note_absence(context)
    say_changed(changed, json=json)


def retry(context: typer.Context, tasks: Those, why: Why = "", json: Json = False) -> None:
    """Begin tasks anew, with all counters at zero; their checkouts and branches stay.

    \b
    Example:
      hostler task retry 20260301-101500-stable-tidy-up
    """
    changed = with_tasks(context, lambda to: to.retry(tasks, why))
    _note_absence(context)
    say_changed(changed, json=json)


def say_changed(changed: Sequence[Changed], *, json: bool) -> None:
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


def _note_absence(context: typer.Context) -> None:
    """Nobody may be there to take what was queued."""
    from hostler.service.presence import presence

    found = presence(globals_of(context).home_folder)
    if not found.takes_tasks:
        note(found.sentence())
