"""Run a sandbox: in a thread of this process for tests, or as a program with a state file."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from hostler.errors import SandboxError
from hostler.sandbox.app import SandboxApp
from hostler.sandbox.auth import SandboxToken, token_for
from hostler.sandbox.git.repository import RepoStore
from hostler.sandbox.http.server import SandboxServer, listen_on, url_of_socket
from hostler.sandbox.state import state_file
from hostler.sandbox.state.entities import Repo
from hostler.sandbox.state.seed import DEFAULT_SEED, Seeder, check_seed, plant_seed
from hostler.sandbox.state.world import InvalidInput, World

T = TypeVar("T")
TIMEOUT_SECONDS = 30.0
# A sandbox speaks without TLS, and reading all certificates for each client takes a while.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _http_client(url: str, **options: Any) -> httpx.Client:
    return httpx.Client(
        base_url=url, timeout=TIMEOUT_SECONDS, trust_env=False, verify=NO_TLS, **options
    )


class Running:
    """A running sandbox, as tests see it."""

    def __init__(self, app: SandboxApp, url: str) -> None:
        self.app = app
        self.url = url
        self.loop = asyncio.new_event_loop()
        self.control = _http_client(f"{url}/_sandbox")

    def client(self, login: str | None = None, *, token: str = "", **options: Any) -> httpx.Client:
        """Return an HTTP client with a user's token, a given token, or none."""
        secret = token or (token_for(login) if login else "")
        headers = {"Accept": "application/vnd.github+json"}
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        return _http_client(self.url, headers=headers, **options)

    def do(self, action: Callable[[World], T]) -> T:
        """Run something with the world, on its own thread."""

        async def act() -> T:
            return action(self.app.world)

        return self.wait(act())

    def seed(self, data: dict[str, Any]) -> None:
        """Plant a seed."""
        self.wait(plant_seed(self.app.world, data))

    def repo(self, full_name: str, **values: Any) -> int:
        """Make a repository; its id."""
        return self.wait(Seeder(self.app.world).repo(full_name, **values)).id

    def wait(self, work: Awaitable[T]) -> T:
        """Run a coroutine on the sandbox's loop and wait for its result."""

        async def act() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(act(), self.loop).result(TIMEOUT_SECONDS)


@contextmanager
def running(
    seed: dict[str, Any] | None = None, *, port: int = 0, git: bool = False, **settings: Any
) -> Iterator[Running]:
    """Yield a sandbox that runs until the block ends; `settings` are those of `SandboxSettings`."""
    if seed is not None:
        check_seed(seed, World())
    repo_store = RepoStore.temporary() if git else None
    app = SandboxApp(repo_store=repo_store)
    app.world.settings.change(settings)
    listening = listen_on(port)
    app.world.root = url_of_socket(listening)
    server = SandboxServer(app)
    sandbox = Running(app, app.world.root)

    async def live() -> None:
        if seed is not None:
            await plant_seed(app.world, seed)
        await server.serve(sockets=[listening])
        await app.webhook_sender.close()

    thread = threading.Thread(
        target=_run_loop, args=(sandbox.loop, live, server), name="sandbox", daemon=True
    )
    thread.start()
    try:
        if not server.ready.wait(TIMEOUT_SECONDS) or not server.started:
            raise SandboxError("The sandbox did not start.", remedy="Look at the error above.")
        yield sandbox
    finally:
        server.should_exit = True
        thread.join(TIMEOUT_SECONDS)
        sandbox.control.close()
        listening.close()
        if repo_store is not None:
            repo_store.close()


def _run_loop(
    loop: asyncio.AbstractEventLoop, live: Callable[[], Awaitable[None]], server: SandboxServer
) -> None:
    asyncio.set_event_loop(loop)

    async def main() -> None:
        await live()

    try:
        loop.run_until_complete(main())
    finally:
        # A start that failed must not leave its caller waiting.
        server.ready.set()
        loop.run_until_complete(_cancel_all_tasks())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _cancel_all_tasks() -> None:
    """Cancel all background tasks, so that no git child outlives the event loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class StartupInfo:
    """What a person needs to begin: where it is, who there is, what there is."""

    url: str
    tokens: dict[str, str]
    repos: list[str]
    state: str | None


def serve_program(
    port: int, state: Path | None, seed: Path | None, welcome: Callable[[StartupInfo], None]
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; then save, if there is a state file."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(state_file.locked_state_file(state)) if state else None
        repo_store = stack.enter_context(contextlib.closing(RepoStore.temporary()))
        asyncio.run(
            _serve_until_signal(SandboxApp(repo_store=repo_store), port, file, seed, welcome)
        )


async def _serve_until_signal(
    app: SandboxApp,
    port: int,
    state: Path | None,
    seed: Path | None,
    welcome: Callable[[StartupInfo], None],
) -> None:
    with listen_on(port) as listening:
        app.world.root = url_of_socket(listening)
        server = SandboxServer(app)
        # Before loading: a signal during the load must save everything, too.
        _handle_signals(server)
        await _load_or_seed(app.world, state, seed)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await server.answering()
        welcome(_startup_info(app.world, state))
        await serving
        await app.webhook_sender.close()
    if state is not None:
        await state_file.save_to_file(app.world, state)


def _handle_signals(server: SandboxServer) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Under nohup the terminal may go, and we stay.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, server.stop)


async def _load_or_seed(world: World, state: Path | None, seed: Path | None) -> None:
    """The saved state if there is one, else the seed, else the example."""
    if state is not None and state.exists():
        await state_file.load_from_file(world, state)
        return
    data = state_file.read_json(seed, "seed") if seed else DEFAULT_SEED
    try:
        await plant_seed(world, data)
    except InvalidInput as error:
        raise SandboxError(
            f"The seed file {seed} has a mistake: {error}", remedy="Correct it and start again."
        ) from None


def _startup_info(world: World, state: Path | None) -> StartupInfo:
    tokens = [token for token in world.truth.all(SandboxToken) if token.installation_id is None]
    return StartupInfo(
        url=world.root,
        tokens={token.login: token.secret for token in tokens},
        repos=[repo.full_name for repo in world.truth.all(Repo)],
        state=str(state) if state else None,
    )
