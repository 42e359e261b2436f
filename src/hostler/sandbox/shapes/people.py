"""The JSON of users and organisations."""

from __future__ import annotations

import base64
from typing import Any

from hostler.sandbox.entities import User
from hostler.sandbox.moments import iso
from hostler.sandbox.render import Frame, shape
from hostler.sandbox.tables import Tables

GHOST = User(id=10137, login="ghost", created_at=0)
_PARTS = ("followers", "subscriptions", "organizations", "repos", "received_events")


def node_id(kind: str, number: int) -> str:
    """An opaque id as GraphQL has it."""
    return base64.b64encode(f"{kind}:{number}".encode()).decode().rstrip("=")


def user_of(tables: Tables, login: str) -> User:
    """The user of a login; GitHub's ghost where the account is gone."""
    return tables.find(User, login.lower()) or GHOST


def simple_user(login: str, frame: Frame) -> dict[str, Any]:
    """A user inside other JSON."""
    user = user_of(frame.tables, login)
    url = f"{frame.root}/users/{user.login}"
    return {
        "login": user.login,
        "id": user.id,
        "node_id": node_id("User", user.id),
        "avatar_url": f"{frame.root}/avatars/{user.id}",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{html_root(frame)}/{user.login}",
        **{f"{part}_url": f"{url}/{part}" for part in _PARTS},
        "following_url": url + "/following{/other_user}",
        "gists_url": url + "/gists{/gist_id}",
        "starred_url": url + "/starred{/owner}{/repo}",
        "events_url": url + "/events{/privacy}",
        "type": user.type,
        "user_view_type": "public",
        "site_admin": user.site_admin,
    }


def html_root(frame: Frame) -> str:
    """Where pages for people would be."""
    return frame.root.removesuffix("/api/v3")


@shape(User, kept=False)
def full_user(user: User, frame: Frame) -> dict[str, Any]:
    """A user on their own."""
    return {
        **simple_user(user.login, frame),
        "name": user.name,
        "company": None,
        "blog": "",
        "location": None,
        "email": user.email,
        "notification_email": None,
        "hireable": None,
        "bio": None,
        "twitter_username": None,
        "public_repos": 0,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": iso(user.created_at),
        "updated_at": iso(user.created_at),
    }
