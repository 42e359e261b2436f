"""`hostler task`: the group, and stop, resume, cancel, retry, answer, delete and wait."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from hostler.cli.context import (
    CommandHome,
    JsonOption,
    ReasonOption,
    TaskArgument,
    TasksArgument,
    control_tasks,
    global_options,
    open_home,
)
from hostler.cli.help import CommandGroup
from hostler.cli.output import print_json, print_line, print_note, require_confirmation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostler.service.tasks.control import ChangedTask
if TYPE_CHECKING:
    from hostler.service.scheduling.task_waits import SettledTask


commands = CommandGroup(
    "task",
    """Submit, list, follow, answer, stop and restart tasks.

    \b
    Example:
      hostler task submit "Tidy up the imports"
      hostler task list
    """,
)


def register_task(app: typer.Typer) -> None:
    """Add the commands of this group."""
    from hostler.cli.commands.task_output import register_output
    from hostler.cli.commands.task_submit import register_submit
    from hostler.cli.commands.task_views import register_list, register_show

    register_submit(commands)
    register_list(commands)
    register_show(commands)
    register_wait(commands)
    register_output(commands)
    register_answer(commands)
    register_states(commands)
    register_delete(commands)
    app.add_typer(commands)


def register_states(commands: typer.Typer) -> None:
    """Add the commands of this file."""
    for command in (stop, resume, cancel, retry):
        commands.command()(command)


def stop(
    context: typer.Context, tasks: TasksArgument, why: ReasonOption = "", json: JsonOption = False
) -> None:
    """Stop tasks, their children and their agents.

    Use `resume` to continue a stopped task in its session, or `retry` to start it over. If one
    of several tasks cannot be stopped, none is.

    \b
    Example:
      hostler task stop 20260301-101500-stable-tidy-up --why "wrong branch"
    """
    print_changed(control_tasks(context, lambda to: to.stop(tasks, why)), json=json)


def cancel(
    context: typer.Context, tasks: TasksArgument, why: ReasonOption = "", json: JsonOption = False
) -> None:
    """Cancel tasks permanently; only `retry` restarts them.

    \b
    Example:
      hostler task cancel octo/stable#12 --why "no longer needed"
    """
    print_changed(control_tasks(context, lambda to: to.cancel(tasks, why)), json=json)


def resume(
    context: typer.Context, tasks: TasksArgument, why: ReasonOption = "", json: JsonOption = False
) -> None:
    """Continue stopped, blocked or waiting tasks in their sessions.

    \b
    Example:
      hostler task resume 20260301-101500-stable-tidy-up
    """
    changed = control_tasks(context, lambda to: to.resume(tasks, why))
    _note_if_not_running(context)
    print_changed(changed, json=json)


def retry(
    context: typer.Context, tasks: TasksArgument, why: ReasonOption = "", json: JsonOption = False
) -> None:
    """Retry tasks from scratch: counters restart at zero, checkouts and branches are kept.

    \b
    Example:
      hostler task retry 20260301-101500-stable-tidy-up
    """
    changed = control_tasks(context, lambda to: to.retry(tasks, why))
    _note_if_not_running(context)
    print_changed(changed, json=json)


def print_changed(changed: Sequence[ChangedTask], *, json: bool) -> None:
    """Print the new state of each task."""
    if json:
        words = ("id", "project", "reason")
        print_json(
            [
                {**{name: getattr(task, name) for name in words}, "state": task.state.value}
                for task in changed
            ]
        )
        return
    for task in changed:
        print_line(f"{task.id}  {task.state.value}. {task.reason}")


def _note_if_not_running(context: typer.Context) -> None:
    """Print a note if no service is running."""
    from hostler.service.context import read_presence

    found = read_presence(global_options(context).home_folder)
    if not found.takes_tasks:
        print_note(found.sentence())


def register_answer(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command()(answer)


def answer(
    context: typer.Context,
    task: TaskArgument,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Answer; - reads standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="File with the answer.")] = None,
    json: JsonOption = False,
) -> None:
    """Answer the question of a manual task, which then continues in its session.

    Questions of tasks from GitHub are answered there, with a comment.

    \b
    Example:
      hostler task answer 20260301-101500-stable-tidy-up "Leave the tests as they are."
    """
    from hostler.cli.output import read_text_argument
    from hostler.workflows.commands import MAX_ANSWER_LENGTH

    said = read_text_argument(text, file, sys.stdin, MAX_ANSWER_LENGTH, "the answer")
    queued = control_tasks(context, lambda to: to.answer(task, said))
    if json:
        print_json({"id": queued.id, "state": queued.state.value, "reason": queued.reason})
    else:
        print_line(f"{queued.id} is queued with your answer.")


def register_delete(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command()(delete)


def delete(
    context: typer.Context,
    tasks: TasksArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: JsonOption = False,
) -> None:
    """Delete finished tasks with their runs, children and folders.

    Checkouts with unsaved work are kept and listed.

    \b
    Example:
      hostler task delete 20260301-101500-stable-tidy-up
    """
    from hostler.service.tasks.control import delete_tasks, select_for_deletion
    from hostler.service.tasks.details import resolve_tasks

    with open_home(context) as opened:
        with opened.store.read() as tx:
            names = [task.id for task in resolve_tasks(tx, tasks)]
            found = select_for_deletion(tx, names)
        if not yes:
            for task in found:
                print_note(f"{task.id}  {task.state.value}  {task.title}")
            require_confirmation(
                f"Delete {len(found)} task{'s' if len(found) != 1 else ''} and their output?"
            )
        done = delete_tasks(opened.home, opened.store, names)
    if json:
        kept = [{"path": path, "why": why} for path, why in done.kept.items()]
        print_json({"deleted": [task.id for task in done.tasks], "kept": kept})
        return
    for task in done.tasks:
        print_line(f"Deleted {task.id}.")
    for path, why in done.kept.items():
        print_line(f"Kept {path}: {why}")


def register_wait(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command()(wait)


def wait(
    context: typer.Context,
    tasks: TasksArgument,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Maximum time to wait [default: no limit]."),
    ] = None,
    any_: Annotated[
        bool, typer.Option("--any", help="Wait only until the first task finishes or needs you.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Wait until tasks finish, are in review, or need you.

    Inside a run, the run gives up its slot while it waits and gets it back before this command
    returns, so that the tasks it waits for can start. Exit code 0: all are done or in review;
    1: one failed or was stopped; 3: one needs you; 75: timed out.

    \b
    Example:
      hostler task wait 20260301-101500-stable-tidy-up
      hostler task wait "$FIRST" "$SECOND" --any --timeout 600
    """
    from hostler.service.tasks.details import resolve_tasks

    with open_home(context) as opened:
        with opened.store.read() as tx:
            names = [task.id for task in resolve_tasks(tx, tasks)]
        wait_for_end(opened, names, seconds=timeout, one=any_, json=json)


