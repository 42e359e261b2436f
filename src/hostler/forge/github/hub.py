"""Connect to GitHub: one connection and login for all repositories, and their permissions."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hostler.clock import Clock, SystemClock
from hostler.config.settings import GitHub as Settings
from hostler.errors import Forbidden, ForgeError, NotFound, Unauthorized
from hostler.forge.github import payloads
from hostler.forge.github.client.credentials import Credentials, open_credentials
from hostler.forge.github.client.repository import GitHubRepository
from hostler.forge.github.client.session import RETRY_PAUSES, GitHubSession
from hostler.forge.github.client.transport import ApiRequest, HttpTransport
from hostler.forge.github.rate_limit.accounts import MAX_WAIT, RateLimitAccounts
from hostler.forge.github.rate_limit.limits import RequestCaps
from hostler.forge.port import RepositoryInfo
from hostler.model import RepoName

if TYPE_CHECKING:
    from hostler.model import RepoName


class GitHubHub:
    """GitHub according to the settings. Close it to release its connections."""

    def __init__(
        self,
        transport: HttpTransport,
        credentials: Credentials,
        clock: Clock,
        pauses: tuple[float, ...] = RETRY_PAUSES,
    ) -> None:
        self.transport = transport
        self.credentials = credentials
        self.budget = transport.budget
        self._clock = clock
        self._pauses = pauses
        self._lock = threading.Lock()
        self._repos: dict[tuple[RepoName, bool], GitHubRepository] = {}

    def repo(self, name: RepoName) -> GitHubRepository:
        """Return one repository; the same object for the same name."""
        return self._repo(name, urgent=False)

    def urgent(self, name: RepoName) -> GitHubRepository:
        """Return the repository for writes: its reads may use the share reserved for writes."""
        return self._repo(name, urgent=True)

    def close(self) -> None:
        """Close all connections and stop all waiting."""
        self.transport.close()

    def _repo(self, name: RepoName, *, urgent: bool) -> GitHubRepository:
        with self._lock:
            if (name, urgent) not in self._repos:
                session = GitHubSession(
                    self.transport, self.credentials, name, self._clock, self._pauses, urgent=urgent
                )
                self._repos[name, urgent] = GitHubRepository(session)
            return self._repos[name, urgent]


def open_github(
    settings: Settings, clock: Clock | None = None, *, pauses: tuple[float, ...] = RETRY_PAUSES
) -> GitHubHub:
    """Return GitHub according to the settings. Nothing is sent before the first call."""
    clock = clock or SystemClock()
    transport = HttpTransport(
        settings.api_url,
        clock,
        api_version=settings.api_version,
        timeout=float(settings.request_timeout_seconds),
        budget=RateLimitAccounts(clock, RequestCaps(percent=settings.budget_percent), MAX_WAIT),
    )
    try:
        return GitHubHub(transport, open_credentials(settings, transport), clock, pauses)
    except BaseException:
        transport.close()
        raise


_NOTHING_CHANGED = "Nothing was changed."
_LOGIN_HINT = "Give Hostler a valid token: `hostler doctor` shows what it finds."
_PERMISSION_HINT = (
    "Give the token or App the right to write: Contents, Issues and Pull requests "
    "(a classic token: the scope `repo`), and its account write access there."
)


@dataclass(frozen=True, slots=True)
class RepositoryAccess:
    """A repository that we may push to, and our login."""

    login: str
    repository: RepositoryInfo


def read_repository_access(hub: GitHubHub, name: RepoName) -> RepositoryAccess:
    """Ask GitHub for our access. Raise a clear error if a permission is missing."""
    login = ""
    try:
        login = hub.credentials.login()
        found = hub.repo(name).repository()
    except ForgeError as error:
        raise _explain_error(error, name, login) from error
    if not found.can_push:
        raise ForgeError(
            f"{login} may not push to {found.name}.", safe=_NOTHING_CHANGED, remedy=_PERMISSION_HINT
        )
    return RepositoryAccess(login, found)


def _explain_error(error: ForgeError, name: RepoName, login: str) -> ForgeError:
    """Return the error with a message for a user at a terminal."""
    if isinstance(error, Unauthorized):
        what = f"GitHub rejected the token: {error.message}."
        return ForgeError(what, safe=_NOTHING_CHANGED, remedy=_LOGIN_HINT)
    if isinstance(error, Forbidden):
        what = f"GitHub denied access to {name}: {error.message}."
        return ForgeError(what, safe=_NOTHING_CHANGED, remedy=_PERMISSION_HINT)
    if isinstance(error, NotFound):
        what = f"{name} does not exist on GitHub, or {login or 'this App'} may not see it."
        remedy = "Check the spelling, and the access of the token or App."
        return ForgeError(what, safe=_NOTHING_CHANGED, remedy=remedy)
    error.safe = _NOTHING_CHANGED
    return error


# Larger timestamps are invalid.
MAX_TIMESTAMP = 2**33


@dataclass(frozen=True, slots=True)
class RateLimitAnswer:
    """The hourly limit of an account; `reset` is GitHub's time."""

    account: str
    limit: int
    remaining: int
    reset: datetime


def read_rate_limits(hub: GitHubHub, repos: Iterable[RepoName]) -> list[RateLimitAnswer]:
    """Return the limits of all accounts that pay for some repositories. Raises `ForgeError`."""
    found: dict[str, RateLimitAnswer] = {}
    for repo in repos:
        bearer = hub.credentials.get_secret(repo)
        account = hub.credentials.account(repo)
        if account not in found:
            # Without an account: this request is free and is not counted.
            request = ApiRequest("GET", hub.transport.absolute("/rate_limit"), bearer=bearer)
            found[account] = _parse_limit(hub.transport.send(request).data, account)
    return list(found.values())


@payloads.strict_parser
def _parse_limit(data: payloads.Payload, account: str) -> RateLimitAnswer:
    core = data["resources"]["core"]
    reset = datetime.fromtimestamp(min(int(core["reset"]), MAX_TIMESTAMP), UTC)
    return RateLimitAnswer(account, int(core["limit"]), int(core["remaining"]), reset)
