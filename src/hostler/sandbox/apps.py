"""GitHub Apps: who they are, and the JWT by which they say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jwt

from hostler.sandbox.errors import unauthorized
from hostler.sandbox.identity import Identity
from hostler.sandbox.tables import Entity, Key
from hostler.sandbox.world import World

# GitHub allows ten minutes of life, and a minute of clocks that disagree.
LONGEST_LIFE = 600
DRIFT = 60


@dataclass(frozen=True, slots=True)
class App(Entity):
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
        """Whether a repository of this owner and id is within reach."""
        owned = owner.lower() == self.account.lower()
        return owned and (self.repos is None or repo_id in self.repos)


def app_of_jwt(world: World, token: str) -> Identity:
    """The App that signed a JWT; 401 if it is not valid now."""
    try:
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError):
        raise unauthorized("A JSON web token could not be decoded") from None
    app = _issuer(world, claims.get("iss"))
    if app is None:
        raise unauthorized("Integration not found")
    try:
        jwt.decode(
            token, app.public_key, ["RS256"], options={"verify_exp": False, "verify_iat": False}
        )
    except (jwt.PyJWTError, ValueError):
        raise unauthorized("A JSON web token could not be decoded") from None
    _check_times(claims, world.clock.now())
    return Identity(key=f"app:{app.id}", purse=f"app:{app.id}", app_id=app.id, is_app=True)


def _issuer(world: World, issuer: object) -> App | None:
    text = str(issuer)
    if text.isascii() and text.isdigit() and len(text) < 19:
        return world.truth.get(App, int(text))
    return world.truth.find(App, "client", text) if text else None


def _check_times(claims: dict[str, Any], now: float) -> None:
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(expires, int | float) or not isinstance(issued, int | float):
        raise unauthorized("'Expiration time' claim ('exp') must be a numeric value in the future")
    if expires <= now:
        raise unauthorized("'Expiration time' claim ('exp') must be a numeric value in the future")
    if expires > now + LONGEST_LIFE + DRIFT:
        raise unauthorized("'Expiration time' claim ('exp') is too far in the future")
    if issued > now + DRIFT:
        raise unauthorized("'Issued at' claim ('iat') must be an Integer in the past")
