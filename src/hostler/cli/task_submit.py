"""`hostler task submit`: a task by hand, from a person, a script or an agent at work."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from hostler.cli.doing import do
from hostler.cli.foreground import see_through
from hostler.cli.logbook import logbook
from hostler.cli.output import note, say, say_json
from hostler.cli.service import end_now
from hostler.cli.state import Globals, globals_of, hand_on, settings_of
from hostler.cli.task import Json, Opened, opened
from hostler.cli.who import who

if TYPE_CHECKING:
    from hostler.service.ordering import Wish
    from hostler.service.submission import Context, Received
    from hostler.store.tasks import Task
    from hostler.web.client.line import Line


def register(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command()(submit)


def submit(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="The prompt; - reads standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="File with the prompt.")] = None,
    project: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Whose share it uses [default: the run's we are in, the repository's, the "
            "folder's name].",
        ),
    ] = "",
    cwd: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder to work in, as it is [default: the parent's place; else this folder].",
        ),
    ] = None,
    repo: Annotated[
        str, typer.Option(metavar="REPO", help="Watched repository: its id, or owner/name.")
    ] = "",
    agent: Annotated[
        str, typer.Option(metavar="NAME", help="Who works [default: the repository's, the only].")
    ] = "",
    depends_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK", help="What must be ready first: a task or owner/repo#12; repeatable."
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Variable that the agent may see; repeatable."),
    ] = None,
    wall_limit_minutes: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=10_080, help="Longest run of an agent.")
    ] = None,
    max_restarts: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=100_000, help="Attempts at most.")
    ] = None,
    title: Annotated[str, typer.Option(help="For lists [default: the prompt's first line].")] = "",
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Do it here and now if no service works.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it is at rest.")] = False,
    json: Json = False,
) -> None:
    """Queue a task by hand; its id is all that standard output gets.

    Inside a run it becomes a child of the task at work, in the same place; with --wait the run
    lends its own place meanwhile. Exit codes with --wait are those of `hostler task wait`, with
    --foreground those of `hostler run`.

    \b
    Example:
      hostler task submit "Tidy up the imports"
      hostler task submit --repo stable --file job.md --depends-on octo/stable#12
      make report | hostler task submit --title "Explain the report" --foreground -
    """
    from hostler.service.ordering import Wish

    wish = Wish(
        prompt=_prompt(text, file),
        author=who(),
        here=_here(),
        project=project,
        cwd=_folder(cwd),
        repo=repo,
        agent=agent,
        env=tuple(env or ()),
        wall_limit_minutes=wall_limit_minutes or 0,
        max_restarts=max_restarts,
        title=title,
    )
    if foreground:
        _in_foreground(globals_of(context), wish, depends_on or [], json=json)
    received = _queued(context, wish, depends_on or [], waits=wait)
    _tell(globals_of(context).home_folder, received, json=json and not wait)
    if wait:
        from hostler.cli.task_wait import wait_for_end

        with opened(context) as house:
            wait_for_end(house, [received.id], json=json)


def _queued(context: typer.Context, wish: Wish, depends_on: list[str], *, waits: bool) -> Received:
    def there(line: Line) -> Received:
        from hostler.web.client.ports import RemoteQueue

        return RemoteQueue(line).submit(wish, depends_on)

    def here() -> Received:
        from hostler.service.submission import HandQueue

        with opened(context, make=True) as house:
            return HandQueue(house.store, _at(house, waits=waits)).submit(wish, depends_on)

    return do(context, there, here)


def _at(house: Opened, *, waits: bool) -> Context:
    from hostler.service.presence import presence
    from hostler.service.submission import Context

    return Context(
        home=house.home,
        settings=house.settings,
        parent=os.environ.get("HOSTLER_TASK", ""),
        waits=waits,
        presence=presence(house.home),
    )


def _in_foreground(given: Globals, wish: Wish, depends_on: list[str], *, json: bool) -> NoReturn:
    """Queue it, and see it through; ends the process."""
    from hostler.clock import SystemClock
    from hostler.errors import HostlerError
    from hostler.service.opening import opened as open_house
    from hostler.service.single import exit_code
    from hostler.service.submission import take

    if os.environ.get("HOSTLER_RUN"):
        raise HostlerError(
            "Inside a run, --foreground would hold the run's own place for nothing.",
            safe="Nothing was queued.",
            remedy="Use --wait: the place is lent meanwhile.",
        )
    loaded, clock = settings_of(given), SystemClock()
    hand_on(loaded)
    with (
        logbook(given, loaded.settings, "task submit") as log,
        open_house(given.home_folder, loaded.settings, clock) as house,
    ):
        here = Opened(given.home_folder, loaded, house.store, clock)
        taken = take(house.store, _at(here, waits=False), wish, depends_on)
        if not json:
            say(taken.task.id)
            sys.stdout.flush()
        for blocker in taken.blockers:
            note(f"It waits: {blocker.sentence} {blocker.remedy}".rstrip())
        task = see_through(house, clock, log, taken.task)
    _say_end(task, json=json)
    end_now(exit_code(task))


def _say_end(task: Task, *, json: bool) -> None:
    from hostler.service.following import sentence

    if json:
        say_json({"id": task.id, "state": task.state.value, "reason": task.reason})
    else:
        say(sentence(task))


def _tell(home: Path, received: Received, *, json: bool) -> None:
    """The id for programs, and for people where it stands."""
    from dataclasses import asdict

    from hostler.service.presence import presence

    found = presence(home)
    if json:
        say_json({**asdict(received), "service": found.as_json()})
        return
    say(received.id)
    sys.stdout.flush()
    note(_sentence(received))
    for blocker in received.blockers:
        note(f"It waits: {blocker['why']} {blocker['remedy']}".rstrip())
    if not found.takes_tasks:
        note(f"{found.sentence()} With --foreground it is done here and now.")


def _sentence(received: Received) -> str:
    """Where it stands, and which gate holds it; what it depends on is said for itself."""
    place = f", position {received.queue_position}" if received.queue_position else ""
    why = f": {received.why}" if received.why is not None and not received.blockers else "."
    return f"{received.status.capitalize()}{place}{why}"


def _prompt(text: str | None, file: Path | None) -> str:
    from hostler.cli.prompts import text_of
    from hostler.flows.submitting import LARGEST_PROMPT

    return text_of(text, file, sys.stdin, LARGEST_PROMPT, "the prompt")


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return ""


def _folder(cwd: Path | None) -> str:
    """A folder that there is, by its whole name."""
    from hostler.cli.state import folder
    from hostler.flows.submitting import NotSubmitted

    if cwd is None:
        return ""
    found = folder(cwd)
    if not found.is_dir():
        raise NotSubmitted(f"There is no folder {found}.", "Make it first, or name another one.")
    return os.path.normpath(found)
