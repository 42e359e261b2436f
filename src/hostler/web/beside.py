"""An API for a home, for the length of a block: address, token, server, and a note where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hostler.clock import Clock
from hostler.config.settings import Settings, Web
from hostler.errors import HostlerError
from hostler.store import Store
from hostler.telemetry import names
from hostler.telemetry.logs import Log
from hostler.web.app import make_app
from hostler.web.desk import Desk
from hostler.web.doors import Locks
from hostler.web.keys import Token, token_for
from hostler.web.notes import noted
from hostler.web.serving import is_loopback, listen, serving, url_of


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @property
    def wide(self) -> bool:
        """Whether other machines can reach it."""
        return not is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class Ground:
    """What an API stands on. `settings`: those in force; `by`: whoever holds the token."""

    home: Path
    store: Store
    clock: Clock
    settings: Callable[[], Settings]
    by: str
    log: Log
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Served:
    """An API that answers."""

    url: str
    token: Token
    wide: bool

    def sentence(self) -> str:
        """What people are told."""
        wide = " Other machines can reach it, unencrypted: put TLS before it." if self.wide else ""
        return f"The API answers at {self.url}; its token is in {self.token.where}.{wide}"


def address_for(web: Web, asked: str) -> Address:
    """Where to listen: as asked for (`host:port`), else as the settings say."""
    if not asked:
        return _allowed(Address(web.host, web.port), web)
    host, colon, port = asked.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise HostlerError(
            f"{asked[:80]!r} is no address to listen on.",
            safe="Nothing was started.",
            remedy="Write it as host:port, such as 127.0.0.1:8473.",
        )
    return _allowed(Address(host.strip("[]") or "127.0.0.1", int(port)), web)


def _allowed(address: Address, web: Web) -> Address:
    if address.wide and not web.allow_remote:
        raise HostlerError(
            f"Other machines could reach {address.host}.",
            safe="Nothing was started.",
            remedy="Set `allow_remote = true` in [web] if they shall, and name a token of your own "
            "(`token_file` or `token_env`).",
        )
    return address


@contextmanager
def web_beside(ground: Ground, address: Address) -> Iterator[Served]:
    """Answer as long as the block lasts. What keeps us from it is raised before anything starts."""
    web = ground.settings().web
    token = token_for(web, ground.home, ground.environment, wide=address.wide)
    desk = Desk(ground.home, ground.store, ground.clock, ground.settings, ground.by, ground.log)
    hosts = frozenset(name.lower() for name in web.hosts)
    # Whoever allows other machines may have put a proxy before us, under a name of its own.
    app = make_app(desk, Locks(token.value, address.wide or web.allow_remote, hosts))
    at = listen(address.host, address.port)
    with closing(desk.live), serving(app, at):
        served = Served(url_of(at), token, address.wide)
        ground.log.event(names.WEB_LISTENING, url=served.url, wide=served.wide)
        with noted(ground.home, served.url):
            yield served
