"""`hostler bus`: post, read and follow messages of tasks and projects."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.doing import do
from hostler.cli.output import note, say, say_json
from hostler.cli.state import globals_of, settings_of

if TYPE_CHECKING:
    from hostler.bus import Bus, Message
    from hostler.bus.place import Place
    from hostler.bus.reading import Wanted
    from hostler.web.client.line import Line

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Project = Annotated[
    str, typer.Option(metavar="PROJECT", help="The project [default: the run's we are in].")
]
Task = Annotated[
    str,
    typer.Option(
        metavar="TASK",
        help="The task [default: the run's we are in; none with --project: the project's bus].",
    ),
]
Types = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Only these; repeatable.")
]
Since = Annotated[str, typer.Option(metavar="ID", help="Only what came after this message.")]
_USUAL_LAST = 20

commands = typer.Typer(
    name="bus",
    help="Post, read and follow messages of tasks and projects.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.command()
def post(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="The message; - reads standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="File with the message.")] = None,
    type_: Annotated[
        str,
        typer.Option(
            "--type", metavar="TYPE", help="What it is for [default: FACT in a run, else USER]."
        ),
    ] = "",
    thread: Annotated[
        str, typer.Option(metavar="ID", help="The message that this one answers.")
    ] = "",
    project: Project = "",
    task: Task = "",
    create: Annotated[
        bool, typer.Option("--create", help="Begin a bus that does not exist yet.")
    ] = False,
    json: Json = False,
) -> None:
    """Post a message on the bus of a task or project.

    The sender is the run we are in, or the person at the machine. Types: FACT, PROGRESS,
    DECISION, QUESTION, ERROR, WARNING, INFO, REVIEW; USER for people alone.

    \b
    Examples:
      hostler bus post "The parser keeps empty lines now."
      hostler bus post --type QUESTION "Shall old files be converted, or refused?"
      hostler bus post --task 20260301-235958-stable-12-bugfix --thread ID "Refused."
      hostler bus post --project stable --file notes.md
    """
    from hostler.bus import Terms, sender_here
    from hostler.cli.bus_words import body_of, type_named, usual_type
    from hostler.clock import SystemClock
    from hostler.service.posting import Letter, Postbox

    sender = sender_here(os.environ)
    chosen = type_named(type_) if type_ else usual_type(sender)
    place = _place(context, project, task, may_be_new=create)
    terms = Terms.of(settings_of(globals_of(context)).settings.tasks)
    body = body_of(text, file, sys.stdin)
    letter = Letter(place.project, place.task, chosen, body, thread, create)
    box = Postbox(place.home, SystemClock(), terms, sender)

    def there(line: Line) -> Mapping[str, Any]:
        from hostler.web.client.ports import RemoteBuses

        return RemoteBuses(line).post(letter)

    stored = do(context, there, lambda: box.post(letter), by=sender.name)
    if json:
        say_json({"bus": str(place.path), **stored})
    else:
        say(f"Posted {stored['id']} ({stored['type']}) to {place}.")


@commands.command()
def read(
    context: typer.Context,
    last: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help=f"Only the last N [default: {_USUAL_LAST}; all with --since or --thread].",
        ),
    ] = None,
    since: Since = "",
    types: Types = None,
    thread: Annotated[str, typer.Option(metavar="ID", help="Only this message's thread.")] = "",
    project: Project = "",
    task: Task = "",
    json: Json = False,
) -> None:
    """Read messages from the bus of a task or project.

    \b
    Examples:
      hostler bus read
      hostler bus read --task 20260301-235958-stable-12-bugfix --last 5 --type QUESTION
      hostler bus read --project stable --since 20260301-120000-123456 --json
    """
    from hostler.bus.reading import Page
    from hostler.cli.bus_words import checked_id, shown

    place = _place(context, project, task)
    bus = _bus(place)
    wanted, after = _wanted(bus, types, thread), checked_id(since)
    page = bus.since(after, wanted) if since or thread else bus.tail(last or _USUAL_LAST, wanted)
    page = Page(page.messages[-(last or len(page)) :], page.skipped)
    _note_heard(place, page)
    if json:
        messages = [message.stored() for message in page]
        say_json({"bus": str(place.path), "messages": messages, "skipped": page.skipped})
        return
    for message in page:
        say(shown(message))
    if not page.messages:
        note(f"No messages on the bus of {place}.")
    _tell_skipped(page.skipped)


@commands.command()
def follow(
    context: typer.Context,
    since: Annotated[
        str, typer.Option(metavar="ID", help="Begin after this message [default: from now on].")
    ] = "",
    types: Types = None,
    project: Project = "",
    task: Task = "",
    json: Json = False,
) -> None:
    """Show messages as they are posted, until Ctrl-C. With --json, one object per line.

    \b
    Examples:
      hostler bus follow --task 20260301-235958-stable-12-bugfix
      hostler bus follow --project stable --since 20260301-120000-123456 --json
    """
    from hostler.cli.bus_words import as_line, checked_id, shown

    place = _place(context, project, task)
    bus = _bus(place)
    wanted, after = _wanted(bus, types, ""), checked_id(since) or None
    messages = bus.follow(after)
    note(f"Following the bus of {place}; Ctrl-C ends it.")
    for message in messages:
        if wanted(message):
            _note_heard(place, [message])
            say(as_line(message) if json else shown(message))
            sys.stdout.flush()


@commands.command()
def stats(
    context: typer.Context, project: Project = "", task: Task = "", json: Json = False
) -> None:
    """Count what is on the bus of a task or project: messages, sizes, contention, damage.

    \b
    Example:
      hostler bus stats --project stable
    """
    from dataclasses import asdict

    from hostler.cli.bus_words import counted

    place = _place(context, project, task)
    facts = {"bus": str(place.path), **asdict(_bus(place).stats())}
    if json:
        say_json(facts)
        return
    for name, value in facts.items():
        say(f"{name.replace('_', ' '):<16}  {counted(value)}")


def _place(context: typer.Context, project: str, task: str, *, may_be_new: bool = False) -> Place:
    from hostler.bus.place import place_meant
    from hostler.cli.bus_words import missing

    place = place_meant(globals_of(context).home_folder, os.environ, project, task)
    if not place.exists and not may_be_new:
        raise missing(place)
    return place


def _bus(place: Place) -> Bus:
    from hostler.bus import Bus

    return Bus(place.path)


def _wanted(bus: Bus, types: list[str] | None, thread: str) -> Wanted:
    from hostler.cli.bus_words import thread_named, type_named

    kinds = {type_named(name) for name in types or []}
    root = thread_named(bus, thread) if thread else ""

    def wanted(message: Message) -> bool:
        return (not kinds or message.type in kinds) and (not root or message.thread_id == root)

    return wanted


def _note_heard(place: Place, messages: Iterable[Message]) -> None:
    """In a run that reads its own task's bus: what is shown to its agent need not be told again."""
    from hostler.bus.hearing import note_heard

    folder = os.environ.get("HOSTLER_RUN_DIR", "")
    if folder and place.task and place.task == os.environ.get("HOSTLER_TASK"):
        for message in messages:
            note_heard(Path(folder), message)


def _tell_skipped(count: int) -> None:
    if count:
        note(f"{count:,} line{'s' if count > 1 else ''} in between are no messages; left out.")
