"""`hostler agents`: the programs that do the work, and how their ends are judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.output import say, say_json
from hostler.cli.state import globals_of, settings_of

if TYPE_CHECKING:
    from hostler.config.settings import Agent
    from hostler.service.examining import Listed

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

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
    """Add the commands of this group."""
    from hostler.cli import agents_try

    agents_try.register(commands)
    app.add_typer(commands)


@commands.callback()
def agents() -> None:
    """The programs that do the work, and how their ends are judged.

    \b
    Example:
      hostler agents list
      hostler agents check
      hostler agents try claude
    """


@commands.command("list")
def list_all(context: typer.Context, json: Json = False) -> None:
    """Show the agents of the settings: kind, model, pool, program and version.

    Each program is asked for its version, and nothing else.

    \b
    Example:
      hostler agents list
      hostler agents list --json
    """
    import os
    from dataclasses import asdict

    from hostler.service.examining import listed

    settings = settings_of(globals_of(context)).settings
    with scratch_folder() as folder:
        found = list(listed(settings, os.environ, folder))
    if json:
        say_json({"agents": [asdict(one) for one in found]})
    elif not found:
        say("The settings name no agent. Add one: [agent.<name>] with its `kind`.")
    for one in found if not json else ():
        say("\n".join(_lines(one)))


def _lines(one: Listed) -> list[str]:
    from hostler.cli.looks import labelled

    where = one.path or (f"{one.program}: missing" if one.program else "a part of Hostler")
    facts = {
        "kind": one.kind,
        "model": one.model,
        "pool": one.pool,
        "program": where,
        "version": one.version,
        "fallback": one.fallback,
    }
    told = [line for label, text in facts.items() if text for line in labelled(label, text)]
    return [one.name, *told]


@commands.command()
def check(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Which agent [default: all].")
    ] = None,
    json: Json = False,
) -> None:
    """Check whether agents can work: program, version, login, environment, fallback.

    Nothing is spent: programs are asked only what they answer by themselves. What cannot be
    known is said to be not known. Exit code 1: at least one cannot work.

    \b
    Example:
      hostler agents check
      hostler agents check claude --json
    """
    import os
    from dataclasses import asdict

    from hostler.cli.doctor import show
    from hostler.health import Finding, Status
    from hostler.service.examining import examine

    settings = settings_of(globals_of(context)).settings
    names = [known(settings.agent, name)] if name else list(settings.agent)
    found: dict[str, list[Finding]] = {}
    for one in names:
        with scratch_folder() as folder:
            found[one] = list(examine(settings, one, os.environ, folder))
        for finding in found[one] if not json else ():
            show(finding, one)
    if json:
        told = {name: [asdict(finding) for finding in every] for name, every in found.items()}
        say_json({"agents": told})
    elif not found:
        say("The settings name no agent.")
    if any(one.status is Status.FAILED for every in found.values() for one in every):
        raise typer.Exit(1)


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
    json: Json = False,
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
    from hostler.agents.classify import recorded, recorded_at
    from hostler.agents.kinds import KINDS
    from hostler.agents.verdict import EndedBy

    by = EndedBy(ended_by.value) if ended_by else EndedBy.EXIT
    lines, said_at = recorded(stdout, stderr), recorded_at(stdout)
    found = judged(KINDS[kind.value], lines, exit_code, by, said_at)
    if json:
        say_json(found.as_json())
        return
    for line in verdict_lines(found.as_json()):
        say(line)


def verdict_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """How a run was judged, for people."""
    yield f"{told['outcome']}, decided by {told['decided_by']}: {told['why']}"
    yield f"  next       {told['next']}"
    for name in ("resets_at", "retry_after_seconds", "session"):
        if told[name]:
            yield f"  {name.replace('_', ' '):<10} {told[name]}"
    spent = told["usage"]
    tokens = f"{spent['input_tokens']} in, {spent['output_tokens']} out"
    yield f"  tokens     {tokens}, {spent['cached_tokens']} from a cache; {spent['usd']:.4f} USD"


def known(agents: Mapping[str, Agent], name: str) -> str:
    """The name of an agent of the settings, or a clear refusal."""
    if name in agents:
        return name
    from hostler.errors import HostlerError

    names = ", ".join(agents) or "none; add [agent.<name>] to the settings"
    refused = HostlerError(f"There is no agent {name[:80]!r}.", remedy=f"There are: {names}.")
    refused.exit_code = 2
    raise refused


@contextmanager
def scratch_folder(*, keep: bool = False) -> Iterator[Path]:
    """An empty folder of our own, gone afterwards."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="hostler-agents-")).resolve()
    (folder / "checkout").mkdir()
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
