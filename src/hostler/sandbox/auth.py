"""Tokens and who they speak for."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import ClassVar

from hostler.sandbox.apps import app_of_jwt
from hostler.sandbox.entities import User
from hostler.sandbox.errors import unauthorized
from hostler.sandbox.identity import ANONYMOUS, Identity
from hostler.sandbox.tables import Entity, Key
from hostler.sandbox.world import World


@dataclass(frozen=True, slots=True)
class Token(Entity):
    """A secret that speaks for a user, or for an installation until it expires."""

    kind: ClassVar[str] = "token"
    secret: str
    login: str
    installation_id: int | None = None
    app_id: int | None = None
    repos: tuple[int, ...] | None = None
    expires_at: int | None = None

    def names(self) -> tuple[Key, ...]:
        return ((fingerprint(self.secret),),)


def fingerprint(secret: str) -> str:
    """A name for a secret that tells nothing of it."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def token_for(login: str) -> str:
    """The fixed token of a user in seeds and tests."""
    return "ghp_" + hashlib.sha256(f"sandbox token of {login}".encode()).hexdigest()[:36]


def installation_secret(number: int) -> str:
    """A token that only its holder can know."""
    return f"ghs_{number:04d}{secrets.token_hex(16)}"


def identify(world: World, authorization: str | None) -> Identity:
    """Who speaks; 401 if the credentials are wrong."""
    if not authorization:
        return ANONYMOUS
    secret = _secret(authorization)
    if secret.count(".") == 2:
        return app_of_jwt(world, secret)
    # Found by digest, so that the time of the look-up tells nothing of the secret.
    token = world.truth.find(Token, fingerprint(secret))
    if token is None or not hmac.compare_digest(token.secret.encode(), secret.encode()):
        raise unauthorized("Bad credentials")
    if token.expires_at is not None and world.clock.now() >= token.expires_at:
        raise unauthorized("Bad credentials")
    if token.installation_id is None and world.truth.find(User, token.login.lower()) is None:
        raise unauthorized("Bad credentials")
    return _identity(token)


def _identity(token: Token) -> Identity:
    if token.installation_id is None:
        purse = f"user:{token.login.lower()}"
        return Identity(key=f"token:{token.id}", purse=purse, login=token.login)
    return Identity(
        key=f"token:{token.id}",
        purse=f"installation:{token.installation_id}",
        login=token.login,
        app_id=token.app_id,
        installation_id=token.installation_id,
        repos=None if token.repos is None else frozenset(token.repos),
    )


def _secret(authorization: str) -> str:
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() in ("bearer", "token"):
        return value.strip()
    if scheme.lower() == "basic":
        return _password(value.strip())
    raise unauthorized("Bad credentials")


def _password(encoded: str) -> str:
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise unauthorized("Bad credentials") from None
    # Git sends a token as either of the two.
    return password if password and password != "x-oauth-basic" else user  # noqa: S105
