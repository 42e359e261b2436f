"""A GitHub App: its key signs a short-lived JWT, which buys a token per installation.

All lifetimes are counted by GitHub's clock.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hostler.errors import CredentialsMissing
from hostler.forge import payloads
from hostler.forge.wire import Request, Wire
from hostler.model import RepoName, parse_stamp
from hostler.telemetry.redact import remember_secret

# GitHub allows ten minutes, and a clock that differs by one.
BACKDATED = timedelta(seconds=60)
JWT_LIFE = timedelta(minutes=9)
# A token is renewed so long before its end.
MARGIN = timedelta(minutes=5)
_REMEDY = "Look at `github.app_id` and `github.app_private_key_file`."


@dataclass(frozen=True, slots=True)
class InstallationToken:
    """A token and its end, by GitHub's clock."""

    secret: str
    expires_at: datetime


class App:
    """Credentials of an App; installation 0 means: find it by repository."""

    def __init__(self, wire: Wire, app_id: int, key: str, installation_id: int = 0) -> None:
        remember_secret(key)
        self._wire = wire
        self._app_id = app_id
        self._key = key
        self._installation_id = installation_id
        self._lock = threading.Lock()
        self._installations: dict[RepoName, int] = {}
        self._tokens: dict[int, InstallationToken] = {}
        self._login = ""

    def bearer(self, repo: RepoName) -> str:
        """The present token of the installation that covers a repository."""
        with self._lock:
            number = self._installation(repo)
            token = self._tokens.get(number)
            if token is None or self._wire.now() >= token.expires_at - MARGIN:
                token = self._tokens[number] = self._buy(number)
            return token.secret

    def renew(self, stale: str) -> bool:
        """Forget a refused token; a new one can always be asked for."""
        with self._lock:
            kept = {n: token for n, token in self._tokens.items() if token.secret != stale}
            self._tokens = kept
        return True

    def login(self) -> str:
        """The App's bot account."""
        if not self._login:
            self._login = f"{payloads.word_of(self._ask('GET', '/app'), 'slug')}[bot]"
        return self._login

    def account(self, repo: RepoName) -> str:
        """The installation that covers a repository."""
        with self._lock:
            return f"installation {self._installation(repo)}"

    def _installation(self, repo: RepoName) -> int:
        if self._installation_id:
            return self._installation_id
        if repo not in self._installations:
            found = self._ask("GET", f"/repos/{repo}/installation")
            self._installations[repo] = payloads.number_of(found)
        return self._installations[repo]

    def _buy(self, installation: int) -> InstallationToken:
        data = self._ask("POST", f"/app/installations/{installation}/access_tokens")
        secret = payloads.word_of(data, "token")
        remember_secret(secret)
        return InstallationToken(secret, _expiry(data))

    def _ask(self, method: str, path: str) -> Any:
        # A second token does no harm, so even the POST may be repeated.
        url, bearer = self._wire.absolute(path), self._jwt()
        account = f"app {self._app_id}"
        return self._wire.send(
            Request(method, url, bearer=bearer, safe=True, account=account, urgent=True)
        ).data

    def _jwt(self) -> str:
        # Here alone: its cryptography takes long to load, and few are Apps.
        import jwt

        now = self._wire.now()
        claims = {
            "iat": int((now - BACKDATED).timestamp()),
            "exp": int((now + JWT_LIFE).timestamp()),
            "iss": str(self._app_id),
        }
        try:
            signed = jwt.encode(claims, self._key, algorithm="RS256")
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            # The cause may quote the key.
            raise CredentialsMissing(
                "The App's private key cannot sign: it is no RSA key in PEM form.", remedy=_REMEDY
            ) from (None if self._key in str(error) else error)
        remember_secret(signed)
        return signed


@payloads.strict
def _expiry(data: payloads.Payload) -> datetime:
    return parse_stamp(data["expires_at"])


def read_key(name: str) -> str:
    """The App's private key."""
    try:
        return Path(name).expanduser().read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise CredentialsMissing(
            f"The App's key {name or '(none named)'} cannot be read: {reason}.", remedy=_REMEDY
        ) from error
