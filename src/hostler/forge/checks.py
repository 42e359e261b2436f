"""Doctor checks: GitHub answers, knows us, lets us work; and what we ask of it fits its limits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostler.errors import (
    ConfigError,
    CredentialsMissing,
    ForgeError,
    NotFound,
    RateLimited,
    Refused,
    StoreError,
)
from hostler.forge.outbox import checks as _outbox  # noqa: F401 - it registers its own
from hostler.health import Context, Finding, Status, check
from hostler.model import RepoName

if TYPE_CHECKING:
    from hostler.config.settings import Settings
    from hostler.forge.budget import Standing
    from hostler.forge.budget.costs import Plan
    from hostler.forge.opening import Hub

NAME, COST = "github", "github.cost"
# Less than this of our share of the hour is worth a word.
LOW_PERCENT = 10
# More than this between our clock and GitHub's puzzles people who read logs.
MOST_SKEW = 30.0


@check(NAME, quick=False)
def github_answers(context: Context) -> Iterator[Finding]:
    """Ask GitHub who we are and what we may do."""
    from hostler.config.load import load
    from hostler.forge.opening import open_hub

    try:
        settings = load(context.home, context.config_path).settings
    except ConfigError:
        return  # the check "settings" reports what is wrong
    if not settings.repo:
        yield Finding(NAME, Status.SKIPPED, "no repository is configured")
        return
    try:
        hub = open_hub(settings.github, context.clock)
    except CredentialsMissing as error:
        yield Finding(NAME, Status.FAILED, error.what, error.remedy)
        return
    try:
        yield from _ask(hub, settings, context)
    except RateLimited as error:
        what = "GitHub refuses us" if error.status else "our share is spent"
        evidence = f"{what} ({error.limit} limit) until {error.until:%H:%M:%S} UTC"
        remedy = "Nothing is asked before then. `hostler github cost` shows what we ask for."
        yield Finding(NAME, Status.WARNING, evidence, remedy)
    except ForgeError as error:
        yield Finding(NAME, Status.FAILED, error.what, error.remedy)
    finally:
        hub.close()


def _ask(hub: Hub, settings: Settings, context: Context) -> Iterator[Finding]:
    yield Finding(NAME, Status.OK, f"{settings.github.api_url} knows us as {_login(hub)}")
    skew = (context.clock.now() - hub.wire.now()).total_seconds()
    if abs(skew) > MOST_SKEW:
        evidence = f"this machine's clock differs from GitHub's by {skew:.0f} s"
        yield Finding(NAME, Status.WARNING, evidence, "Set the clock (NTP).")
    found: list[Finding] = []
    for repo in settings.repo.values():
        name = RepoName(repo.owner, repo.name)
        found += [*_repository(hub, name), *_operations(hub, name, repo.operations_issue_number)]
    for standing in hub.budget.standings():
        yield from _budget(hub, standing)
    yield from found


def _login(hub: Hub) -> str:
    return hub.credentials.login()


def _repository(hub: Hub, name: RepoName) -> Iterator[Finding]:
    # Urgent: where polls have to wait, a person still wants to know why.
    forge = hub.urgent(name)
    try:
        found = forge.repository()
    except NotFound:
        remedy = "Look at its name, and whether the token or App may see it."
        yield Finding(NAME, Status.FAILED, f"{name}: there is no such repository for us", remedy)
        return
    if found.name != name:
        remedy = f'Write owner = "{found.name.owner}", name = "{found.name.name}".'
        yield Finding(NAME, Status.WARNING, f"{name} is now called {found.name}", remedy)
    if not found.can_push:
        remedy = "Give the token or App the rights to push and to open pull requests."
        yield Finding(NAME, Status.FAILED, f"{name}: we may not push", remedy)
        return
    yield Finding(NAME, Status.OK, f"{name}: we may push")


def _operations(hub: Hub, name: RepoName, number: int) -> Iterator[Finding]:
    """The issue that takes commands is there, and open."""
    if not number:
        return
    remedy = "Set operations_issue_number to an open issue, or to 0."
    try:
        issue = hub.urgent(name).issue(number)
    except Refused:
        evidence = f"{name}#{number}, the operations issue, is not there for us"
        yield Finding(NAME, Status.WARNING, evidence, remedy)
        return
    if issue.state != "open":
        evidence = f"{name}#{number}, the operations issue, is {issue.state}"
        yield Finding(NAME, Status.WARNING, evidence, remedy)


def _budget(hub: Hub, standing: Standing) -> Iterator[Finding]:
    if standing.limit is None or standing.remaining is None or standing.resets_at is None:
        yield Finding(NAME, Status.OK, f"{standing.account}: no limit of requests is named")
        return
    share = hub.budget.caps.share(standing.limit)
    ours = max(standing.remaining - (standing.limit - share), 0)
    evidence = (
        f"{standing.account}: {standing.remaining:,} of {standing.limit:,} requests are left "
        f"until {standing.resets_at:%H:%M:%S} UTC"
    )
    if ours * 100 < share * LOW_PERCENT:
        remedy = (
            "Polls wait for the reset. See who else uses this token, and `hostler github cost`."
        )
        evidence += f", {ours:,} of them for us"
        yield Finding(NAME, Status.WARNING, evidence, remedy)
    else:
        yield Finding(NAME, Status.OK, evidence)


@check(COST)
def polls_fit(context: Context) -> Iterator[Finding]:
    """Does what we are to watch fit GitHub's limits?"""
    from hostler.config.load import load

    try:
        settings = load(context.home, context.config_path).settings
    except ConfigError:
        return  # the check "settings" reports what is wrong
    if not settings.repo:
        yield Finding(COST, Status.SKIPPED, "no repository is configured")
        return
    plan = _plan(context, settings)
    quiet, may = plan.now.total, plan.room
    evidence = (
        f"{quiet.points_per_minute:,.0f} of {may.points_per_minute:,} points a minute, "
        f"{quiet.primary_per_hour:,.0f} of {may.primary_per_hour:,} requests an hour "
        "while nothing changes"
    )
    if not plan.now.fits:
        evidence += f": polls stretch {plan.now.stretch:.1f} times"
        yield Finding(COST, Status.WARNING, evidence, plan.advice[0] if plan.advice else "")
    elif not plan.worst.fits:
        evidence += f"; in the worst case polls stretch {plan.worst.stretch:.1f} times"
        yield Finding(COST, Status.OK, evidence)
    else:
        yield Finding(COST, Status.OK, evidence)


def _plan(context: Context, settings: Settings) -> Plan:
    """By the stored state where it can be read; else as if every repository were idle."""
    from hostler.forge.budget.setups import planned
    from hostler.store import open_store
    from hostler.store.engine.backend import URL_VARIABLE

    url = os.environ.get(URL_VARIABLE) or settings.runtime.database_url or None
    try:
        store = open_store(context.home, url, clock=context.clock)
    except StoreError:
        return planned(settings, None)
    try:
        with store.read() as tx:
            return planned(settings, tx)
    finally:
        store.close()
