"""Help without parsing: `hostler db backup --help` need not convert a single option.

Typer loads its validation library to convert options, which takes longer than all the rest. A
plain request for help, names and then `--help`, converts nothing, so it is answered here.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer
from typer.main import get_command


def quick_help(app: typer.Typer, arguments: Sequence[str]) -> str | None:
    """The help text that these arguments ask for, or None if they ask for anything else."""
    *names, last = arguments or [""]
    if last not in {"--help", "-h"}:
        return None
    command = get_command(app)
    context = typer.Context(command, info_name="hostler", **command.context_settings)
    for name in names:
        found = getattr(command, "commands", {}).get(name)
        if found is None:
            return None
        command = found
        context = typer.Context(command, info_name=name, parent=context, **command.context_settings)
    return command.get_help(context)
