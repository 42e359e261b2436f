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
    """Return a digest of version, home and settings: all that a command's effect depends on."""
    parts = [version, str(home.resolve()), settings.model_dump(mode="json")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


ADDRESS_FILE_NAME = "web.json"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """The URL, process id and version of a running API."""

    url: str
    pid: int
    version: str


@contextmanager
def write_address_file(home: Path, url: str) -> Iterator[None]:
    """Publish the API's URL during the block."""
    path, address = home / ADDRESS_FILE_NAME, ServiceAddress(url, os.getpid(), __version__)
    with part_of(path) as part:
        part.write_text(json.dumps(asdict(address)), encoding="utf-8")
    try:
        yield
    finally:
        if _read_address_file(path) == address:
            path.unlink(missing_ok=True)


def read_live_address(home: Path) -> ServiceAddress | None:
    """Return the published address if its process is alive, else None."""
    found = _read_address_file(home / ADDRESS_FILE_NAME)
    return found if found and Path(f"/proc/{found.pid}").exists() else None


def read_live_url(home: Path) -> str:
    """Return the URL of this home's running API, or an empty text."""
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
    """Connect to the home's service.

    Return None if there is none, or if it has another version, home or settings than this process.
    """
    address = read_live_address(home)
    if address is None or not is_usable_service(address, read_presence(home), socket.gethostname()):
        return None
    token = find_token(settings.web, home, environment)
    return (
        _keep_if_same(
            ServiceConnection(address.url, token.value, by), build_fingerprint(home, settings)
        )
        if token
        else None
    )


def is_usable_service(
    address: ServiceAddress, presence: Presence, host: str, version: str = __version__
) -> bool:
    """Return True if the address is of the home's service, on this host and in this version."""
    holder = presence.holder
    return (
        holder is not None
        and presence.takes_tasks
        and (holder.pid, holder.host) == (address.pid, host)
        and address.version == version
        and is_local_url(address.url)
    )


def is_local_url(url: str) -> bool:
    """Return True if the URL is plain HTTP to this machine, so that the token stays here."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme == "http"
            and bool(parts.port)
            and parts.username is None
            and ip_address(parts.hostname or "").is_loopback
        )
    except ValueError:
        return False


def _keep_if_same(connection: ServiceConnection, fingerprint: str) -> ServiceConnection | None:
    try:
        if connection.fetch_fingerprint() == fingerprint:
            return connection
    except NotExecuted:
        pass
    connection.close()
    return None
