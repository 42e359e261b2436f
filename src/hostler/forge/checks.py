"""Doctor check: GitHub answers, knows us, and lets us work on every repository."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostler.errors import ConfigError, CredentialsMissing, ForgeError, NotFound
from hostler.health import Context, Finding, Status, check
from hostler.model import RepoName

if TYPE_CHECKING:
    from hostler.config.settings import Settings
    from hostler.forge.limits import Budget
    from hostler.forge.opening import Hub

NAME = "github"
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
    for repo in settings.repo.values():
        yield from _repository(hub, RepoName(repo.owner, repo.name))


def _login(hub: Hub) -> str:
    return hub.credentials.login()


def _repository(hub: Hub, name: RepoName) -> Iterator[Finding]:
    forge = hub.repo(name)
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
    yield Finding(NAME, Status.OK, f"{name}: we may push; {_budget(forge.cost().budget)}")


def _budget(budget: Budget | None) -> str:
    remaining = budget.remaining if budget else None
    return "no limit is named" if remaining is None else f"{remaining:,} requests left this hour"
