"""`hostler task answer`: the answer to a question of a task by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hostler.cli.doing import with_tasks
from hostler.cli.output import say, say_json
from hostler.cli.task import Json, Which


def register(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command()(answer)


def answer(
    context: typer.Context,
    task: Which,
    text: Annotated[str | None, typer.Argument(help="The answer; - reads standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="File with the answer.")] = None,
    json: Json = False,
) -> None:
    """Answer the question of a task by hand; it goes on in its session.

    Questions of tasks from GitHub are answered there, with a comment.

    \b
    Example:
      hostler task answer 20260301-101500-stable-tidy-up "Leave the tests as they are."
    """
    from hostler.cli.prompts import text_of
    from hostler.flows.commands import LONGEST_ANSWER

    said = text_of(text, file, sys.stdin, LONGEST_ANSWER, "the answer")
    queued = with_tasks(context, lambda to: to.answer(task, said))
    if json:
        say_json({"id": queued.id, "state": queued.state.value, "reason": queued.reason})
    else:
        say(f"{queued.id} is queued again, with your answer.")
