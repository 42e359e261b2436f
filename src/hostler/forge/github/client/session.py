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
# Pauses before a read is tried again; their number bounds the tries.
RETRY_PAUSES = (0.5, 2.0)


class GitHubSession:
    """One repository's client. `repository_id` is its number once known, 0 before."""

    def __init__(
        self,
        wire: HttpTransport,
        credentials: Credentials,
        repo: RepoName,
        clock: Clock,
        pauses: tuple[float, ...] = RETRY_PAUSES,
        *,
        urgent: bool = False,
    ) -> None:
        """`urgent`: for whoever writes; its reads go before those of polls."""
        self.wire = wire
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
        """The account that our writes appear under."""
        return self._credentials.login()

    def path(self, rest: str = "") -> str:
        """A path below the repository."""
        return f"/repos/{self.repo}/{rest}".rstrip("/")

    def read(self, path: str, *, etag: str = "", **query: Any) -> ApiAnswer:
        """Read something; tried a few times if GitHub fails or cannot be reached."""
        given = {name: str(value) for name, value in query.items() if value is not None}
        url = self.wire.absolute(path)
        if given:
            url += ("&" if urlsplit(url).query else "?") + urlencode(given)
        request = ApiRequest("GET", url, etag=etag, urgent=self._urgent)
        for pause in self._pauses:
            try:
                return self._authorised(request)
            except (ServerFailed, Unreachable):
                if pause:
                    self._clock.wakeup().wait(pause)
        return self._authorised(request)

    def write(self, method: str, path: str, body: Any = None) -> ApiAnswer:
        """Change something. Sent once: what became of an unclear one is the caller's question."""
        return self._authorised(ApiRequest(method, self.wire.absolute(path), body))

    def stored(self, path: str) -> str:
        """The end of a text that GitHub keeps elsewhere: it tells where, and that needs no token.

        That address is a secret for a while, and is named to nobody.
        """
        request = ApiRequest("GET", self.wire.absolute(path), urgent=self._urgent, stored=True)
        answer = self._authorised(request)
        return self.wire.tail(answer.redirect, request.words)

    def learn(self) -> ApiAnswer:
        """Read the repository itself, and with it the number that a rename leaves alone."""
        answer = self.read(self.path())
        self.repository_id = payloads.parse_number(answer.data)
        return answer

    def _authorised(self, request: ApiRequest) -> ApiAnswer:
        bearer = self._credentials.bearer(self.repo)
        try:
            return self._deliver(self._signed(request, bearer))
        except Unauthorized:
            # Nothing was done, so that even a write may be sent again with a better token.
            if not self._credentials.renew(bearer):
                raise
        return self._deliver(self._signed(request, self._credentials.bearer(self.repo)))

    def _signed(self, request: ApiRequest, bearer: str) -> ApiRequest:
        account = self._credentials.account(self.repo)
        self.wire.budget.pays(account, self.repo)
        return replace(request, bearer=bearer, account=account)

    def _deliver(self, request: ApiRequest) -> ApiAnswer:
        number = 0
        learning = request.method == "GET" and urlsplit(request.url).path.endswith(self.path())
        for _ in range(MAX_REDIRECTS):
            self.requests += 1
            answer = self.wire.send(request)
            self.budget = answer.budget
            if not answer.redirect or answer.status == FOUND_STATUS:
                return replace(answer, repository_id=number)
            number = self._target(request, answer)
            if not learning:
                self._require_ours(request, answer, number)
            self.renamed = True
            request = replace(request, url=answer.redirect)
        raise redirect_target(request.words, answer.status, answer.redirect)

    def _target(self, request: ApiRequest, answer: ApiAnswer) -> int:
        """The number of the repository that we are sent to, on our own host."""
        number = repository_in_path(urlsplit(answer.redirect).path)
        if number is None or not self.wire.is_ours(answer.redirect):
            raise redirect_target(request.words, answer.status, answer.redirect)
        return number

    def _require_ours(self, request: ApiRequest, answer: ApiAnswer, number: int) -> None:
        """Raise for another repository: a transferred issue is sent there, and only that tells."""
        if not self.repository_id:
            self.learn()
        if number != self.repository_id:
            raise redirect_target(request.words, answer.status, answer.redirect)
