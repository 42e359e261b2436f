"""Log in to GitHub: with a token (variable or file), with `gh`, or as a GitHub App.

Secrets stay in memory, and the redactor knows each before its first use. Lifetimes of an App's
tokens are counted by GitHub's clock.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from hostler.config.settings import GitHub as Settings
from hostler.errors import CredentialsMissing
from hostler.forge.github import payloads
from hostler.forge.github.client.transport import ApiRequest, HttpTransport
from hostler.model import RepoName, parse_timestamp
from hostler.telemetry.redaction import register_secret

# GitHub permits ten minutes, and a clock that differs by one.
JWT_BACKDATE = timedelta(seconds=60)
JWT_LIFETIME = timedelta(minutes=9)
# A token is renewed this long before its end.
RENEWAL_MARGIN = timedelta(minutes=5)
_APP_REMEDY = "Check `github.app_id` and `github.app_private_key_file`."


@dataclass(frozen=True, slots=True)
class InstallationToken:
    """A token and its end, by GitHub's clock."""

    secret: str
    expires_at: datetime


class GitHubApp:
    """Credentials of an App; installation 0 means: find it by repository."""

    def __init__(
        self, transport: HttpTransport, app_id: int, key: str, installation_id: int = 0
    ) -> None:
        register_secret(key)
        self._transport = transport
        self._app_id = app_id
        self._key = key
        self._installation_id = installation_id
        self._lock = threading.Lock()
        self._installations: dict[RepoName, int] = {}
        self._tokens: dict[int, InstallationToken] = {}
        self._login = ""

    def get_secret(self, repo: RepoName) -> str:
        """Return the current token of the installation that covers a repository."""
        with self._lock:
            number = self._installation(repo)
            token = self._tokens.get(number)
            if token is None or self._transport.now() >= token.expires_at - RENEWAL_MARGIN:
                token = self._tokens[number] = self._request_token(number)
            return token.secret

    def renew(self, stale: str) -> bool:
        """Forget a rejected token; a new one can always be requested."""
        with self._lock:
            kept = {n: token for n, token in self._tokens.items() if token.secret != stale}
            self._tokens = kept
        return True

    def login(self) -> str:
        """Return the App's bot account."""
        if not self._login:
            self._login = f"{payloads.parse_word(self._request('GET', '/app'), 'slug')}[bot]"
        return self._login

    def account(self, repo: RepoName) -> str:
        """Return the installation that covers a repository."""
        with self._lock:
            return f"installation {self._installation(repo)}"

    def _installation(self, repo: RepoName) -> int:
        if self._installation_id:
            return self._installation_id
        if repo not in self._installations:
            found = self._request("GET", f"/repos/{repo}/installation")
            self._installations[repo] = payloads.parse_number(found)
        return self._installations[repo]

    def _request_token(self, installation: int) -> InstallationToken:
        data = self._request("POST", f"/app/installations/{installation}/access_tokens")
        secret = payloads.parse_word(data, "token")
        register_secret(secret)
        return InstallationToken(secret, _parse_expiry(data))

    def _request(self, method: str, path: str) -> Any:
        # A second token does no harm, so even the POST may be repeated.
        url, bearer = self._transport.absolute(path), self._jwt()
        account = f"app {self._app_id}"
        return self._transport.send(
            ApiRequest(method, url, bearer=bearer, safe=True, account=account, urgent=True)
        ).data

    def _jwt(self) -> str:
        # Imported here: its cryptography takes long to load, and few use Apps.
        import jwt

        now = self._transport.now()
        claims = {
            "iat": int((now - JWT_BACKDATE).timestamp()),
            "exp": int((now + JWT_LIFETIME).timestamp()),
            "iss": str(self._app_id),
        }
        try:
            signed = jwt.encode(claims, self._key, algorithm="RS256")
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            # The cause may quote the key.
            raise CredentialsMissing(
                "The App's private key cannot sign: it is not an RSA key in PEM format.",
                remedy=_APP_REMEDY,
            ) from (None if self._key in str(error) else error)
        register_secret(signed)
        return signed


@payloads.strict_parser
def _parse_expiry(data: payloads.Payload) -> datetime:
    return parse_timestamp(data["expires_at"])


