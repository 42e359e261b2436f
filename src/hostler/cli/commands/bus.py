"""`hostler bus`: post, read and follow messages of tasks and projects."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.context import JsonOption, call_service_or_local, global_options, load_settings
from hostler.cli.output import print_json, print_line, print_note

if TYPE_CHECKING:
    from hostler.bus.bus import Bus, BusLocation
    from hostler.bus.message import Message
    from hostler.bus.reader import MessageFilter
    from hostler.web.client.connection import ServiceConnection


ProjectOption = Annotated[
    str, typer.Option(metavar="PROJECT", help="The project [default: the run's we are in].")
]
TaskOption = Annotated[
    str,
    typer.Option(
        metavar="TASK",
        help="The task [default: the run's we are in; none with --project: the project's bus].",
    ),
]
TypesOption = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Only these; repeatable.")
]
SinceOption = Annotated[str, typer.Option(metavar="ID", help="Only what came after this message.")]
_DEFAULT_LAST = 20

commands = typer.Typer(
    name="bus",
    help="Post, read and follow messages of tasks and projects.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register_bus(app: typer.Typer) -> None:
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
    project: ProjectOption = "",
    task: TaskOption = "",
    create: Annotated[
        bool, typer.Option("--create", help="Begin a bus that does not exist yet.")
    ] = False,
    json: JsonOption = False,
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
    from hostler.bus.bus import current_sender
    from hostler.bus.writer import BusOptions
    from hostler.cli.commands.bus_messages import default_type, parse_type, read_body
    from hostler.clock import SystemClock
    from hostler.service.running.bus_messages import BusMessageDraft, BusPoster

    sender = current_sender(os.environ)
    chosen = parse_type(type_) if type_ else default_type(sender)
    place = _find_place(context, project, task, may_be_new=create)
    terms = BusOptions.of(load_settings(global_options(context)).settings.tasks)
    body = read_body(text, file, sys.stdin)
    letter = BusMessageDraft(place.project, place.task, chosen, body, thread, create)
    box = BusPoster(place.home, SystemClock(), terms, sender)

    def there(line: ServiceConnection) -> Mapping[str, Any]:
        from hostler.web.client.commands import RemoteBuses

        return RemoteBuses(line).post(letter)

    stored = call_service_or_local(context, there, lambda: box.post(letter), by=sender.name)
    if json:
        print_json({"bus": str(place.path), **stored})
    else:
        print_line(f"Posted {stored['id']} ({stored['type']}) to {place}.")


@commands.command()
def read(
    context: typer.Context,
    last: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help=f"Only the last N [default: {_DEFAULT_LAST}; all with --since or --thread].",
        ),
    ] = None,
    since: SinceOption = "",
    types: TypesOption = None,
    thread: Annotated[str, typer.Option(metavar="ID", help="Only this message's thread.")] = "",
    project: ProjectOption = "",
    task: TaskOption = "",
    json: JsonOption = False,
) -> None:
    """Read messages from the bus of a task or project.

    \b
    Examples:
      hostler bus read
      hostler bus read --task 20260301-235958-stable-12-bugfix --last 5 --type QUESTION
      hostler bus read --project stable --since 20260301-120000-123456 --json
    """
    from hostler.bus.reader import MessagePage
    from hostler.cli.commands.bus_messages import format_message, parse_id

    place = _find_place(context, project, task)
    bus = _open_bus(place)
    wanted, after = _build_filter(bus, types, thread), parse_id(since)
    page = bus.since(after, wanted) if since or thread else bus.tail(last or _DEFAULT_LAST, wanted)
    page = MessagePage(page.messages[-(last or len(page)) :], page.skipped)
    _mark_read(place, page)
    if json:
        messages = [message.stored() for message in page]
        print_json({"bus": str(place.path), "messages": messages, "skipped": page.skipped})
        return
    for message in page:
        print_line(format_message(message))
    if not page.messages:
        print_note(f"No messages on the bus of {place}.")
    _note_skipped(page.skipped)


@commands.command()
def follow(
    context: typer.Context,
    since: Annotated[
        str, typer.Option(metavar="ID", help="Begin after this message [default: from now on].")
    ] = "",
    types: TypesOption = None,
    project: ProjectOption = "",
    task: TaskOption = "",
    json: JsonOption = False,
) -> None:
    """Show messages as they are posted, until Ctrl-C. With --json, one object per line.

    \b
    Examples:
      hostler bus follow --task 20260301-235958-stable-12-bugfix
      hostler bus follow --project stable --since 20260301-120000-123456 --json
    """
    from hostler.cli.commands.bus_messages import format_json_line, format_message, parse_id

    place = _find_place(context, project, task)
    bus = _open_bus(place)
    wanted, after = _build_filter(bus, types, ""), parse_id(since) or None
    messages = bus.follow(after)
    print_note(f"Following the bus of {place}; Ctrl-C ends it.")
    for message in messages:
        if wanted(message):
            _mark_read(place, [message])
            print_line(format_json_line(message) if json else format_message(message))
            sys.stdout.flush()


@commands.command()
def stats(
    context: typer.Context,
    project: ProjectOption = "",
    task: TaskOption = "",
    json: JsonOption = False,
) -> None:
    """Count what is on the bus of a task or project: messages, sizes, contention, damage.

    \b
    Example:
      hostler bus stats --project stable
    """
    from dataclasses import asdict

    from hostler.cli.commands.bus_messages import format_count

    place = _find_place(context, project, task)
    facts = {"bus": str(place.path), **asdict(_open_bus(place).stats())}
    if json:
        print_json(facts)
        return
    for name, value in facts.items():
        print_line(f"{name.replace('_', ' '):<16}  {format_count(value)}")


def _find_place(
    context: typer.Context, project: str, task: str, *, may_be_new: bool = False
) -> BusLocation:
    from hostler.bus.bus import resolve_location
    from hostler.cli.commands.bus_messages import missing_bus_error

    place = resolve_location(global_options(context).home_folder, os.environ, project, task)
    if not place.exists and not may_be_new:
        raise missing_bus_error(place)
    return place


def _open_bus(place: BusLocation) -> Bus:
    from hostler.bus.bus import Bus

    return Bus(place.path)


def _build_filter(bus: Bus, types: list[str] | None, thread: str) -> MessageFilter:
    from hostler.cli.commands.bus_messages import find_thread, parse_type

    kinds = {parse_type(name) for name in types or []}
    root = find_thread(bus, thread) if thread else ""

    def wanted(message: Message) -> bool:
        return (not kinds or message.type in kinds) and (not root or message.thread_id == root)

    return wanted


def _mark_read(place: BusLocation, messages: Iterable[Message]) -> None:
    """In a run that reads its own task's bus: what is shown to its agent need not be told again."""
    from hostler.bus.bus import record_shown

    folder = os.environ.get("HOSTLER_RUN_DIR", "")
    if folder and place.task and place.task == os.environ.get("HOSTLER_TASK"):
        for message in messages:
            record_shown(Path(folder), message)


def _note_skipped(count: int) -> None:
    if count:
        print_note(
            f"{count:,} line{'s' if count > 1 else ''} in between are no messages; left out."
        )
