"""`hostler task wait`: until tasks are at rest. Inside a run, its place is lent meanwhile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from hostler.cli.output import note, say, say_json
from hostler.cli.task import Json, Opened, Those, opened

if TYPE_CHECKING:
    from hostler.service.resting import Rested


def register(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command()(wait)


def wait(
    context: typer.Context,
    tasks: Those,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Wait no longer than this [default: no end]."),
    ] = None,
    any_: Annotated[bool, typer.Option("--any", help="Until one of them is at rest.")] = False,
    json: Json = False,
) -> None:
    """Wait until tasks are at rest: done, in review, over, or in need of a person.

    Inside a run, the run's place is lent while it waits, and had again before this returns: no
    cap can keep those that it waits for from starting. Exit code 0: all are done or await their
    review; 1: one failed or was stopped; 3: a person is needed; 75: the time is over.

    \b
    Example:
      hostler task wait 20260301-101500-stable-tidy-up
      hostler task wait "$FIRST" "$SECOND" --any --timeout 600
    """
    from hostler.service.naming import tasks_meant

    with opened(context) as house:
        with house.store.read() as tx:
            names = [task.id for task in tasks_meant(tx, tasks)]
        wait_for_end(house, names, seconds=timeout, one=any_, json=json)


def wait_for_end(
    house: Opened,
    names: list[str],
    *,
    seconds: float | None = None,
    one: bool = False,
    json: bool,
) -> NoReturn:
    """Wait, say what they came to, and end with its code."""
    from hostler.governor import read_policy
    from hostler.service.lending import wait_for
    from hostler.service.presence import presence
    from hostler.service.resting import code_of

    found = presence(house.home)
    if not found.takes_tasks:
        note(found.sentence())
    run = os.environ.get("HOSTLER_RUN", "")
    enough = any if one else all
    policy = read_policy(house.home, house.settings)
    rested = wait_for(house.store, house.clock, names, run, seconds, note, enough, policy)
    _say(rested, json=json)
    raise typer.Exit(code_of(rested))


def _say(found: list[Rested], *, json: bool) -> None:
    from hostler.service.following import sentence

    if json:
        say_json(
            [
                {
                    "id": one.task.id,
                    "state": one.task.state.value,
                    "reason": one.task.reason,
                    "question": one.task.question or None,
                    "stuck": [blocker.sentence for blocker in one.stuck],
                }
                for one in found
            ]
        )
        return
    for one in found:
        say(sentence(one.task))
        for blocker in one.stuck:
            say(f"  It can never start: {blocker.sentence} {blocker.remedy}".rstrip())
