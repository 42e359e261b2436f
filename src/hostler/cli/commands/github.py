"""`hostler github cost`: compare polling with GitHub's rate limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.context import GlobalOptions, global_options, load_settings
from hostler.cli.help import CommandGroup
from hostler.cli.output import GREEN, YELLOW, colourise, print_json, print_line, print_note
from hostler.errors import StoreMissing

if TYPE_CHECKING:
    from hostler.config.settings import Settings
    from hostler.forge.github.rate_limit.cost_model import CostCase, CostPlan, PollingCost


commands = CommandGroup("github")


def register_github(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.callback()
def github() -> None:
    """Compare polling with GitHub's rate limits.

    \b
    Example:
      hostler github cost
    """


@commands.command()
def cost(
    context: typer.Context,
    ask: Annotated[
        bool, typer.Option("--ask", help="Query the account's actual limit (costs no request).")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how much of GitHub's rate limits these settings use, now and at worst.

    "now" assumes that nothing changes on GitHub. "worst case" assumes that all repositories are
    active, everything changes at every poll, and Hostler writes at its maximum rate. If the
    limits do not suffice, Hostler polls less often. Works offline except with --ask.

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
    """Return the plan, and the number of followed pull requests of each repository."""
    from hostler.forge.github.rate_limit.cost_model import list_watched_repositories, plan_setup
    from hostler.store import open_store

    try:
        store = open_store(given.home_folder, settings.runtime.database_url or None)
    except StoreMissing:
        print_note("No database yet: all repositories count as idle.")
        return plan_setup(settings, None, limit), [0] * len(settings.repo)
    try:
        with store.read() as tx:
            followed = [repo.followed for repo in list_watched_repositories(settings, tx)]
            return plan_setup(settings, tx, limit), followed
    finally:
        store.close()


def _read_limits(settings: Settings) -> tuple[int, int]:
    """Return the limit and the remaining requests of the account with the lowest limit.

    Raises ForgeError.
    """
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
    left = "" if remaining is None else f", {remaining:,} left"
    print_line(f"repositories    {len(followed)}: {active} active, {len(followed) - active} idle")
    print_line(f"polled          every {settings.runtime.poll_interval_seconds} s")
    share = settings.github.budget_percent
    print_line(f"account         {limit:,} requests per hour{left}; Hostler may use {share} %")
    print_line()
    print_line(f"{'':<16}{'now':>12}{'worst case':>14}{'allowed':>14}")
    for label, name, allowed in (
        ("requests/hour", "requests_per_hour", ""),
        ("counted/hour", "primary_per_hour", f"{plan.allowance.primary_per_hour:,}"),
        ("points/minute", "points_per_minute", f"{plan.allowance.points_per_minute:,}"),
    ):
        now, worst = getattr(plan.now.total, name), getattr(plan.worst.total, name)
        print_line(
            f"{label:<16}{_format_number(now):>12}{_format_number(worst):>14}{allowed:>14}".rstrip()
        )
    print_line()
    _print_verdict(plan)
    if settings.runtime.enable_incremental_comment_fetch is not True:
        print_line("Incremental fetching is off: whole threads are read, long ones cost more.")


def _print_verdict(plan: CostPlan) -> None:
    if not plan.now.fits:
        print_line(
            colourise(
                f"Over the limit: {_describe_stretch(plan.now)}. Any of these would help:", YELLOW
            )
        )
        for line in plan.advice:
            print_line(f"  {line}")
    elif not plan.worst.fits:
        print_line(colourise("Within the limits now.", GREEN))
        print_line(
            colourise(f"Over the limit in the worst case: {_describe_stretch(plan.worst)}.", YELLOW)
        )
    else:
        print_line(colourise("Within the limits, even in the worst case.", GREEN))


def _describe_stretch(case: CostCase) -> str:
    from hostler.forge.github.rate_limit.limits import MAX_STRETCH, active_stretch, idle_stretch

    idle = idle_stretch(case.stretch)
    rest = ", and further polls are delayed" if case.stretch > MAX_STRETCH else ""
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
