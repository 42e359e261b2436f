"""`hostler github cost`: compare polling with GitHub's rate limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.context import GlobalOptions, global_options, load_settings
from hostler.cli.output import GREEN, YELLOW, colourise, print_json, print_line, print_note
from hostler.errors import StoreMissing

if TYPE_CHECKING:
    from hostler.config.settings import Settings
    from hostler.forge.github.rate_limit.cost_model import CostCase, CostPlan, PollingCost


commands = typer.Typer(
    name="github",
    help="Look at what GitHub allows, and what of it is used.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register_github(app: typer.Typer) -> None:
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
    from hostler.forge.github.rate_limit.cost_model import USUAL_HOURLY_LIMIT

    given = global_options(context)
    settings = load_settings(given).settings
    limit, remaining = (
        _read_limits(settings) if ask and settings.repo else (USUAL_HOURLY_LIMIT, None)
    )
    plan, followed = _build_plan(given, settings, limit)
    if json:
        print_json(_plan_json(plan, settings, followed, limit, remaining))
    else:
        _print_plan(plan, settings, followed, limit, remaining)


def _build_plan(given: GlobalOptions, settings: Settings, limit: int) -> tuple[CostPlan, list[int]]:
    """The plan, and how many pull requests of each repository are followed."""
    from hostler.forge.github.rate_limit.cost_model import list_watched_repositories, plan_setup
    from hostler.store import open_store

    try:
        store = open_store(given.home_folder, settings.runtime.database_url or None)
    except StoreMissing:
        print_note("There is no database yet: every repository counts as idle.")
        return plan_setup(settings, None, limit), [0] * len(settings.repo)
    try:
        with store.read() as tx:
            followed = [repo.followed for repo in list_watched_repositories(settings, tx)]
            return plan_setup(settings, tx, limit), followed
    finally:
        store.close()


def _read_limits(settings: Settings) -> tuple[int, int]:
    """The limit of the account that has least, and what is left of it. Raises `ForgeError`."""
    from contextlib import closing

    from hostler.forge.github.hub import open_github, read_rate_limits
    from hostler.model import RepoName

    repos = [RepoName(repo.owner, repo.name) for repo in settings.repo.values()]
    with closing(open_github(settings.github)) as hub:
        least = min(read_rate_limits(hub, repos), key=lambda found: found.limit)
    return least.limit, least.remaining


def _print_plan(
    plan: CostPlan, settings: Settings, followed: list[int], limit: int, remaining: int | None
) -> None:
    active = sum(count > 0 for count in followed)
    left = "" if remaining is None else f", {remaining:,} of them left"
    print_line(f"repositories    {len(followed)}: {active} active, {len(followed) - active} idle")
    print_line(f"polled          every {settings.runtime.poll_interval_seconds} s")
    share = settings.github.budget_percent
    print_line(f"account         {limit:,} requests an hour{left}; {share} % may be used")
    print_line()
    print_line(f"{'':<16}{'now':>12}{'worst case':>14}{'may be used':>14}")
    for words, name, room in (
        ("requests/hour", "requests_per_hour", ""),
        ("of the hour", "primary_per_hour", f"{plan.allowance.primary_per_hour:,}"),
        ("points/minute", "points_per_minute", f"{plan.allowance.points_per_minute:,}"),
    ):
        now, worst = getattr(plan.now.total, name), getattr(plan.worst.total, name)
        print_line(
            f"{words:<16}{_format_number(now):>12}{_format_number(worst):>14}{room:>14}".rstrip()
        )
    print_line()
    _print_verdict(plan)
    if settings.runtime.enable_incremental_comment_fetch is not True:
        print_line("Whole threads are read besides, which costs more the longer they are.")


def _print_verdict(plan: CostPlan) -> None:
    if not plan.now.fits:
        print_line(
            colourise(
                f"This does not fit: {_describe_stretch(plan.now)}. Any of these would do:", YELLOW
            )
        )
        for line in plan.advice:
            print_line(f"  {line}")
    elif not plan.worst.fits:
        print_line(colourise("This fits now.", GREEN))
        print_line(
            colourise(f"The worst case would not fit: {_describe_stretch(plan.worst)}.", YELLOW)
        )
    else:
        print_line(colourise("This fits, even in the worst case.", GREEN))


def _describe_stretch(case: CostCase) -> str:
    from hostler.forge.github.rate_limit.limits import MAX_STRETCH, active_stretch, idle_stretch

    idle = idle_stretch(case.stretch)
    rest = ", and the rest waits for room" if case.stretch > MAX_STRETCH else ""
    active = f"active ones {active_stretch(idle):.1f} times"
    return f"idle repositories are polled up to {idle:.1f} times less often, {active}{rest}"


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def _plan_json(
    plan: CostPlan, settings: Settings, followed: list[int], limit: int, remaining: int | None
) -> dict[str, Any]:
    return {
        "repositories": len(followed),
        "active": sum(count > 0 for count in followed),
        "poll_interval_seconds": settings.runtime.poll_interval_seconds,
        "budget_percent": settings.github.budget_percent,
        "limit": limit,
        "remaining": remaining,
        "now": _case_json(plan.now),
        "worst": _case_json(plan.worst),
        "may_be_used": {
            "primary_per_hour": plan.allowance.primary_per_hour,
            "points_per_minute": plan.allowance.points_per_minute,
        },
        "advice": list(plan.advice),
    }


def _case_json(case: CostCase) -> dict[str, Any]:
    return {
        **_cost_json(case.total),
        "polls": _cost_json(case.polls),
        "writes": _cost_json(case.writes),
        "stretch": round(case.stretch, 3),
        "fits": case.fits,
    }


def _cost_json(cost: PollingCost) -> dict[str, float]:
    return {
        "requests_per_hour": round(cost.requests_per_hour, 3),
        "primary_per_hour": round(cost.primary_per_hour, 3),
        "points_per_minute": round(cost.points_per_minute, 3),
    }
