"""`hostler bus`: post, read and follow messages of tasks and projects."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.context import JsonOption, call_service_or_local, global_options, load_settings
from hostler.cli.help import CommandGroup
from hostler.cli.output import print_json, print_line, print_note

if TYPE_CHECKING:
    from hostler.bus.bus import Bus, BusLocation
    from hostler.bus.message import Message
    from hostler.bus.reader import MessageFilter
    from hostler.web.client.connection import ServiceConnection


ProjectOption = Annotated[
    str, typer.Option(metavar="PROJECT", help="Project [default: that of the current run].")
]
TaskOption = Annotated[
    str,
    typer.Option(
        metavar="TASK",
        help="Task [default: that of the current run; with --project: the project's own bus].",
    ),
]
TypesOption = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Only messages of this type (repeatable)."),
]
SinceOption = Annotated[str, typer.Option(metavar="ID", help="Only messages after this one.")]
_DEFAULT_LAST = 20

commands = CommandGroup(
    "bus",
    """Post, read and follow messages of tasks and projects.

    \b
    Example:
      hostler bus read --task 20260301-101500-stable-tidy-up
    """,
)


def register_bus(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.command()
def post(
    context: typer.Context,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Message; - reads standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the message.")
    ] = None,
    type_: Annotated[
        str,
        typer.Option(
            "--type", metavar="TYPE", help="Message type [default: FACT in a run, else USER]."
        ),
    ] = "",
    thread: Annotated[
        str, typer.Option(metavar="ID", help="Message that this one replies to.")
    ] = "",
    project: ProjectOption = "",
    task: TaskOption = "",
    create: Annotated[
        bool, typer.Option("--create", help="Create the bus if it does not exist.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Post a message on the bus of a task or project.

    The sender is the current run, or you outside a run. An agent sees messages only if it runs
    `hostler bus read`. Types: FACT, PROGRESS, DECISION, QUESTION, ERROR, WARNING, INFO, REVIEW,
    and USER (people only).

    \b
    Examples:
      hostler bus post "The parser keeps empty lines now."
      hostler bus post --type QUESTION "Should old files be converted, or rejected?"
      hostler bus post --task 20260301-235958-stable-12-bugfix --thread ID "Rejected."
      hostler bus post --project stable --file notes.md
    """
    from hostler.bus.bus import current_sender
    from hostler.bus.writer import BusOptions
    from hostler.cli.commands.bus_messages import default_type, parse_type, read_body
    from hostler.clock import SystemClock
    from hostler.service.running.bus_messages import BusMessageDraft, BusPoster

    sender = current_sender(os.environ)
    chosen = parse_type(type_) if type_ else default_type(sender)
    location = _find_bus(context, project, task, may_be_new=create)
    options = BusOptions.of(load_settings(global_options(context)).settings.tasks)
    body = read_body(text, file, sys.stdin)
    draft = BusMessageDraft(location.project, location.task, chosen, body, thread, create)
    poster = BusPoster(location.home, SystemClock(), options, sender)

    def remote(line: ServiceConnection) -> Mapping[str, Any]:
        from hostler.web.client.commands import RemoteBuses

        return RemoteBuses(line).post(draft)

    stored = call_service_or_local(context, remote, lambda: poster.post(draft), by=sender.name)
    if json:
        print_json({"bus": str(location.path), **stored})
    else:
        print_line(f"Posted {stored['id']} ({stored['type']}) to {location}.")


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

    location = _find_bus(context, project, task)
    bus = _open_bus(location)
    wanted, after = _build_filter(bus, types, thread), parse_id(since)
    page = bus.since(after, wanted) if since or thread else bus.tail(last or _DEFAULT_LAST, wanted)
    page = MessagePage(page.messages[-(last or len(page)) :], page.skipped)
    _mark_read(location, page)
    if json:
        messages = [message.stored() for message in page]
        print_json({"bus": str(location.path), "messages": messages, "skipped": page.skipped})
        return
    for message in page:
        print_line(format_message(message))
    if not page.messages:
        print_note(f"The bus of {location} has no such messages.")
    _note_skipped(page.skipped)


@commands.command()
def follow(
    context: typer.Context,
    since: Annotated[
        str, typer.Option(metavar="ID", help="Start after this message [default: now].")
    ] = "",
    types: TypesOption = None,
    project: ProjectOption = "",
    task: TaskOption = "",
    json: JsonOption = False,
) -> None:
    """Show messages as they are posted, until Ctrl-C.

    With --json, prints one object per line.

    \b
    Examples:
      hostler bus follow --task 20260301-235958-stable-12-bugfix
      hostler bus follow --project stable --since 20260301-120000-123456 --json
    """
    from hostler.cli.commands.bus_messages import format_json_line, format_message, parse_id

    location = _find_bus(context, project, task)
    bus = _open_bus(location)
    wanted, after = _build_filter(bus, types, ""), parse_id(since) or None
    messages = bus.follow(after)
    print_note(f"Following the bus of {location}. Press Ctrl-C to stop.")
    for message in messages:
        if wanted(message):
            _mark_read(location, [message])
            print_line(format_json_line(message) if json else format_message(message))
            sys.stdout.flush()


@commands.command()
def stats(
    context: typer.Context,
    project: ProjectOption = "",
    task: TaskOption = "",
    json: JsonOption = False,
) -> None:
    """Show statistics of the bus of a task or project: messages, sizes, contention, damage.

    \b
    Example:
      hostler bus stats --project stable
    """
    from dataclasses import asdict

    from hostler.cli.commands.bus_messages import format_count

    location = _find_bus(context, project, task)
    facts = {"bus": str(location.path), **asdict(_open_bus(location).stats())}
    if json:
        print_json(facts)
        return
    for name, value in facts.items():
        print_line(f"{name.replace('_', ' '):<16}  {format_count(value)}")


def _find_bus(
    context: typer.Context, project: str, task: str, *, may_be_new: bool = False
) -> BusLocation:
    from hostler.bus.bus import resolve_location
    from hostler.cli.commands.bus_messages import missing_bus_error

    location = resolve_location(global_options(context).home_folder, os.environ, project, task)
    if not location.exists and not may_be_new:
        raise missing_bus_error(location)
    return location


def _open_bus(location: BusLocation) -> Bus:
    from hostler.bus.bus import Bus

    return Bus(location.path)


def _build_filter(bus: Bus, types: list[str] | None, thread: str) -> MessageFilter:
    from hostler.cli.commands.bus_messages import find_thread, parse_type

    kinds = {parse_type(name) for name in types or []}
    root = find_thread(bus, thread) if thread else ""

    def wanted(message: Message) -> bool:
        return (not kinds or message.type in kinds) and (not root or message.thread_id == root)

    return wanted


def _mark_read(location: BusLocation, messages: Iterable[Message]) -> None:
    """Record that this run's agent has seen these messages of its own task."""
    from hostler.bus.bus import record_shown

    folder = os.environ.get("HOSTLER_RUN_DIR", "")
    if folder and location.task and location.task == os.environ.get("HOSTLER_TASK"):
        for message in messages:
            record_shown(Path(folder), message)


def _note_skipped(count: int) -> None:
    if count:
        print_note(
            f"Skipped {count:,} line{'s' if count > 1 else ''} that {'are' if count > 1 else 'is'} "
            "not a message."
        )
