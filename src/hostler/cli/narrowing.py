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
    """The program without the commands that these arguments leave alone.

    All of it, if they name none: then the others are listed or suggested.
    """
    name = asked_for(arguments)
    groups = [info for info in app.registered_groups if _group_name(info) == name]
    commands = [info for info in app.registered_commands if _command_name(info) == name]
    if name is None or not groups + commands:
        return app
    less = copy.copy(app)
    less.registered_groups, less.registered_commands = groups, commands
    return less


def asked_for(arguments: Sequence[str]) -> str | None:
    """The word that names the command; what follows an option of the root is no name."""
    words = iter(arguments)
    for word in words:
        if word in VALUED:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def _group_name(info: TyperInfo) -> str | None:
    given = info.name or (info.typer_instance and info.typer_instance.info.name)
    return given if isinstance(given, str) else None


def _command_name(info: CommandInfo) -> str | None:
    return info.name or (get_command_name(info.callback.__name__) if info.callback else None)
