"""Where we stand with a repository: is it there, who are we, may we work on it."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.errors import Forbidden, ForgeError, NotFound, Unauthorized
from hostler.forge.opening import Hub
from hostler.forge.port import Repository
from hostler.model import RepoName

_SAFE = "Nothing was changed."
_IDENTIFY = "Give Hostler a valid token: `hostler doctor` shows what it finds."
_RIGHTS = (
    "Give the token or App the right to write: Contents, Issues and Pull requests "
    "(a classic token: the scope `repo`), and its account write access there."
)


@dataclass(frozen=True, slots=True)
class Standing:
    """A repository that we may push to, and the account that we are."""

    login: str
    repository: Repository


def ask_standing(hub: Hub, name: RepoName) -> Standing:
    """Ask GitHub; a clear error for each way in which it does not let us work."""
    login = ""
    try:
        login = hub.credentials.login()
        found = hub.repo(name).repository()
    except ForgeError as error:
        raise _clear(error, name, login) from error
    if not found.can_push:
        raise ForgeError(f"{login} may not push to {found.name}.", safe=_SAFE, remedy=_RIGHTS)
    return Standing(login, found)


def _clear(error: ForgeError, name: RepoName, login: str) -> ForgeError:
    """An error in words for somebody who waits at a terminal; the same where it has them."""
    if isinstance(error, Unauthorized):
        what = f"GitHub does not know the token that we have: {error.message}."
        return ForgeError(what, safe=_SAFE, remedy=_IDENTIFY)
    if isinstance(error, Forbidden):
        what = f"GitHub does not let us look at {name}: {error.message}."
        return ForgeError(what, safe=_SAFE, remedy=_RIGHTS)
    if isinstance(error, NotFound):
        what = f"{name} does not exist on GitHub, or {login or 'this App'} may not see it."
        remedy = "Look at the spelling, and at what the token or App may see."
        return ForgeError(what, safe=_SAFE, remedy=remedy)
    error.safe = _SAFE
    return error
