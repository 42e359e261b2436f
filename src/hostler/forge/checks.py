"""Checks of `hostler doctor`: GitHub's answers and limits, and the state of the outbox."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
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
from hostler.health import CheckContext, CheckStatus, Finding, check
from hostler.model import RepoName, format_timestamp, parse_timestamp
from hostler.store.outbox import Failure, StandingWrites, standing_writes

if TYPE_CHECKING:
    from hostler.config.settings import Settings
    from hostler.forge.github.hub import GitHubHub
    from hostler.forge.github.rate_limit.accounts import AccountStatus
    from hostler.forge.github.rate_limit.cost_model import CostPlan


OUTBOX_CHECK = "outbox"
# How long a failure is reported.
RECENT_WRITES_PERIOD = timedelta(days=7)
# A write that is not sent after this time needs attention.
SLOW_WRITE_AGE = timedelta(minutes=15)
MAX_SHOWN_WRITES = 3


@check(OUTBOX_CHECK)
def writes_go_out(context: CheckContext) -> Iterator[Finding]:
    """Was a write to GitHub given up, or does one wait for long?"""
    found = _check_outbox(context)
    if found is None:
        yield Finding(OUTBOX_CHECK, CheckStatus.SKIPPED, "settings or database cannot be read")
        return
    now, writes = found
    slow = writes.oldest is not None and now - parse_timestamp(writes.oldest) > SLOW_WRITE_AGE
    if writes.failed:
        failures = "; ".join(map(_describe_write, writes.newest))
        days = RECENT_WRITES_PERIOD.days
        evidence = f"{writes.failed} write(s) given up in the last {days} days: {failures}"
        remedy = "Fix the cause, then do the missing writes by hand."
        yield Finding(OUTBOX_CHECK, CheckStatus.WARNING, evidence, remedy)
    if slow:
        evidence = f"{writes.waiting} write(s) are waiting, the oldest since {writes.oldest}"
        remedy = "Check that the service runs and GitHub answers: see `hostler status` and the log."
        yield Finding(OUTBOX_CHECK, CheckStatus.WARNING, evidence, remedy)
    if not writes.failed and not slow:
        yield Finding(
            OUTBOX_CHECK, CheckStatus.OK, f"{writes.waiting} write(s) queued, none given up"
        )


def _describe_write(failure: Failure) -> str:
    where = f"{failure.repo_full_name}#{failure.scope_number}"
    return f"{failure.kind} on {where}: {failure.why.rstrip('.') or 'no reason given'}"


def _check_outbox(context: CheckContext) -> tuple[datetime, StandingWrites] | None:
    from hostler.config.loader import load_settings
    from hostler.errors import ConfigError, StoreError
    from hostler.store.engine.backend import URL_VARIABLE
    from hostler.store.store import open_store

    try:
        settings = load_settings(context.home, context.config_path).settings
        url = os.environ.get(URL_VARIABLE) or settings.runtime.database_url or None
        store = open_store(context.home, url, clock=context.clock)
    except (ConfigError, StoreError):
        return None
    try:
        with store.read() as tx:
            now = tx.now()
            return now, standing_writes(
                tx, format_timestamp(now - RECENT_WRITES_PERIOD), MAX_SHOWN_WRITES
            )
    finally:
        store.close()


GITHUB_CHECK, COST = "github", "github.cost"
# Less than this percentage of our share is reported.
LOW_REMAINING_PERCENT = 10
# A larger difference between our clock and GitHub's makes logs confusing.
MAX_CLOCK_SKEW = 30.0


@check(GITHUB_CHECK, quick=False)
def github_answers(context: CheckContext) -> Iterator[Finding]:
    """Ask GitHub who we are and what we may do."""
    from hostler.config.loader import load_settings
    from hostler.forge.github.hub import open_github

    try:
        settings = load_settings(context.home, context.config_path).settings
    except ConfigError:
        return  # the check "settings" reports what is wrong
    if not settings.repo:
        yield Finding(GITHUB_CHECK, CheckStatus.SKIPPED, "no repository is configured")
        return
    try:
        hub = open_github(settings.github, context.clock)
    except CredentialsMissing as error:
        yield Finding(GITHUB_CHECK, CheckStatus.FAILED, error.what, error.remedy)
        return
    try:
        yield from _check_hub(hub, settings, context)
    except RateLimited as error:
        what = "GitHub refuses requests" if error.status else "our share is used up"
        evidence = f"{what} ({error.limit} limit) until {error.until:%H:%M:%S} UTC"
        remedy = "No request is sent before then. `hostler github cost` shows the requests."
        yield Finding(GITHUB_CHECK, CheckStatus.WARNING, evidence, remedy)
    except ForgeError as error:
        yield Finding(GITHUB_CHECK, CheckStatus.FAILED, error.what, error.remedy)
    finally:
        hub.close()


def _check_hub(hub: GitHubHub, settings: Settings, context: CheckContext) -> Iterator[Finding]:
    yield Finding(
        GITHUB_CHECK, CheckStatus.OK, f"{settings.github.api_url} login: {_check_login(hub)}"
    )
    skew = (context.clock.now() - hub.transport.now()).total_seconds()
    if abs(skew) > MAX_CLOCK_SKEW:
        evidence = f"this machine's clock differs from GitHub's by {skew:.0f} s"
        yield Finding(GITHUB_CHECK, CheckStatus.WARNING, evidence, "Set the clock (NTP).")
    found: list[Finding] = []
    for repo in settings.repo.values():
        name = RepoName(repo.owner, repo.name)
        found += [
            *_check_repository(hub, name),
            *_check_operations_issue(hub, name, repo.operations_issue_number),
        ]
    for status in hub.budget.list_statuses():
        yield from _check_rate_limit(hub, status)
    yield from found


def _check_login(hub: GitHubHub) -> str:
    return hub.credentials.login()


def _check_repository(hub: GitHubHub, name: RepoName) -> Iterator[Finding]:
    # Urgent: it must work even while polls have to wait.
    forge = hub.urgent(name)
    try:
        found = forge.repository()
    except NotFound:
        remedy = "Check its name, and the access of the token or App."
        yield Finding(GITHUB_CHECK, CheckStatus.FAILED, f"{name}: not found, or no access", remedy)
        return
    if found.name != name:
        remedy = f'Write owner = "{found.name.owner}", name = "{found.name.name}".'
        yield Finding(
            GITHUB_CHECK, CheckStatus.WARNING, f"{name} is now called {found.name}", remedy
        )
    if not found.can_push:
        remedy = "Give the token or App the rights to push and to open pull requests."
        yield Finding(GITHUB_CHECK, CheckStatus.FAILED, f"{name}: no permission to push", remedy)
        return
    yield Finding(GITHUB_CHECK, CheckStatus.OK, f"{name}: push is permitted")


def _check_operations_issue(hub: GitHubHub, name: RepoName, number: int) -> Iterator[Finding]:
    """Check that the issue for commands exists and is open."""
    if not number:
        return
    remedy = "Set operations_issue_number to an open issue, or to 0."
    try:
        issue = hub.urgent(name).issue(number)
    except Refused:
        evidence = f"{name}#{number}, the operations issue, does not exist, or access is denied"
        yield Finding(GITHUB_CHECK, CheckStatus.WARNING, evidence, remedy)
        return
    if issue.state != "open":
        evidence = f"{name}#{number}, the operations issue, is {issue.state}"
        yield Finding(GITHUB_CHECK, CheckStatus.WARNING, evidence, remedy)


def _check_rate_limit(hub: GitHubHub, status: AccountStatus) -> Iterator[Finding]:
    if status.limit is None or status.remaining is None or status.resets_at is None:
        yield Finding(GITHUB_CHECK, CheckStatus.OK, f"{status.account}: no rate limit is reported")
        return
    share = hub.budget.caps.share(status.limit)
    own_share = max(status.remaining - (status.limit - share), 0)
    evidence = (
        f"{status.account}: {status.remaining:,} of {status.limit:,} requests are left "
        f"until {status.resets_at:%H:%M:%S} UTC"
    )
    if own_share * 100 < share * LOW_REMAINING_PERCENT:
        remedy = (
            "Polls wait for the reset. See who else uses this token, and `hostler github cost`."
        )
        evidence += f", {own_share:,} of them for us"
        yield Finding(GITHUB_CHECK, CheckStatus.WARNING, evidence, remedy)
    else:
        yield Finding(GITHUB_CHECK, CheckStatus.OK, evidence)


@check(COST)
def polls_fit(context: CheckContext) -> Iterator[Finding]:
    """Does what we are to watch fit GitHub's limits?"""
    from hostler.config.loader import load_settings

    try:
        settings = load_settings(context.home, context.config_path).settings
    except ConfigError:
        return  # the check "settings" reports what is wrong
    if not settings.repo:
        yield Finding(COST, CheckStatus.SKIPPED, "no repository is configured")
        return
    plan = _plan_polls(context, settings)
    quiet, may = plan.now.total, plan.allowance
    evidence = (
        f"{quiet.points_per_minute:,.0f} of {may.points_per_minute:,} points a minute, "
        f"{quiet.primary_per_hour:,.0f} of {may.primary_per_hour:,} requests an hour "
        "while nothing changes"
    )
    if not plan.now.fits:
        evidence += f": polls stretch {plan.now.stretch:.1f} times"
        yield Finding(COST, CheckStatus.WARNING, evidence, plan.advice[0] if plan.advice else "")
    elif not plan.worst.fits:
        evidence += f"; in the worst case polls stretch {plan.worst.stretch:.1f} times"
        yield Finding(COST, CheckStatus.OK, evidence)
    else:
        yield Finding(COST, CheckStatus.OK, evidence)


def _plan_polls(context: CheckContext, settings: Settings) -> CostPlan:
    """Plan by the stored state if it can be read; else as if every repository were idle."""
    from hostler.forge.github.rate_limit.cost_model import plan_setup
    from hostler.store import open_store
    from hostler.store.engine.backend import URL_VARIABLE

    url = os.environ.get(URL_VARIABLE) or settings.runtime.database_url or None
    try:
        store = open_store(context.home, url, clock=context.clock)
    except StoreError:
        return plan_setup(settings, None)
    try:
        with store.read() as tx:
            return plan_setup(settings, tx)
    finally:
        store.close()
