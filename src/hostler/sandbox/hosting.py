"""A sandbox as a program: state from disk, signals, state back to disk."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hostler.errors import SandboxError
from hostler.sandbox import shelf
from hostler.sandbox.app import SandboxApp
from hostler.sandbox.auth import Token
from hostler.sandbox.entities import Repo
from hostler.sandbox.examples import DEFAULT_SEED
from hostler.sandbox.git.vault import Vault
from hostler.sandbox.seed import plant
from hostler.sandbox.settings import BadInput
from hostler.sandbox.wire import Server, listen, url_of
from hostler.sandbox.world import World


@dataclass(frozen=True, slots=True)
class Welcome:
    """What a person needs to begin: where it is, who there is, what there is."""

    url: str
    tokens: dict[str, str]
    repos: list[str]
    state: str | None


def host(
    port: int, state: Path | None, seed: Path | None, welcome: Callable[[Welcome], None]
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; then save, if there is a state file."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(shelf.claimed(state)) if state else None
        vault = stack.enter_context(contextlib.closing(Vault.temporary()))
        asyncio.run(_live(SandboxApp(vault=vault), port, file, seed, welcome))


async def _live(
    app: SandboxApp,
    port: int,
    state: Path | None,
    seed: Path | None,
    welcome: Callable[[Welcome], None],
) -> None:
    with listen(port) as listening:
        app.world.root = url_of(listening)
        server = Server(app)
        # First of all: whoever ends us while we load finds everything kept, too.
        _heed_signals(server)
        await _fill(app.world, state, seed)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await server.answering()
        welcome(_welcome(app.world, state))
        await serving
        await app.postman.close()
    if state is not None:
        await shelf.save(app.world, state)


def _heed_signals(server: Server) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Under nohup the terminal may go, and we stay.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, server.stop)


async def _fill(world: World, state: Path | None, seed: Path | None) -> None:
    """The saved state if there is one, else the seed, else the example."""
    if state is not None and state.exists():
        await shelf.load(world, state)
        return
    data = shelf.read_json(seed, "seed") if seed else DEFAULT_SEED
    try:
        await plant(world, data)
    except BadInput as error:
        raise SandboxError(
            f"The seed file {seed} has a mistake: {error}", remedy="Correct it and start again."
        ) from None


def _welcome(world: World, state: Path | None) -> Welcome:
    tokens = [token for token in world.truth.all(Token) if token.installation_id is None]
    return Welcome(
        url=world.root,
        tokens={token.login: token.secret for token in tokens},
        repos=[repo.full_name for repo in world.truth.all(Repo)],
        state=str(state) if state else None,
    )
