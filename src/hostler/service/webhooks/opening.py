"""Webhooks as the settings say: off without an address, refused without a secret."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from ipaddress import ip_address
from pathlib import Path

from hostler.config.settings import GitHub
from hostler.errors import HostlerError
from hostler.service.webhooks.deliveries import Doorkeeper
from hostler.service.webhooks.receiver import Knock, Receiver, Tell
from hostler.telemetry.redact import remember_secret

# Anything shorter can be guessed.
SHORTEST_SECRET = 16
_MAKE_ONE = "Make one (openssl rand -hex 32), and give the same to GitHub."


@contextmanager
def webhooks(settings: GitHub, knock: Knock, tell: Tell) -> Iterator[Receiver | None]:
    """Listen for the length of a block; None where the settings name no address."""
    if not settings.webhook_listen:
        yield None
        return
    doorkeeper = Doorkeeper(secret_of(settings).encode())
    try:
        receiver = Receiver(address_of(settings.webhook_listen), doorkeeper, knock, tell)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HostlerError(
            f"Nobody can listen on {settings.webhook_listen}: {reason}.",
            safe="Nothing was started.",
            remedy="Choose another `github.webhook_listen`, or leave it empty.",
        ) from error
    with closing(receiver):
        yield receiver


def secret_of(settings: GitHub) -> str:
    """The secret that GitHub signs with. Raises if there is none, or one that can be guessed."""
    if settings.webhook_secret_file:
        secret = _read(settings.webhook_secret_file)
    else:
        secret = os.environ.get(settings.webhook_secret_env or "", "").strip()
    if len(secret) < SHORTEST_SECRET:
        found = "is missing" if not secret else f"is shorter than {SHORTEST_SECRET} characters"
        raise HostlerError(
            f"`github.webhook_listen` is set, and the webhook secret {found}.",
            safe="Nothing was started.",
            remedy=f"Name `github.webhook_secret_file` or `github.webhook_secret_env`. {_MAKE_ONE}",
        )
    remember_secret(secret)
    return secret


def address_of(text: str) -> tuple[str, int]:
    """`host:port` in parts; an IPv6 address stands in brackets."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(text: str) -> bool:
    """Whether only this machine can reach an address."""
    host, _ = address_of(text)
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(name: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise HostlerError(
            f"The file of the webhook secret, {name}, cannot be read: {reason}.",
            safe="Nothing was started.",
            remedy=_MAKE_ONE,
        ) from error
