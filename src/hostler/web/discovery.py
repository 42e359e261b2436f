"""Find the running service: its address file, and a digest of version, home and settings."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from hostler import __version__
from hostler.config.settings import Settings
from hostler.service.context import Presence, read_presence
from hostler.store.engine.locks import part_of
from hostler.web.auth import find_token
from hostler.web.client.connection import NotExecuted, ServiceConnection


def build_fingerprint(home: Path, settings: Settings, version: str = __version__) -> str:
    """A digest of all that a command's meaning depends on: version, home, settings."""
    whole = [version, str(home.resolve()), settings.model_dump(mode="json")]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


ADDRESS_FILE_NAME = "web.json"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """An address, the process that answers there, and its version."""

    url: str
    pid: int
    version: str


@contextmanager
def write_address_file(home: Path, url: str) -> Iterator[None]:
    """Say where it is, for the length of a block."""
    path, mine = home / ADDRESS_FILE_NAME, ServiceAddress(url, os.getpid(), __version__)
    with part_of(path) as part:
        part.write_text(json.dumps(asdict(mine)), encoding="utf-8")
    try:
        yield
    finally:
        if _read_address_file(path) == mine:
            path.unlink(missing_ok=True)


def read_live_address(home: Path) -> ServiceAddress | None:
    """What a process that lives said of itself; None: nobody did, or it is gone."""
    found = _read_address_file(home / ADDRESS_FILE_NAME)
    return found if found and Path(f"/proc/{found.pid}").exists() else None


def read_live_url(home: Path) -> str:
    """Where an API of this home answers, by its own word; empty: nobody said so."""
    found = read_live_address(home)
    return found.url if found else ""


def _read_address_file(path: Path) -> ServiceAddress | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return ServiceAddress(str(found["url"]), int(found["pid"]), str(found.get("version", "")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def connect_to_service(
    home: Path, settings: Settings, environment: Mapping[str, str], by: str
) -> ServiceConnection | None:
    """A line to the service of a home, if it would do just what we would; else None."""
    note = read_live_address(home)
    if note is None or not is_usable_service(note, read_presence(home), socket.gethostname()):
        return None
    token = find_token(settings.web, home, environment)
    return (
        _keep_if_same(
            ServiceConnection(note.url, token.value, by), build_fingerprint(home, settings)
        )
        if token
        else None
    )


def is_usable_service(
    note: ServiceAddress, who: Presence, host: str, version: str = __version__
) -> bool:
    """Whether a note is of the service that works on the home, here, in our version. Pure."""
    holder = who.holder
    return (
        holder is not None
        and who.takes_tasks
        and (holder.pid, holder.host) == (note.pid, host)
        and note.version == version
        and is_local_url(note.url)
    )


def is_local_url(url: str) -> bool:
    """Whether an address leads nowhere else: the token must not."""
    try:
        place = urlsplit(url)
        return (
            place.scheme == "http"
            and bool(place.port)
            and place.username is None
            and ip_address(place.hostname or "").is_loopback
        )
    except ValueError:
        return False


def _keep_if_same(line: ServiceConnection, ours: str) -> ServiceConnection | None:
    try:
        if line.likeness() == ours:
            return line
    except NotExecuted:
        pass
    line.close()
    return None
