"""`hostler task submit`: queue a manual task, or run it in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from hostler.cli.context import (
    CommandHome,
    GlobalOptions,
    JsonOption,
    call_service_or_local,
    current_actor,
    export_config_path,
    global_options,
    load_settings,
    open_command_log,
    open_home,
)
from hostler.cli.foreground import exit_now, run_task_to_end
from hostler.cli.output import print_json, print_line, print_note

if TYPE_CHECKING:
    from hostler.service.tasks.submission import SubmissionContext, SubmissionReceipt, TaskRequest
    from hostler.store.tasks import Task
    from hostler.web.client.connection import ServiceConnection


def register_submit(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command()(submit)


def submit(
    context: typer.Context,
    text: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="Prompt; - reads standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="File with the prompt.")] = None,
    project: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Project whose share of slots it uses [default: that of the current run or the "
            "repository, else the folder's name].",
        ),
    ] = "",
    cwd: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder to work in [default: that of the parent task, else the current folder].",
        ),
    ] = None,
    repo: Annotated[
        str,
        typer.Option(metavar="REPO", help="Watched repository: its ID, or owner/name."),
    ] = "",
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Agent [default: that of the repository, else the only one]."
        ),
    ] = "",
    depends_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK",
            help="Task or owner/repo#12 that must be finished first (repeatable).",
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Environment variable to pass to the agent (repeatable)."
        ),
    ] = None,
    wall_limit_minutes: Annotated[
        int | None,
        typer.Option(metavar="MINUTES", min=1, max=10_080, help="Time limit of each run."),
    ] = None,
    max_restarts: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=100_000, help="Maximum number of attempts."),
    ] = None,
    title: Annotated[
        str, typer.Option(metavar="TEXT", help="Title in lists [default: the prompt's first line].")
    ] = "",
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Run it here and now if no service is running.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the task finishes or needs you.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Queue a task and print its ID.

    Reads the prompt from the argument, a file or standard input. Inside a run, the task becomes
    a child of the current task and works in the same folder; with --wait the run gives up its
    slot while it waits. --wait exits like `hostler task wait`, --foreground like `hostler run`.

    \b
    Example:
      hostler task submit "Tidy up the imports"
      hostler task submit --repo stable --file job.md --depends-on octo/stable#12
      make report | hostler task submit --title "Explain the report" --foreground -
    """
    from hostler.service.tasks.submission import TaskRequest

    request = TaskRequest(
        prompt=_read_prompt(text, file),
        author=current_actor(),
        here=_current_folder(),
        project=project,
        cwd=_resolve_work_folder(cwd),
        repo=repo,
        agent=agent,
        env=tuple(env or ()),
        wall_limit_minutes=wall_limit_minutes or 0,
        max_restarts=max_restarts,
        title=title,
    )
    if foreground:
        _run_in_foreground(global_options(context), request, depends_on or [], json=json)
    received = _queue_task(context, request, depends_on or [], waits=wait)
    _print_received(global_options(context).home_folder, received, json=json and not wait)
    if wait:
        from hostler.cli.commands.task import wait_for_end

        with open_home(context) as opened:
            wait_for_end(opened, [received.id], json=json)


def _queue_task(
    context: typer.Context, request: TaskRequest, depends_on: list[str], *, waits: bool
) -> SubmissionReceipt:
    def remote(line: ServiceConnection) -> SubmissionReceipt:
        from hostler.web.client.commands import RemoteQueue

        return RemoteQueue(line).submit(request, depends_on)

    def local() -> SubmissionReceipt:
        from hostler.service.tasks.submission import LocalTaskQueue

        with open_home(context, make=True) as opened:
            return LocalTaskQueue(opened.store, _submission_context(opened, waits=waits)).submit(
                request, depends_on
            )

    return call_service_or_local(context, remote, local)


def _submission_context(opened: CommandHome, *, waits: bool) -> SubmissionContext:
    from hostler.service.context import read_presence
    from hostler.service.tasks.submission import SubmissionContext

    return SubmissionContext(
        home=opened.home,
        settings=opened.settings,
        parent=os.environ.get("HOSTLER_TASK", ""),
        waits=waits,
        presence=read_presence(opened.home),
    )


def _run_in_foreground(
    given: GlobalOptions, request: TaskRequest, depends_on: list[str], *, json: bool
) -> NoReturn:
    """Queue the task, run it until it finishes or needs a person, and exit."""
    from hostler.clock import SystemClock
    from hostler.errors import HostlerError
    from hostler.service.context import open_context
    from hostler.service.tasks.foreground import exit_code_for
    from hostler.service.tasks.submission import queue_task

    if os.environ.get("HOSTLER_RUN"):
        raise HostlerError(
            "--foreground is not available inside a run, whose slot it would occupy while waiting.",
            safe="Nothing was queued.",
            remedy="Use --wait, which gives up the slot.",
        )
    loaded, clock = load_settings(given), SystemClock()
    export_config_path(loaded)
    with (
        open_command_log(given, loaded.settings, "task submit") as log,
        open_context(given.home_folder, loaded.settings, clock) as opened,
    ):
        here = CommandHome(given.home_folder, loaded, opened.store, clock)
        queued = queue_task(
            opened.store, _submission_context(here, waits=False), request, depends_on
        )
        if not json:
            print_line(queued.task.id)
            sys.stdout.flush()
        for blocker in queued.blockers:
            print_note(f"Waiting: {blocker.sentence} {blocker.remedy}".rstrip())
        task = run_task_to_end(opened, clock, log, queued.task)
    _print_end(task, json=json)
    exit_now(exit_code_for(task))


def _print_end(task: Task, *, json: bool) -> None:
    from hostler.service.tasks.summary import describe_task

    if json:
        print_json({"id": task.id, "state": task.state.value, "reason": task.reason})
    else:
        print_line(describe_task(task))


def _print_received(home: Path, received: SubmissionReceipt, *, json: bool) -> None:
    """Print the task's ID, and its state on standard error."""
    from dataclasses import asdict

    from hostler.service.context import read_presence

    found = read_presence(home)
    if json:
        print_json({**asdict(received), "service": found.as_json()})
        return
    print_line(received.id)
    sys.stdout.flush()
    print_note(_describe_received(received))
    for blocker in received.blockers:
        print_note(f"Waiting: {blocker['why']} {blocker['remedy']}".rstrip())
    if not found.takes_tasks:
        print_note(f"{found.sentence()} Use --foreground to run it here and now.")


def _describe_received(received: SubmissionReceipt) -> str:
    """Describe its state, queue position and the gate that denies it, without dependencies."""
    place = f", position {received.queue_position}" if received.queue_position else ""
    why = f": {received.why}" if received.why is not None and not received.blockers else "."
    return f"{received.status.capitalize()}{place}{why}"


def _read_prompt(text: str | None, file: Path | None) -> str:
    from hostler.cli.output import read_text_argument
    from hostler.workflows.manual_tasks import MAX_PROMPT_LENGTH

    return read_text_argument(text, file, sys.stdin, MAX_PROMPT_LENGTH, "the prompt")


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return ""


def _resolve_work_folder(cwd: Path | None) -> str:
    """Return the absolute path of an existing folder; raise NotSubmitted if there is none."""
    from hostler.cli.context import resolve_folder
    from hostler.workflows.manual_tasks import NotSubmitted

    if cwd is None:
        return ""
    found = resolve_folder(cwd)
    if not found.is_dir():
        raise NotSubmitted(f"There is no folder {found}.", "Create it, or choose another one.")
    return os.path.normpath(found)
