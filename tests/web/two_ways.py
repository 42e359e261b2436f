"""The two ways of a command to a home: on its database, and over the API of its service."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from web_house import TOKEN, WebHouse, memory_home, web_house

from hostler.bus.message import MessageSender
from hostler.bus.writer import BusOptions
from hostler.clock import FakeClock
from hostler.service.context import read_presence
from hostler.service.pool_admin import LocalPoolControl
from hostler.service.running.bus_messages import BusPoster
from hostler.service.tasks.control import (
    BusControl,
    PauseControl,
    PoolControl,
    TaskControl,
    TaskController,
    TaskQueue,
)
from hostler.service.tasks.submission import LocalTaskQueue, SubmissionContext
from hostler.web.client.commands import (
    RemoteBuses,
    RemotePauses,
    RemotePools,
    RemoteQueue,
    RemoteTasks,
)
from hostler.web.client.connection import ServiceConnection
from hostler.web.server import build_local_url, open_listener, run_server

BOB = "bob"


@dataclass
class Way:
    """A home, and one way to it."""

    house: WebHouse
    tasks: TaskControl
    holds: PauseControl
    queue: TaskQueue
    buses: BusControl
    pools: PoolControl
    line: ServiceConnection | None = None


def on_the_store(house: WebHouse) -> Way:
    """What a command does itself."""
    settings = house.now_set
    director = TaskController(house.home, house.store, house.clock, 1.0, BOB)
    queue = LocalTaskQueue(
        house.store, SubmissionContext(house.home, settings, presence=read_presence(house.home))
    )
    box = BusPoster(
        house.home, house.clock, BusOptions.of(settings.tasks), MessageSender.person(BOB)
    )
    pools = LocalPoolControl(house.home, settings, house.store)
    return Way(house, director, director, queue, box, pools)


def over_a_line(house: WebHouse, line: ServiceConnection) -> Way:
    """What a command asks of a service."""
    return Way(
        house,
        RemoteTasks(line),
        RemotePauses(line),
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
        at = open_listener("127.0.0.1", 0)
        stack.enter_context(run_server(house.app, at))
        line = stack.enter_context(closing(ServiceConnection(build_local_url(at), TOKEN, BOB)))
        assert line.likeness()
        yield over_a_line(house, line)
