"""`hostler task list`: tasks as a tree, one line each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.looks import age, cut, plain, width
from hostler.cli.output import RED, YELLOW, coloured, note, say, say_json
from hostler.cli.task import Json, opened

if TYPE_CHECKING:
    from hostler.store import Transaction
    from hostler.store.tasks import Task, TaskState


def register(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command("list")(list_tasks)


def list_tasks(
    context: typer.Context,
    project: Annotated[str, typer.Option(metavar="NAME", help="Only those of a project.")] = "",
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only those in this state; repeatable."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Also what is over.")] = False,
    json: Json = False,
) -> None:
    """Show unfinished tasks, each below the task that it came from: state, its age, id, title.

    States: queued, running, retrying, parked, awaiting_feedback, needs_input, blocked; and those
    that are over: stopped, done, failed.

    \b
    Example:
      hostler task list
      hostler task list --project stable --state failed --state stopped
    """
    from hostler.errors import StoreMissing
    from hostler.service.forest import forest
    from hostler.service.portrait import brief

    states = _states(state or [], all_=all_)
    found: list[Task] = []
    now = datetime.now().astimezone()
    try:
        with opened(context) as house, house.store.read() as tx:
            found, now = _found(tx, states, project), tx.now()
    except StoreMissing:
        pass
    if json:
        say_json([brief(task) for _, task in forest(found)])
        return
    for line in lines(forest(found), now):
        say(line)
    if not found:
        note("There are no such tasks." if state or project or all_ else "Nothing is unfinished.")


def lines(tasks: list[tuple[int, Task]], now: datetime) -> Iterator[str]:
    """A line for each task, no longer than the terminal is wide."""
    from hostler.model import parse_stamp
    from hostler.service.following import state_words
    from hostler.store.transaction import age as age_of

    columns = width()
    for depth, task in tasks:
        seconds = age_of(parse_stamp(task.state_since), now).total_seconds()
        head = f"{state_words(task):<13}  {age(seconds):>4}  "
        room = None if columns is None else columns - len(head)
        text = cut(f"{'  ' * depth}{task.id}  {plain(task.title)}", room)
        yield _tinted(task, head) + text


def _tinted(task: Task, head: str) -> str:
    from hostler.store.tasks import TaskState

    if task.state in (TaskState.FAILED, TaskState.BLOCKED):
        return coloured(head, RED)
    return coloured(head, YELLOW) if task.state is TaskState.NEEDS_INPUT else head


def _found(tx: Transaction, states: list[TaskState], project: str) -> list[Task]:
    from hostler.store.tasks import tasks_in

    return [task for task in tasks_in(tx, states) if project in ("", task.project)]


def _states(names: list[str], *, all_: bool) -> list[TaskState]:
    from hostler.service.following import UNFINISHED
    from hostler.store.tasks import TaskState

    known = {state.value: state for state in TaskState}
    wrong = [name for name in names if _plain(name) not in known]
    if wrong:
        raise typer.BadParameter(
            f"there is no state {wrong[0]!r}; choose from {', '.join(known)}", param_hint="--state"
        )
    if names:
        return [known[_plain(name)] for name in names]
    return list(TaskState) if all_ else list(UNFINISHED)


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")
