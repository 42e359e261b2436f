"""Logins as git writes them, and back."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from hostler.sandbox.entities import User
from hostler.sandbox.git.process import Person
from hostler.sandbox.tables import Tables
from hostler.sandbox.world import World

_NOREPLY = re.compile(r"(?:[0-9]+\+)?([^@+]+)@users\.noreply\.github\.com")


def person(world: World, login: str) -> Person:
    """The name and address under which a user's commits are made here and now."""
    when = datetime.fromtimestamp(world.now(), UTC)
    user = world.user(login)
    if user is None:
        return Person(login, f"{login}@users.noreply.github.com", when)
    email = user.email or f"{user.id}+{user.login}@users.noreply.github.com"
    return Person(user.name or user.login, email, when)


def host(world: World) -> Person:
    """The name under which the host itself commits."""
    return Person("GitHub", "noreply@github.com", datetime.fromtimestamp(world.now(), UTC))


def login_of(tables: Tables, email: str) -> str | None:
    """The user behind a commit's address, where there is one."""
    found = _NOREPLY.fullmatch(email)
    if found:
        user = tables.find(User, found[1].lower())
        return user.login if user else None
    return next((user.login for user in tables.all(User) if user.email == email), None)
