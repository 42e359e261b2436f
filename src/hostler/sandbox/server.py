"""A sandbox in this process: its own thread and loop, a free port, ready when you get it."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from hostler.errors import SandboxError
from hostler.sandbox.app import SandboxApp
from hostler.sandbox.auth import token_for
from hostler.sandbox.git.vault import Vault
from hostler.sandbox.seed import Seeder, plant
from hostler.sandbox.seedcheck import check
from hostler.sandbox.wire import Server, listen, url_of
from hostler.sandbox.world import World

T = TypeVar("T")
PATIENCE = 30.0
# A sandbox speaks without TLS, and reading all certificates for each client takes a while.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _client(url: str, **options: Any) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False, verify=NO_TLS, **options)


class Running:
    """A running sandbox, as tests see it."""

    def __init__(self, app: SandboxApp, url: str) -> None:
        self.app = app
        self.url = url
        self.loop = asyncio.new_event_loop()
        self.control = _client(f"{url}/_sandbox")

    def client(self, login: str | None = None, *, token: str = "", **options: Any) -> httpx.Client:
        """An HTTP client that speaks for a user, a token, or nobody."""
        secret = token or (token_for(login) if login else "")
        headers = {"Accept": "application/vnd.github+json"}
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        return _client(self.url, headers=headers, **options)

    def do(self, action: Callable[[World], T]) -> T:
        """Run something with the world, on its own thread."""

        async def act() -> T:
            return action(self.app.world)

        return self.wait(act())

    def seed(self, data: dict[str, Any]) -> None:
        """Plant a seed."""
        self.wait(plant(self.app.world, data))

    def repo(self, full_name: str, **values: Any) -> int:
        """Make a repository; its id."""
        return self.wait(Seeder(self.app.world).repo(full_name, **values)).id

    def wait(self, work: Awaitable[T]) -> T:
        """Run a coroutine on the sandbox's loop and wait for its result."""

        async def act() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(act(), self.loop).result(PATIENCE)


@contextmanager
def running(
    seed: dict[str, Any] | None = None, *, port: int = 0, git: bool = False, **settings: Any
) -> Iterator[Running]:
    """A sandbox for the length of a block. `settings` are those of `Settings`."""
    if seed is not None:
        check(seed, World())
    vault = Vault.temporary() if git else None
    app = SandboxApp(vault=vault)
    app.world.settings.change(settings)
    listening = listen(port)
    app.world.root = url_of(listening)
    server = Server(app)
    sandbox = Running(app, app.world.root)

    async def live() -> None:
        if seed is not None:
            await plant(app.world, seed)
        await server.serve(sockets=[listening])
        await app.postman.close()

    thread = threading.Thread(
        target=_run, args=(sandbox.loop, live, server), name="sandbox", daemon=True
    )
    thread.start()
    try:
        if not server.ready.wait(PATIENCE) or not server.started:
            raise SandboxError("The sandbox did not start.", remedy="Look at the error above.")
        yield sandbox
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        sandbox.control.close()
        listening.close()
        if vault is not None:
            vault.close()


def _run(
    loop: asyncio.AbstractEventLoop, live: Callable[[], Awaitable[None]], server: Server
) -> None:
    asyncio.set_event_loop(loop)

    async def main() -> None:
        await live()

    try:
        loop.run_until_complete(main())
    finally:
        # A start that failed must not leave its caller waiting.
        server.ready.set()
        loop.run_until_complete(_end_all())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _end_all() -> None:
    """End what still works in the background, so that no child of git outlives its loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
