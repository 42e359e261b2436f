"""`hostler agents`: the programs that do the work, and how their ends are judged."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hostler.cli.output import say, say_json

commands = typer.Typer(
    name="agents",
    help="The programs that do the work, and how their ends are judged.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Kind(StrEnum):
    """Kinds of agents that have a stream."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    COMMAND = "command"
    SCRIPTED = "scripted"


class Ended(StrEnum):
    """Why we ended a run."""

    STOP = "stop"
    WALL_TIMEOUT = "wall_timeout"
    STALL = "stall"


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.callback()
def agents() -> None:
    """The programs that do the work, and how their ends are judged.

    \b
    Example:
      hostler agents classify --kind claude --stdout stdout --stderr stderr --exit-code 1
    """


@commands.command()
def classify(
    kind: Annotated[Kind, typer.Option("--kind", help="Which program printed it.")],
    stdout: Annotated[
        Path | None, typer.Option("--stdout", help="File with its standard output.")
    ] = None,
    stderr: Annotated[
        Path | None, typer.Option("--stderr", help="File with its standard error.")
    ] = None,
    exit_code: Annotated[
        int | None, typer.Option("--exit-code", help="Its exit code; of a signal, negative.")
    ] = None,
    ended_by: Annotated[
        Ended | None, typer.Option("--ended-by", help="If Hostler ended it: why.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Explain the verdict on a recorded run, from its streams and its exit code.

    The files are `stdout` and `stderr` of a run's folder. If the verdict is wrong, this is what
    to report. Needs no home; nothing is written.

    \b
    Example:
      hostler agents classify --kind claude --stdout stdout --stderr stderr --exit-code 1
      hostler agents classify --kind codex --stdout out.jsonl --exit-code -15 --ended-by stall
    """
    from hostler.agents.classify import classify as judged
    from hostler.agents.classify import recorded
    from hostler.agents.kinds import KINDS
    from hostler.agents.verdict import EndedBy

    by = EndedBy(ended_by.value) if ended_by else EndedBy.EXIT
    found = judged(KINDS[kind.value], recorded(stdout, stderr), exit_code, by)
    if json:
        say_json(found.as_json())
        return
    told = found.as_json()
    say(f"{told['outcome']}, decided by {told['decided_by']}: {told['why']}")
    say(f"  next       {told['next']}")
    for name in ("resets_at", "retry_after_seconds", "session"):
        if told[name]:
            say(f"  {name.replace('_', ' '):<10} {told[name]}")
    spent = told["usage"]
    tokens = f"{spent['input_tokens']} in, {spent['output_tokens']} out"
    say(f"  tokens     {tokens}, {spent['cached_tokens']} from a cache; {spent['usd']:.4f} USD")
