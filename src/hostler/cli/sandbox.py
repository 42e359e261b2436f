"""`hostler sandbox`: a GitHub of your own, to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.output import as_json, emit, note

if TYPE_CHECKING:
    from hostler.sandbox.hosting import Welcome


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(sandbox)


def sandbox(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 takes a free one.")
    ] = 0,
    state: Annotated[
        Path | None,
        typer.Option(help="File that keeps everything: read at start, written at the end."),
    ] = None,
    seed: Annotated[
        Path | None,
        typer.Option(help="JSON file of users and repositories to begin with (docs/sandbox.md)."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Serve a strict local GitHub: API, webhooks and git, on this machine only.

    It keeps GitHub's rules and limits, and makes faults on demand. Stop it with Ctrl-C.
    A state file that exists already wins over a seed.

    \b
    Examples:
      hostler sandbox
      hostler sandbox --port 8080 --state work.json
      hostler sandbox --seed team.json --json
    """
    from hostler.sandbox.hosting import host

    host(port, state, seed, _as_json if json else _as_text)
    if state is not None:
        note(f"Saved to {state}.")


def _as_json(welcome: Welcome) -> None:
    from dataclasses import asdict

    emit(as_json(asdict(welcome)))
    _flush()


# Its tokens open nothing but this sandbox, and are there to be shown.


def _as_text(welcome: Welcome) -> None:
    emit(f"A GitHub of your own listens at {welcome.url} (Ctrl-C ends it)\n")
    emit("Users and their tokens:")
    width = max(map(len, welcome.tokens), default=0)
    for login, token in welcome.tokens.items():
        emit(f"  {login:<{width}}  {token}")
    if welcome.tokens and welcome.repos:
        _hints(welcome)
    _flush()


def _hints(welcome: Welcome) -> None:
    login, token = next(iter(welcome.tokens.items()))
    repo = welcome.repos[0]
    where = welcome.url.removeprefix("http://")
    emit("\nTry:")
    emit(f"  git clone http://{login}:{token}@{where}/{repo}.git")
    emit(f"  curl -H 'Authorization: Bearer {token}' {welcome.url}/repos/{repo}/issues")


def _flush() -> None:
    import sys

    sys.stdout.flush()
