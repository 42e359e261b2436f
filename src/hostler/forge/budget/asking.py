"""Asking GitHub for an account's limit: the one question that costs nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hostler.forge import payloads
from hostler.forge.wire import Request

if TYPE_CHECKING:
    from hostler.forge.opening import Hub
    from hostler.model import RepoName

# GitHub's moments are numbers; beyond this one they are nonsense.
LAST_MOMENT = 2**33


@dataclass(frozen=True, slots=True)
class Limit:
    """What an account has of the hour; `reset` is GitHub's moment."""

    account: str
    limit: int
    remaining: int
    reset: datetime


def ask_limits(hub: Hub, repos: Iterable[RepoName]) -> list[Limit]:
    """The limits of all accounts that pay for some repositories. Raises `ForgeError`."""
    found: dict[str, Limit] = {}
    for repo in repos:
        bearer = hub.credentials.bearer(repo)
        account = hub.credentials.account(repo)
        if account not in found:
            # Named for nobody: what is free is not counted.
            request = Request("GET", hub.wire.absolute("/rate_limit"), bearer=bearer)
            found[account] = _limit(hub.wire.send(request).data, account)
    return list(found.values())


@payloads.strict
def _limit(data: payloads.Payload, account: str) -> Limit:
    core = data["resources"]["core"]
    reset = datetime.fromtimestamp(min(int(core["reset"]), LAST_MOMENT), UTC)
    return Limit(account, int(core["limit"]), int(core["remaining"]), reset)
