"""`hostler pause | unpause | stop-all`: everything at once."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from hostler.cli.confirming import confirm
from hostler.cli.doing import with_holds
from hostler.cli.output import note, say, say_json
from hostler.cli.task import Json, Why, opened
from hostler.cli.task_states import say_changed
from hostler.cli.who import who


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(pause)
    app.command()(unpause)
    app.command("stop-all")(stop_all)


def pause(context: typer.Context, why: Why = "", json: Json = False) -> None:
    """Start nothing new, on no repository and in no folder; agents at work go on.

    `hostler repo pause` does the same for one repository.

    \b
    Example:
      hostler pause --why "the laptop is on battery"
    """
    from hostler.store.operator import ALL

    found = with_holds(context, lambda to: to.pause(ALL, why), make=True)
    held, changed = found.held, found.changed
    if json:
        say_json({"changed": changed, "since": held.since, "by": held.by, "why": held.why})
        return
    reason = f": {held.why}" if held.why else "."
    already = "" if changed else "already "
    say(f"Everything is {already}paused, since {held.since} by {held.by}{reason}")


def unpause(context: typer.Context, json: Json = False) -> None:
    """Lift the pause of everything; pauses of single repositories stay.

    \b
    Example:
      hostler unpause
    """
    from hostler.errors import StoreMissing
    from hostler.store.operator import ALL

    changed, left = False, list[str]()
    with suppress(StoreMissing):
        changed, left = with_holds(context, lambda to: to.unpause(ALL))
    if json:
        say_json({"changed": changed, "still_paused": left})
        return
    say("Work goes on." if changed else "Everything was not paused.")
    for scope in left:
        say(f"Still paused: {scope.removeprefix('project:')} (`hostler repo unpause` lifts it)")


def stop_all(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    why: Why = "",
    json: Json = False,
) -> None:
    """Stop every task that runs or would start by itself; agents at work are ended.

    New issues and new tasks still begin; `hostler pause` holds those back.

    \b
    Example:
      hostler stop-all
      hostler stop-all --yes --why "the key leaked"
    """
    from hostler.service.stopping import MOVING, Stopper
    from hostler.store.tasks import tasks_in

    with opened(context) as house:
        with house.store.read() as tx:
            count = len(tasks_in(tx, MOVING))
        if count and not yes:
            confirm(f"Stop {count} task{'s' if count != 1 else ''}, and end their agents?")
        grace = float(house.settings.runtime.stop_grace_seconds)
        reason = " ".join(why.split())
        stopper = Stopper(house.home, house.store, house.clock, grace, who(), reason)
        changed = stopper.stop_everything()
    say_changed(changed, json=json)
    if not changed:
        note("Nothing runs, and nothing waits to.")
