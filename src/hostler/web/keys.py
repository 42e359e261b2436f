"""The access token: named by the settings, or made in the home."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hostler.agents.plainfile import NotPlain, Oddity, open_plain, read_plain
from hostler.config.settings import Web
from hostler.errors import HostlerError
from hostler.store.engine.locks import private_folder
from hostler.telemetry.redact import remember_secret

FILE_NAME = "web-token"
# Anything shorter can be guessed.
SHORTEST = 16
LONGEST = 4096
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MAKE_ONE = "Make one (openssl rand -hex 32), readable by you alone (chmod 600)."


@dataclass(frozen=True, slots=True)
class Token:
    """The token, and where it stands, for people."""

    value: str = field(repr=False)
    where: str


class NoToken(HostlerError):
    """There is no token, or none that may be used."""

    def __init__(self, what: str, remedy: str = _MAKE_ONE) -> None:
        super().__init__(what, safe="Nothing was started.", remedy=remedy)


def token_for(web: Web, home: Path, environment: Mapping[str, str], *, wide: bool) -> Token:
    """The token in force; one of the home is made where there is none. `wide`: it must be named."""
    if web.token_env:
        found = Token(environment.get(web.token_env, "").strip(), f"${web.token_env}")
    elif web.token_file:
        found = _in_file(Path(os.path.expanduser(web.token_file)))  # noqa: PTH111
    elif wide:
        raise NoToken(
            "Listening wider than this machine needs a token of your own.",
            f"Name it in `web.token_file` or `web.token_env`. {_MAKE_ONE}",
        )
    else:
        found = _made_in(home)
    if len(found.value) < SHORTEST:
        fault = f"is shorter than {SHORTEST} characters" if found.value else "is empty"
        raise NoToken(f"The access token in {found.where} {fault}.")
    remember_secret(found.value)
    return found


def known_token(web: Web, home: Path, environment: Mapping[str, str]) -> Token | None:
    """The token in force, where one can be found and used; none is made."""
    if not (web.token_env or web.token_file or (home / FILE_NAME).exists()):
        return None
    try:
        return token_for(web, home, environment, wide=False)
    except NoToken:
        return None


def _made_in(home: Path) -> Token:
    """The token of a home, made once: of two who begin together, both get the same."""
    path = home / FILE_NAME
    private_folder(home)
    part = home / f".{FILE_NAME}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        if not path.exists():
            with os.fdopen(os.open(part, _NEW, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
            with suppress(FileExistsError):
                os.link(part, path)
    except OSError as error:
        raise NoToken(
            f"The access token {path} cannot be written: {error.strerror}.",
            "Look at the owner and permissions of the home.",
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return _in_file(path)


def _in_file(path: Path) -> Token:
    try:
        _require_private(path)
        return Token(read_plain(path, LONGEST).decode("ascii").strip(), str(path))
    except NotPlain as error:
        missing = error.oddity is Oddity.MISSING
        found = "is missing" if missing else f"cannot be read: it is {error.found}"
        raise NoToken(f"The access token {path} {found}.") from error
    except UnicodeDecodeError as error:
        raise NoToken(f"The access token {path} cannot be read: it is no plain text.") from error


def _require_private(path: Path) -> None:
    descriptor = open_plain(path)
    try:
        mode = os.fstat(descriptor).st_mode
    finally:
        os.close(descriptor)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise NoToken(f"Others can read the access token {path}.", f"chmod 600 {path}")
