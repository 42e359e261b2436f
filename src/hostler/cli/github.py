"""`hostler github`: what it costs to watch repositories there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.output import GREEN, YELLOW, coloured, note, say, say_json
from hostler.cli.state import Globals, globals_of, settings_of
from hostler.errors import StoreMissing

if TYPE_CHECKING:
    from hostler.config import Settings
    from hostler.forge.budget.costs import Case, Cost, Plan

commands = typer.Typer(
    name="github",
    help="Look at what GitHub allows, and what of it is used.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.callback()
def github() -> None:
    """Look at what GitHub allows, and what of it is used.

    \b
    Example:
      hostler github cost
    """


@commands.command()
def cost(
    context: typer.Context,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask GitHub for the account's real limit (free).")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show what these settings cost of GitHub's limits: now, and in the worst case.

    Now: the repositories as they are stored, while nothing changes. Worst case: all are active,
    everything changes at every poll, and we write as fast as we may. Needs no service, and asks
    GitHub nothing without --ask. What does not fit is polled less often.

    \b
    Example:
      hostler github cost
      hostler github cost --ask --json
    """
    from hostler.forge.budget.costs import USUAL_LIMIT

    given = globals_of(context)
    settings = settings_of(given).settings
    limit, remaining = _asked(settings) if ask and settings.repo else (USUAL_LIMIT, None)
    plan, followed = _planned(given, settings, limit)
    if json:
        say_json(_as_json(plan, settings, followed, limit, remaining))
    else:
        _as_text(plan, settings, followed, limit, remaining)


def _planned(given: Globals, settings: Settings, limit: int) -> tuple[Plan, list[int]]:
    """The plan, and how many pull requests of each repository are followed."""
    from hostler.forge.budget.setups import planned, watched
    from hostler.store import open_store

    try:
        store = open_store(given.home_folder, settings.runtime.database_url or None)
    except StoreMissing:
        note("There is no database yet: every repository counts as idle.")
        return planned(settings, None, limit), [0] * len(settings.repo)
    try:
        with store.read() as tx:
            followed = [repo.followed for repo in watched(settings, tx)]
            return planned(settings, tx, limit), followed
    finally:
        store.close()


def _asked(settings: Settings) -> tuple[int, int]:
    """The limit of the account that has least, and what is left of it. Raises `ForgeError`."""
    from contextlib import closing

    from hostler.forge import open_hub
    from hostler.forge.budget.asking import ask_limits
    from hostler.model import RepoName

    repos = [RepoName(repo.owner, repo.name) for repo in settings.repo.values()]
    with closing(open_hub(settings.github)) as hub:
        least = min(ask_limits(hub, repos), key=lambda found: found.limit)
    return least.limit, least.remaining


def _as_text(
    plan: Plan, settings: Settings, followed: list[int], limit: int, remaining: int | None
) -> None:
    active = sum(count > 0 for count in followed)
    left = "" if remaining is None else f", {remaining:,} of them left"
    say(f"repositories    {len(followed)}: {active} active, {len(followed) - active} idle")
    say(f"polled          every {settings.runtime.poll_interval_seconds} s")
    share = settings.github.budget_percent
    say(f"account         {limit:,} requests an hour{left}; {share} % may be used")
    say()
    say(f"{'':<16}{'now':>12}{'worst case':>14}{'may be used':>14}")
    for words, name, room in (
        ("requests/hour", "requests_per_hour", ""),
        ("of the hour", "primary_per_hour", f"{plan.room.primary_per_hour:,}"),
        ("points/minute", "points_per_minute", f"{plan.room.points_per_minute:,}"),
    ):
        now, worst = getattr(plan.now.total, name), getattr(plan.worst.total, name)
        say(f"{words:<16}{_number(now):>12}{_number(worst):>14}{room:>14}".rstrip())
    say()
    _say_verdict(plan)
    if settings.runtime.enable_incremental_comment_fetch is not True:
        say("Whole threads are read besides, which costs more the longer they are.")


def _say_verdict(plan: Plan) -> None:
    if not plan.now.fits:
        say(coloured(f"This does not fit: {_stretched(plan.now)}. Any of these would do:", YELLOW))
        for line in plan.advice:
            say(f"  {line}")
    elif not plan.worst.fits:
        say(coloured("This fits now.", GREEN))
        say(coloured(f"The worst case would not fit: {_stretched(plan.worst)}.", YELLOW))
    else:
        say(coloured("This fits, even in the worst case.", GREEN))


def _stretched(case: Case) -> str:
    from hostler.forge.budget.stretching import MOST_STRETCH, active_stretch, idle_stretch

    idle = idle_stretch(case.stretch)
    rest = ", and the rest waits for room" if case.stretch > MOST_STRETCH else ""
    active = f"active ones {active_stretch(idle):.1f} times"
    return f"idle repositories are polled up to {idle:.1f} times less often, {active}{rest}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def _as_json(
    plan: Plan, settings: Settings, followed: list[int], limit: int, remaining: int | None
) -> dict[str, Any]:
    return {
        "repositories": len(followed),
        "active": sum(count > 0 for count in followed),
        "poll_interval_seconds": settings.runtime.poll_interval_seconds,
        "budget_percent": settings.github.budget_percent,
        "limit": limit,
        "remaining": remaining,
        "now": _case_as_json(plan.now),
        "worst": _case_as_json(plan.worst),
        "may_be_used": {
            "primary_per_hour": plan.room.primary_per_hour,
            "points_per_minute": plan.room.points_per_minute,
        },
        "advice": list(plan.advice),
    }


def _case_as_json(case: Case) -> dict[str, Any]:
    return {
        **_cost_as_json(case.total),
        "polls": _cost_as_json(case.polls),
        "writes": _cost_as_json(case.writes),
        "stretch": round(case.stretch, 3),
        "fits": case.fits,
    }


def _cost_as_json(cost: Cost) -> dict[str, float]:
    return {
        "requests_per_hour": round(cost.requests_per_hour, 3),
        "primary_per_hour": round(cost.primary_per_hour, 3),
        "points_per_minute": round(cost.points_per_minute, 3),
    }