def wait_for_end(
    opened: CommandHome,
    names: list[str],
    *,
    seconds: float | None = None,
    one: bool = False,
    json: bool,
) -> NoReturn:
    """Wait for the tasks, print their states, and exit with the resulting code."""
    from hostler.governor.policy import read_policy
    from hostler.service.context import read_presence
    from hostler.service.scheduling.task_waits import exit_code_of, wait_for_tasks

    found = read_presence(opened.home)
    if not found.takes_tasks:
        print_note(found.sentence())
    run = os.environ.get("HOSTLER_RUN", "")
    enough = any if one else all
    policy = read_policy(opened.home, opened.settings)
    rested = wait_for_tasks(
        opened.store, opened.clock, names, run, seconds, print_note, enough, policy
    )
    _print_settled(rested, json=json)
    raise typer.Exit(exit_code_of(rested))


def _print_settled(found: list[SettledTask], *, json: bool) -> None:
    from hostler.service.tasks.summary import describe_task

    if json:
        print_json(
            [
                {
                    "id": one.task.id,
                    "state": one.task.state.value,
                    "reason": one.task.reason,
                    "question": one.task.question or None,
                    "stuck": [blocker.sentence for blocker in one.stuck],
                }
                for one in found
            ]
        )
        return
    for one in found:
        print_line(describe_task(one.task))
        for blocker in one.stuck:
            print_line(f"  Can never start: {blocker.sentence} {blocker.remedy}".rstrip())
