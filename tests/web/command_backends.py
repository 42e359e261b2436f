"""Open a home for commands: directly on its database, or over the API of its service."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from web_fixture import TOKEN, WebFixture, open_web_fixture, temporary_home

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
class CommandBackend:
    """A home and the interfaces through which commands change it."""

    api_home: WebFixture
    tasks: TaskControl
    pauses: PauseControl
    queue: TaskQueue
    buses: BusControl
    pools: PoolControl
    connection: ServiceConnection | None = None


def local_backend(api_home: WebFixture) -> CommandBackend:
    """Return the backend that uses the database."""
    settings = api_home.current_settings
    director = TaskController(api_home.home, api_home.store, api_home.clock, 1.0, BOB)
    queue = LocalTaskQueue(
        api_home.store,
        SubmissionContext(api_home.home, settings, presence=read_presence(api_home.home)),
    )
    box = BusPoster(
        api_home.home,
        api_home.clock,
        BusOptions.of(settings.tasks),
        MessageSender.person(BOB),
    )
    pools = LocalPoolControl(api_home.home, settings, api_home.store)
    return CommandBackend(api_home, director, director, queue, box, pools)


def remote_backend(api_home: WebFixture, connection: ServiceConnection) -> CommandBackend:
    """Return the backend that calls the service."""
    return CommandBackend(
        api_home,
        RemoteTasks(connection),
        RemotePauses(connection),
        RemoteQueue(connection),
        RemoteBuses(connection),
        RemotePools(connection),
        connection,
    )


@contextmanager
def open_backend(kind: str, **more: Any):
    """Open a backend of this kind on a new home with a fake clock."""
    with ExitStack() as stack:
        home = stack.enter_context(temporary_home())
        api_home = stack.enter_context(open_web_fixture(home, FakeClock(), **more))
        if kind == "store":
            yield local_backend(api_home)
            return
        at = open_listener("127.0.0.1", 0)
        stack.enter_context(run_server(api_home.app, at))
        connection = stack.enter_context(
            closing(ServiceConnection(build_local_url(at), TOKEN, BOB))
        )
        assert connection.fetch_fingerprint()
        yield remote_backend(api_home, connection)
