"""Who a request speaks for: users, tokens, GitHub Apps and their JWTs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any, ClassVar

import jwt

from hostler.sandbox.http.errors import unauthorized
from hostler.sandbox.state.entities import PERMISSIONS, Repo, User
from hostler.sandbox.state.tables import Entity, Key, Tables
from hostler.sandbox.state.world import World


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller: a user's token, an App's JWT, an installation's token, or anonymous.

    `key` names the token and goes into ETags; `purse` names the budget that pays, which all
    tokens of one user or installation share. `repos` limits an installation (None = no limit).
    """

    key: str
    budget_key: str = ""
    login: str = ""
    app_id: int | None = None
    installation_id: int | None = None
    repos: frozenset[int] | None = None
    is_app: bool = False

    @property
    def anonymous(self) -> bool:
        """Whether the request has no credentials."""
        return not self.login and not self.is_app

    def permission(self, tables: Tables, repo: Repo) -> str:
        """Return none, read, triage, write, maintain or admin."""
        if self.installation_id is not None:
            return self._installation_permission(repo)
        if not self.login:
            return "none" if repo.private else "read"
        login = self.login.lower()
        found = _owner_permission(tables, repo, login)
        for name, permission in repo.access:
            if name.lower() == login:
                found = max(found, permission, key=PERMISSIONS.index)
        return found if found != "none" or repo.private else "read"

    def can(self, tables: Tables, repo: Repo, wanted: str) -> bool:
        """Return whether the permission reaches `wanted`."""
        return PERMISSIONS.index(self.permission(tables, repo)) >= PERMISSIONS.index(wanted)

    def association(self, tables: Tables, repo: Repo) -> str:
        """Return how GitHub calls the author's relation to the repository."""
        if not self.login:
            return "NONE"
        if self.login.lower() == repo.owner.lower():
            return "OWNER"
        if _owner_permission(tables, repo, self.login.lower()) != "none":
            return "MEMBER"
        named = {name.lower() for name, _ in repo.access}
        return "COLLABORATOR" if self.login.lower() in named else "NONE"

    def _installation_permission(self, repo: Repo) -> str:
        if self.repos is None or repo.id in self.repos:
            return "write"
        return "none" if repo.private else "read"


def _owner_permission(tables: Tables, repo: Repo, login: str) -> str:
    if repo.owner.lower() == login:
        return "admin"
    owner = tables.find(User, repo.owner.lower())
    members = owner.members if owner else ()
    return "admin" if login in {name.lower() for name in members} else "none"


ANONYMOUS = Identity(key="anonymous", budget_key="anonymous")

# GitHub allows ten minutes of life, and a minute of clocks that disagree.
MAX_JWT_LIFETIME_SECONDS = 600
MAX_CLOCK_DRIFT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class AppRegistration(Entity):
    """A GitHub App with its public key (PEM)."""

    kind: ClassVar[str] = "app"
    slug: str
    name: str
    owner: str
    created_at: int
    public_key: str
    client_id: str = ""

    def names(self) -> tuple[Key, ...]:
        return ((self.slug,), ("client", self.client_id))


@dataclass(frozen=True, slots=True)
class Installation(Entity):
    """An App's place on an account; `repos` None means all of the account's."""

    kind: ClassVar[str] = "installation"
    app_id: int
    account: str
    created_at: int
    repos: tuple[int, ...] | None = None

    def groups(self) -> tuple[Key, ...]:
        return (("app", self.app_id),)

    def covers(self, owner: str, repo_id: int) -> bool:
        """Return whether a repository of this owner and id is within reach."""
        owned = owner.lower() == self.account.lower()
        return owned and (self.repos is None or repo_id in self.repos)


def _app_of_jwt(world: World, token: str) -> Identity:
    """Return the App that signed a JWT; 401 if it is not valid now."""
    try:
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError):
        raise unauthorized("A JSON web token could not be decoded") from None
    app = _app_of_issuer(world, claims.get("iss"))
    if app is None:
        raise unauthorized("Integration not found")
    try:
        jwt.decode(
            token, app.public_key, ["RS256"], options={"verify_exp": False, "verify_iat": False}
        )
    except (jwt.PyJWTError, ValueError):
        raise unauthorized("A JSON web token could not be decoded") from None
    _check_jwt_times(claims, world.clock.now())
    return Identity(key=f"app:{app.id}", budget_key=f"app:{app.id}", app_id=app.id, is_app=True)


def _app_of_issuer(world: World, issuer: object) -> AppRegistration | None:
    text = str(issuer)
    if text.isascii() and text.isdigit() and len(text) < 19:
        return world.truth.get(AppRegistration, int(text))
    return world.truth.find(AppRegistration, "client", text) if text else None


def _check_jwt_times(claims: dict[str, Any], now: float) -> None:
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(expires, int | float) or not isinstance(issued, int | float):
        raise unauthorized("'Expiration time' claim ('exp') must be a numeric value in the future")
    if expires <= now:
        raise unauthorized("'Expiration time' claim ('exp') must be a numeric value in the future")
    if expires > now + MAX_JWT_LIFETIME_SECONDS + MAX_CLOCK_DRIFT_SECONDS:
        raise unauthorized("'Expiration time' claim ('exp') is too far in the future")
    if issued > now + MAX_CLOCK_DRIFT_SECONDS:
        raise unauthorized("'Issued at' claim ('iat') must be an Integer in the past")


@dataclass(frozen=True, slots=True)
class SandboxToken(Entity):
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
    """Return a digest by which a secret is stored and looked up."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def token_for(login: str) -> str:
    """Return the fixed token of a user in seeds and tests."""
    return "ghp_" + hashlib.sha256(f"sandbox token of {login}".encode()).hexdigest()[:36]


def installation_secret(number: int) -> str:
    """Return a random token for an installation."""
    return f"ghs_{number:04d}{secrets.token_hex(16)}"


def identify(world: World, authorization: str | None) -> Identity:
    """Return the identity behind the credentials; 401 if they are wrong."""
    if not authorization:
        return ANONYMOUS
    secret = _secret_of(authorization)
    if secret.count(".") == 2:
        return _app_of_jwt(world, secret)
    # Found by digest, so that the time of the look-up tells nothing of the secret.
    token = world.truth.find(SandboxToken, fingerprint(secret))
    if token is None or not hmac.compare_digest(token.secret.encode(), secret.encode()):
        raise unauthorized("Bad credentials")
    if token.expires_at is not None and world.clock.now() >= token.expires_at:
        raise unauthorized("Bad credentials")
    if token.installation_id is None and world.truth.find(User, token.login.lower()) is None:
        raise unauthorized("Bad credentials")
    return _identity_of(token)


def _identity_of(token: SandboxToken) -> Identity:
    if token.installation_id is None:
        budget_key = f"user:{token.login.lower()}"
        return Identity(key=f"token:{token.id}", budget_key=budget_key, login=token.login)
    return Identity(
        key=f"token:{token.id}",
        budget_key=f"installation:{token.installation_id}",
        login=token.login,
        app_id=token.app_id,
        installation_id=token.installation_id,
        repos=None if token.repos is None else frozenset(token.repos),
    )


def _secret_of(authorization: str) -> str:
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() in ("bearer", "token"):
        return value.strip()
    if scheme.lower() == "basic":
        return _secret_from_basic(value.strip())
    raise unauthorized("Bad credentials")


def _secret_from_basic(encoded: str) -> str:
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise unauthorized("Bad credentials") from None
    # Git sends a token as either of the two.
    return password if password and password != "x-oauth-basic" else user  # noqa: S105
