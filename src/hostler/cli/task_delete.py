"""`hostler task delete`: rows and folders of tasks that are over."""

from __future__ import annotations

from typing import Annotated

import typer

from hostler.cli.confirming import confirm
from hostler.cli.output import note, say, say_json
from hostler.cli.task import Json, Those, opened


def register(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command()(delete)


def delete(
    context: typer.Context,
    tasks: Those,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Delete tasks that are over, with their runs, their children and their folders.

    A checkout goes only if nothing is lost with it; otherwise it stays, and is named.

    \b
    Example:
      hostler task delete 20260301-101500-stable-tidy-up
    """
    from hostler.service.deleting import delete as delete_tasks
    from hostler.service.deleting import doomed
    from hostler.service.naming import tasks_meant

    with opened(context) as house:
        with house.store.read() as tx:
            names = [task.id for task in tasks_meant(tx, tasks)]
            found = doomed(tx, names)
        if not yes:
            for task in found:
                note(f"{task.id}  {task.state.value}  {task.title}")
            confirm(f"Delete {len(found)} task{'s' if len(found) != 1 else ''} and their output?")
        done = delete_tasks(house.home, house.store, names)
    if json:
        kept = [{"path": path, "why": why} for path, why in done.kept.items()]
        say_json({"deleted": [task.id for task in done.tasks], "kept": kept})
        return
    for task in done.tasks:
        say(f"Deleted {task.id}.")
    for path, why in done.kept.items():
        say(f"Kept {path}: {why}")
