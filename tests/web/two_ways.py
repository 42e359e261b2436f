"""The two ways of a command to a home: on its database, and over the API of its service."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from web_house import TOKEN, WebHouse, memory_home, web_house

from hostler.bus import Sender, Terms
from hostler.clock import FakeClock
from hostler.service.directing import Director
from hostler.service.doing import Buses, Holds, Pools, Queue, Tasks
from hostler.service.pool_caps import StoredPools
from hostler.service.posting import Postbox
from hostler.service.presence import presence
from hostler.service.submission import Context, HandQueue
from hostler.web.client.line import Line
from hostler.web.client.ports import RemoteBuses, RemoteHolds, RemotePools, RemoteQueue, RemoteTasks
from hostler.web.serving import listen, serving, url_of

BOB = "bob"


@dataclass
class Way:
    """A home, and one way to it."""

    house: WebHouse
    tasks: Tasks
    holds: Holds
    queue: Queue
    buses: Buses
    pools: Pools
    line: Line | None = None


def on_the_store(house: WebHouse) -> Way:
    """What a command does itself."""
    settings = house.now_set
    director = Director(house.home, house.store, house.clock, 1.0, BOB)
    queue = HandQueue(house.store, Context(house.home, settings, presence=presence(house.home)))
    box = Postbox(house.home, house.clock, Terms.of(settings.tasks), Sender.person(BOB))
    pools = StoredPools(house.home, settings, house.store)
    return Way(house, director, director, queue, box, pools)


def over_a_line(house: WebHouse, line: Line) -> Way:
    """What a command asks of a service."""
    return Way(
        house,
        RemoteTasks(line),
        RemoteHolds(line),
        RemoteQueue(line),
        RemoteBuses(line),
        RemotePools(line),
        line,
    )


@contextmanager
def way_to(kind: str, **more: Any):
    """A home of its own, with a clock that stands still, and the way of this kind to it."""
    with ExitStack() as stack:
        home = stack.enter_context(memory_home())
        house = stack.enter_context(web_house(home, FakeClock(), **more))
        if kind == "store":
            yield on_the_store(house)
            return
        at = listen("127.0.0.1", 0)
        stack.enter_context(serving(house.app, at))
        line = stack.enter_context(closing(Line(url_of(at), TOKEN, BOB)))
        assert line.likeness()
        yield over_a_line(house, line)
