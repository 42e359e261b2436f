"""Who we are on GitHub: by token (variable or file), by `gh`, or as an App.

Secrets stay in memory, and the redactor knows each before its first use.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from hostler.config.settings import GitHub as Settings
from hostler.errors import CredentialsMissing
from hostler.forge import payloads
from hostler.forge.app import App, read_key
from hostler.forge.wire import Request, Wire
from hostler.model import RepoName
from hostler.telemetry.redact import remember_secret

GH_SECONDS = 15
_REMEDY = "Set GITHUB_TOKEN, name `github.token_file`, or log in with `gh auth login`."


class Credentials(Protocol):
    """What a client needs to speak for somebody."""

    def bearer(self, repo: RepoName) -> str:
        """The secret to send for a repository."""
        ...

    def renew(self, stale: str) -> bool:
        """GitHub refused this secret; whether there may be a better one now."""
        ...

    def login(self) -> str:
        """The account that our writes appear under."""
        ...

    def account(self, repo: RepoName) -> str:
        """Who pays for requests about a repository, by a name that holds no secret."""
        ...


class Token:
    """A token from somewhere that can be asked again."""

    def __init__(self, wire: Wire, source: Callable[[], str]) -> None:
        self._wire = wire
        self._source = source
        self._lock = threading.Lock()
        self._secret = ""
        self._known = ""
        self._number = 0
        self._login = ""

    def bearer(self, _repo: RepoName) -> str:
        return self._present()

    def renew(self, stale: str) -> bool:
        with self._lock:
            if self._secret == stale:
                self._secret = ""
        return self._present() != stale

    def login(self) -> str:
        if not self._login:
            url = self._wire.absolute("/user")
            bearer, account = self._present(), self._account()
            # Writes wait for it as well.
            request = Request("GET", url, bearer=bearer, account=account, urgent=True)
            answer = self._wire.send(request)
            self._login = payloads.word_of(answer.data, "login")
        return self._login

    def account(self, _repo: RepoName) -> str:
        return self._account()

    def _account(self) -> str:
        """Another token may be another person's: it gets a name of its own."""
        return f"token {self._number}" if self._number > 1 else "token"

    def _present(self) -> str:
        with self._lock:
            if not self._secret:
                self._secret = _checked(self._source())
                self._number += self._secret != self._known
                self._known = self._secret
            return self._secret


def open_credentials(settings: Settings, wire: Wire) -> Credentials:
    """The credentials that the settings name; raises `CredentialsMissing`."""
    if settings.auth == "app" or (settings.auth == "auto" and settings.app_id):
        key = read_key(settings.app_private_key_file)
        return App(wire, settings.app_id, key, settings.app_installation_id)
    return Token(wire, token_source(settings))


def token_source(settings: Settings) -> Callable[[], str]:
    """Where the token comes from, by the settings and what is there."""
    if settings.auth == "gh":
        return lambda: ask_gh(settings.web_url)
    if settings.token_file:
        return lambda: read_token(settings.token_file)
    if settings.auth == "token" or os.environ.get(settings.token_env):
        return lambda: _from_environment(settings.token_env)
    return lambda: ask_gh(settings.web_url)


def read_token(name: str) -> str:
    """The token in a file."""
    try:
        return Path(name).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise CredentialsMissing(
            f"The token file {name} cannot be read: {reason}.", remedy=_REMEDY
        ) from error


def ask_gh(web_url: str) -> str:
    """What `gh auth token` says for the host."""
    host = urlsplit(web_url).hostname or "github.com"
    try:
        done = subprocess.run(
            ["gh", "auth", "token", "--hostname", host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=GH_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CredentialsMissing("`gh` could not be asked for a token.", remedy=_REMEDY) from error
    if done.returncode != 0 or not done.stdout.strip():
        raise CredentialsMissing(f"`gh` has no token for {host}.", remedy=_REMEDY)
    return done.stdout.strip()


def _from_environment(name: str) -> str:
    secret = os.environ.get(name, "").strip()
    if not secret:
        raise CredentialsMissing(f"The variable {name or '(none named)'} is empty.", remedy=_REMEDY)
    return secret


def _checked(secret: str) -> str:
    remember_secret(secret)
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise CredentialsMissing(
            "What was found is not a token: one word of letters.", remedy=_REMEDY
        )
    return secret
