"""`hostler done` and `hostler ask`: how an agent tells its run how it went."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hostler.cli.output import say, say_json
from hostler.errors import HostlerError

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
# More than any text of a result may have, in bytes.
LARGEST_BODY = 1024 * 1024


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(done)
    app.command()(ask)


def done(
    summary: Annotated[str, typer.Option(help="What was done, for people.")] = "",
    title: Annotated[str, typer.Option(help="Title of the pull request.")] = "",
    body_file: Annotated[
        Path | None,
        typer.Option(help="File with the pull request's description; - reads standard input."),
    ] = None,
    commit_message: Annotated[
        str, typer.Option(help="Message for what is not committed yet.")
    ] = "",
    reply: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=TEXT", help="Answer to a comment, by its number; repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Say that the work of this run is done. For agents, inside a run.

    Writes the run's result.json; a later word replaces an earlier one.

    \b
    Examples:
      hostler done --summary "The parser keeps empty lines."
      hostler done --title "Keep empty lines" --body-file notes.md
      hostler done --reply 1042="Renamed." --reply 1043="Good idea, done."
    """
    from hostler.agents.saying import replies

    body = "" if body_file is None else _read(body_file)
    words = {
        "status": "done",
        "summary": summary,
        "pr_title": title,
        "pr_body": body,
        "commit_message": commit_message,
        "replies": replies(reply or []),
    }
    _write(words, as_json=json)


def ask(
    question: Annotated[str, typer.Argument(help="What a person must answer.")],
    blocked: Annotated[
        bool, typer.Option("--blocked", help="The work cannot go on; the text says why.")
    ] = False,
    json: Json = False,
) -> None:
    """Ask a person a question, and end the work until it is answered. For agents, inside a run.

    Writes the run's result.json; a later word replaces an earlier one.

    \b
    Examples:
      hostler ask "Shall old files be converted, or refused?"
      hostler ask --blocked "The tests need a licence that is not here."
    """
    status = "blocked" if blocked else "needs_input"
    _write({"status": status, "question": question}, as_json=json)


def _write(words: Mapping[str, Any], *, as_json: bool) -> None:
    from hostler.agents.saying import say as write

    path, result = write(os.environ, words)
    if as_json:
        say_json({"written": str(path), **result.model_dump(mode="json")})
    else:
        say(f"Noted: {result.status} ({path}). End your program now.")


def _read(path: Path) -> str:
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(LARGEST_BODY + 1)
        else:
            with path.open("rb") as file:
                data = file.read(LARGEST_BODY + 1)
        return data.decode("utf-8")
    except OSError as error:
        why = error.strerror or str(error)
    except UnicodeDecodeError:
        why = "it is not text in UTF-8"
    raise HostlerError(f"{path} cannot be read: {why}.", safe="Nothing was written.")
