"""Where to call, and with which secret: from a variable or a file. The address is a secret too."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from hostler.config.settings import Notify
from hostler.errors import HostlerError
from hostler.telemetry.redact import remember_secret

LARGEST = 8192
SAFE = "Nothing was sent."


@dataclass(frozen=True, slots=True)
class Address:
    """Where to call. Neither part is ever shown."""

    url: str = field(repr=False)
    secret: str = field(default="", repr=False)


def address_of(notify: Notify, environment: Mapping[str, str]) -> Address | None:
    """The address that the settings name; None where they name none."""
    if not notify.url_env and not notify.url_file:
        return None
    url = _value("url", notify.url_env, notify.url_file, environment)
    require_address(url)
    remember_secret(url)
    secret = ""
    if notify.secret_env or notify.secret_file:
        secret = _value("secret", notify.secret_env, notify.secret_file, environment)
        remember_secret(secret)
    return Address(url, secret)


def require_address(url: str) -> None:
    """Refuse what cannot be called, or only in the clear on a network, without showing it."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    plain = parts.scheme == "http" and _is_loopback(host)
    if not host or not (parts.scheme == "https" or plain) or not url.isascii() or " " in url:
        raise HostlerError(
            "The address of `[notify]` is not one that can be called.",
            safe=SAFE,
            remedy="Use an https address (http only for this machine).",
        )


def _value(what: str, name: str, file: str, environment: Mapping[str, str]) -> str:
    found = _read(file) if file else environment.get(name, "").strip()
    if found:
        return found
    where = f"The file of `notify.{what}_file` is empty." if file else f"${name} is not set."
    raise HostlerError(where, safe=SAFE, remedy=f"Set `notify.{what}_env` or `{what}_file`.")


def _read(name: str) -> str:
    path = Path(name).expanduser()
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(LARGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise HostlerError(
            f"{path} cannot be read: {reason}.", safe=SAFE, remedy="Mend the file of `[notify]`."
        ) from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