def read_private_key(name: str) -> str:
    """Read the App's private key."""
    try:
        return Path(name).expanduser().read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise CredentialsMissing(
            f"The App's key {name or '(none named)'} cannot be read: {reason}.", remedy=_APP_REMEDY
        ) from error


GH_TIMEOUT_SECONDS = 15
_LOGIN_REMEDY = "Set GITHUB_TOKEN, name `github.token_file`, or log in with `gh auth login`."


class Credentials(Protocol):
    """How a client authenticates."""

    def get_secret(self, repo: RepoName) -> str:
        """Return the secret to send for a repository."""
        ...

    def renew(self, stale: str) -> bool:
        """Handle a rejected secret. Return whether there may be a better one now."""
        ...

    def login(self) -> str:
        """Return the account that our writes appear under."""
        ...

    def account(self, repo: RepoName) -> str:
        """Return who pays for requests about a repository, by a name without secrets."""
        ...


class StaticToken:
    """A token from a source that can be read again."""

    def __init__(self, transport: HttpTransport, source: Callable[[], str]) -> None:
        self._transport = transport
        self._source = source
        self._lock = threading.Lock()
        self._secret = ""
        self._last_secret = ""
        self._number = 0
        self._login = ""

    def get_secret(self, _repo: RepoName) -> str:
        return self._current_secret()

    def renew(self, stale: str) -> bool:
        with self._lock:
            if self._secret == stale:
                self._secret = ""
        return self._current_secret() != stale

    def login(self) -> str:
        if not self._login:
            url = self._transport.absolute("/user")
            bearer, account = self._current_secret(), self._account()
            # Writes wait for it as well.
            request = ApiRequest("GET", url, bearer=bearer, account=account, urgent=True)
            answer = self._transport.send(request)
            self._login = payloads.parse_word(answer.data, "login")
        return self._login

    def account(self, _repo: RepoName) -> str:
        return self._account()

    def _account(self) -> str:
        """Return the account's name. Another token may belong to another user."""
        return f"token {self._number}" if self._number > 1 else "token"

    def _current_secret(self) -> str:
        with self._lock:
            if not self._secret:
                self._secret = _require_token(self._source())
                self._number += self._secret != self._last_secret
                self._last_secret = self._secret
            return self._secret


def open_credentials(settings: Settings, transport: HttpTransport) -> Credentials:
    """Return the credentials according to the settings. Raises `CredentialsMissing`."""
    if settings.auth == "app" or (settings.auth == "auto" and settings.app_id):
        key = read_private_key(settings.app_private_key_file)
        return GitHubApp(transport, settings.app_id, key, settings.app_installation_id)
    return StaticToken(transport, token_source(settings))


def token_source(settings: Settings) -> Callable[[], str]:
    """Return where the token comes from, by the settings and the environment."""
    if settings.auth == "gh":
        return lambda: read_gh_token(settings.web_url)
    if settings.token_file:
        return lambda: read_token(settings.token_file)
    if settings.auth == "token" or os.environ.get(settings.token_env):
        return lambda: _read_environment_token(settings.token_env)
    return lambda: read_gh_token(settings.web_url)


def read_token(name: str) -> str:
    """Read the token from a file."""
    try:
        return Path(name).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise CredentialsMissing(
            f"The token file {name} cannot be read: {reason}.", remedy=_LOGIN_REMEDY
        ) from error


def read_gh_token(web_url: str) -> str:
    """Read the token with `gh auth token`."""
    host = urlsplit(web_url).hostname or "github.com"
    try:
        done = subprocess.run(
            ["gh", "auth", "token", "--hostname", host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=GH_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CredentialsMissing(
            "No GitHub token found: `gh` could not be run.", remedy=_LOGIN_REMEDY
        ) from error
    if done.returncode != 0 or not done.stdout.strip():
        raise CredentialsMissing(f"`gh` has no token for {host}.", remedy=_LOGIN_REMEDY)
    return done.stdout.strip()


def _read_environment_token(name: str) -> str:
    secret = os.environ.get(name, "").strip()
    if not secret:
        raise CredentialsMissing(
            f"The variable {name or '(none named)'} is empty.", remedy=_LOGIN_REMEDY
        )
    return secret


def _require_token(secret: str) -> str:
    register_secret(secret)
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise CredentialsMissing(
            "The GitHub token is empty or invalid: it must be one word.", remedy=_LOGIN_REMEDY
        )
    return secret
