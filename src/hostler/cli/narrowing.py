"""Only the command that is asked for: Typer reads the signature of every command it is given.

With all of them, that takes longer than most commands themselves.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import typer
from typer.main import get_command_name
from typer.models import CommandInfo, TyperInfo

# Options of the root command that are followed by a value.
VALUED = frozenset({"--home", "--config"})


def narrowed(app: typer.Typer, arguments: Sequence[str]) -> typer.Typer:
    """Return the program with only the command that these arguments name.

    Return all of it if they name none: then the others are listed or suggested.
    """
    named = named_words(arguments)
    return _only(app, named[0], named[1:]) if named else app


def _only(app: typer.Typer, name: str, rest: Sequence[str]) -> typer.Typer:
    """Return a group with one command or group of it; all of it if it has none of that name."""
    groups = [info for info in app.registered_groups if _group_name(info) == name]
    commands = [info for info in app.registered_commands if _command_name(info) == name]
    if not groups + commands:
        return app
    less = copy.copy(app)
    less.registered_groups = [_narrowed_group(info, rest) for info in groups]
    less.registered_commands = commands
    return less


def _narrowed_group(info: TyperInfo, rest: Sequence[str]) -> TyperInfo:
    # A group has no options but --help, so the name of its command comes first or not at all.
    if info.typer_instance is None or not rest:
        return info
    less = copy.copy(info)
    less.typer_instance = _only(info.typer_instance, rest[0], rest[1:])
    return less


def named_words(arguments: Sequence[str]) -> Sequence[str]:
    """Return the word that names the command, and all after it.

    What follows an option of the root is no name.
    """
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        place += 2 if arguments[place] in VALUED else 1
    return arguments[place:]


def _group_name(info: TyperInfo) -> str | None:
    given = info.name or (info.typer_instance and info.typer_instance.info.name)
    return given if isinstance(given, str) else None


def _command_name(info: CommandInfo) -> str | None:
    return info.name or (get_command_name(info.callback.__name__) if info.callback else None)
