"""Asking before something that cannot be undone."""

from __future__ import annotations

import sys

import typer

from hostler.cli.output import note
from hostler.errors import HostlerError


def confirm(question: str) -> None:
    """Go on only with a yes. Without a terminal nobody can be asked, and that is said."""
    if not sys.stdin.isatty():
        raise HostlerError(
            "There is no terminal to ask on.", safe="Nothing was changed.", remedy="Use --yes."
        )
    if not typer.confirm(question, err=True):
        note("Nothing was changed.")
        raise typer.Exit(1)
