"""Requests about one repository: credentials, redirects and retries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode, urlsplit

from hostler.clock import Clock
from hostler.errors import ServerFailed, Unauthorized, Unreachable
from hostler.forge.github import payloads
from hostler.forge.github.client.credentials import Credentials
from hostler.forge.github.client.transport import (
    FOUND_STATUS,
    ApiAnswer,
    ApiRequest,
    HttpTransport,
    redirect_target,
    repository_in_path,
)
from hostler.forge.github.rate_limit.limits import RateLimitBudget
from hostler.model import RepoName

MAX_REDIRECTS = 3
# Pauses before a read is retried; their number limits the retries.
RETRY_PAUSES = (0.5, 2.0)


class GitHubSession:
    """One repository's client. `repository_id` is its id once known, 0 before."""

    def __init__(
        self,
        transport: HttpTransport,
        credentials: Credentials,
        repo: RepoName,
        clock: Clock,
        pauses: tuple[float, ...] = RETRY_PAUSES,
        *,
        urgent: bool = False,
    ) -> None:
        """`urgent`: for writes; its reads have priority over those of polls."""
        self.transport = transport
        self.repo = repo
        self.repository_id = 0
        # The repository answered under another name.
        self.renamed = False
        self.budget: RateLimitBudget | None = None
        self.requests = 0
        self._credentials = credentials
        self._clock = clock
        self._pauses = pauses
        self._urgent = urgent

    def login(self) -> str:
        """Return the account that our writes appear under."""
        return self._credentials.login()

    def path(self, rest: str = "") -> str:
        """Return a path below the repository."""
        return f"/repos/{self.repo}/{rest}".rstrip("/")

    def read(self, path: str, *, etag: str = "", **query: Any) -> ApiAnswer:
        """Read a URL; retry if GitHub fails or cannot be reached."""
        parameters = {name: str(value) for name, value in query.items() if value is not None}
        url = self.transport.absolute(path)
        if parameters:
            url += ("&" if urlsplit(url).query else "?") + urlencode(parameters)
        request = ApiRequest("GET", url, etag=etag, urgent=self._urgent)
        for pause in self._pauses:
            try:
                return self._send_with_login(request)
            except (ServerFailed, Unreachable):
                if pause:
                    self._clock.wakeup().wait(pause)
        return self._send_with_login(request)

    def write(self, method: str, path: str, body: Any = None) -> ApiAnswer:
        """Send a write once: the caller decides after an unclear result."""
        return self._send_with_login(ApiRequest(method, self.transport.absolute(path), body))

    def read_log(self, path: str) -> str:
        """Return the end of a log. GitHub redirects to a URL that needs no token.

        That URL is a secret for a while, and is not logged.
        """
        request = ApiRequest(
            "GET", self.transport.absolute(path), urgent=self._urgent, expects_redirect=True
        )
        answer = self._send_with_login(request)
        return self.transport.download_tail(answer.redirect, request.description)

    def read_repository(self) -> ApiAnswer:
        """Read the repository itself, and its id, which a rename does not change."""
        answer = self.read(self.path())
        self.repository_id = payloads.parse_number(answer.data)
        return answer

    def _send_with_login(self, request: ApiRequest) -> ApiAnswer:
        bearer = self._credentials.get_secret(self.repo)
        try:
            return self._follow_redirects(self._with_account(request, bearer))
        except Unauthorized:
            # Nothing was done, so even a write may be sent again with a better token.
            if not self._credentials.renew(bearer):
                raise
        return self._follow_redirects(
            self._with_account(request, self._credentials.get_secret(self.repo))
        )

    def _with_account(self, request: ApiRequest, bearer: str) -> ApiRequest:
        account = self._credentials.account(self.repo)
        self.transport.budget.set_payer(account, self.repo)
        return replace(request, bearer=bearer, account=account)

    def _follow_redirects(self, request: ApiRequest) -> ApiAnswer:
        repository_id = 0
        is_repository_read = request.method == "GET" and urlsplit(request.url).path.endswith(
            self.path()
        )
        for _ in range(MAX_REDIRECTS):
            self.requests += 1
            answer = self.transport.send(request)
            self.budget = answer.budget
            if not answer.redirect or answer.status == FOUND_STATUS:
                return replace(answer, repository_id=repository_id)
            repository_id = self._redirected_repository(request, answer)
            if not is_repository_read:
                self._require_same_repository(request, answer, repository_id)
            self.renamed = True
            request = replace(request, url=answer.redirect)
        raise redirect_target(request.description, answer.status, answer.redirect)

    def _redirected_repository(self, request: ApiRequest, answer: ApiAnswer) -> int:
        """Return the repository id in a redirect to our own host."""
        repository_id = repository_in_path(urlsplit(answer.redirect).path)
        if repository_id is None or not self.transport.is_ours(answer.redirect):
            raise redirect_target(request.description, answer.status, answer.redirect)
        return repository_id

    def _require_same_repository(
        self, request: ApiRequest, answer: ApiAnswer, repository_id: int
    ) -> None:
        """Raise for another repository: a transferred issue redirects there."""
        if not self.repository_id:
            self.read_repository()
        if repository_id != self.repository_id:
            raise redirect_target(request.description, answer.status, answer.redirect)
