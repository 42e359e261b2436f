"""The ASGI bridge to `git http-backend`: clone, fetch and push with the real git.

Fetches stream through. A push streams in, but its last bytes wait for the repository's lock,
so pushes take effect one after another and it is known exactly which refs each one moved.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from hostler.sandbox.git import cgi, gate, process, refs, streams
from hostler.sandbox.git.errors import GitError, NoSuchObject
from hostler.sandbox.git.gate import Call, Lookup, Refusal, Standing
from hostler.sandbox.git.refs import Move
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.git.streams import ClientGone, Receive, Send, Stalled
from hostler.sandbox.git.vault import Vault

CALLS_AT_ONCE = 16
PUSH_SECONDS = 300.0
IDLE_SECONDS = 60.0
LARGEST_REPORT = 1_000_000

Scope = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class Push:
    """What one push did."""

    number: int
    login: str
    moves: tuple[Move, ...]


PushListener = Callable[[Push], Awaitable[None]]
"""Told of each push before its client is answered, while the repository's lock is held."""


@dataclass(slots=True)
class GitBridge:
    """Serves `/{owner}/{name}.git/…`; everything else is not its business."""

    vault: Vault
    lookup: Lookup
    on_push: PushListener
    patience: Callable[[], float | None] = lambda: IDLE_SECONDS
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CALLS_AT_ONCE))

    def wants(self, scope: Scope) -> bool:
        """Whether this request comes from a git client."""
        return _call(scope) is not None

    async def idle(self) -> None:
        """Wait until no git child of ours is left."""
        for _ in range(CALLS_AT_ONCE):
            await self._places.acquire()
        for _ in range(CALLS_AT_ONCE):
            self._places.release()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = _call(scope)
        if call is None:
            await _refuse(send, Refusal(404, "Not found."))
            return
        headers = dict(scope["headers"])
        authorization = headers.get(b"authorization")
        token = gate.token_of(authorization.decode("latin-1") if authorization else None)
        standing = self.lookup(call, token)
        refusal = gate.refuse(call, standing)
        if refusal is not None:
            await _refuse(send, refusal)
            return
        async with self._places:
            await self._serve(call, standing, scope, receive, send)

    async def _serve(
        self, call: Call, standing: Standing, scope: Scope, receive: Receive, send: Send
    ) -> None:
        assert standing.number is not None
        try:
            repo = self.vault.get(standing.number)
            env = cgi.environment(call, repo.path, standing.login, scope["headers"])
            base = process.clean_environment(self.vault.runner.home)
            child = await process.start(("http-backend",), cwd=repo.path, env=base | env)
        except NoSuchObject:
            await _refuse(send, Refusal(404, "Repository not found."))
            return
        errors = asyncio.create_task(streams.read_some(child.stderr, 10_000))
        client = _Client(receive, send, self.patience())
        try:
            if call.action == gate.PUSH:
                who = standing.login or "ghost"
                await self._push(child, repo, Push(standing.number, who, ()), client)
            else:
                await _relay(child, client)
        except ClientGone:
            pass
        except Stalled:
            if not client.answered:
                await _refuse(
                    send, Refusal(408, "Nothing came for too long.", (("connection", "close"),))
                )
        except GitError:
            if not client.answered:
                await _refuse(send, Refusal(409, "The repository cannot take this now."))
        finally:
            await _bury(child, errors)

    async def _push(
        self,
        child: asyncio.subprocess.Process,
        repo: Repository,
        push: Push,
        client: _Client,
    ) -> None:
        reading = asyncio.create_task(streams.read_some(child.stdout, LARGEST_REPORT))
        try:
            last = await streams.feed_all_but_last(child, client.receive, client.patience)
            async with repo.lock:
                before = await refs.snapshot(repo)
                async with asyncio.timeout(PUSH_SECONDS):
                    await streams.finish(child, last)
                    report = await asyncio.shield(reading)
                moved = refs.moves(before, await refs.snapshot(repo))
                if moved:
                    await self.on_push(Push(push.number, push.login, tuple(moved)))
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        await streams.say(client.send, *cgi.split_answer(report))


@dataclass(slots=True)
class _Client:
    """The other side, which is waited for only so long."""

    receive: Receive
    tell: Send
    patience: float | None
    answered: bool = False

    async def send(self, message: streams.Message) -> None:
        self.answered = True
        await streams.within(self.patience, self.tell(message))


def _call(scope: Scope) -> Call | None:
    return gate.read_call(scope["method"], scope["path"], scope["query_string"].decode("latin-1"))


async def _relay(child: asyncio.subprocess.Process, client: _Client) -> None:
    """Both directions at once, until git has answered or the client has gone."""
    feeding = asyncio.create_task(_feed_until_gone(child, client))
    answering = asyncio.create_task(streams.answer(child, client.send))
    try:
        await asyncio.wait({feeding, answering}, return_when=asyncio.FIRST_COMPLETED)
        await (answering if answering.done() else feeding)
    finally:
        feeding.cancel()
        answering.cancel()
        await asyncio.gather(feeding, answering, return_exceptions=True)


async def _feed_until_gone(child: asyncio.subprocess.Process, client: _Client) -> None:
    async for piece in streams.body(client.receive, client.patience):
        await streams.write(child, piece)
    await streams.finish(child)
    while (await client.receive())["type"] != "http.disconnect":
        pass


async def _bury(child: asyncio.subprocess.Process, errors: asyncio.Task[bytes]) -> None:
    """Leave no child, no zombie and no open pipe behind, even when cancelled."""
    errors.cancel()
    await asyncio.gather(errors, return_exceptions=True)
    if child.stdout is not None and child.stdout.at_eof():
        # It has said all it had to say and is about to leave by itself.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), process.GRACE_SECONDS)
    await asyncio.shield(process.end(child))


async def _refuse(send: Send, refusal: Refusal) -> None:
    text = f"{refusal.text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    headers += [(b"content-length", str(len(text)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in refusal.headers]
    await streams.say(send, cgi.Head(refusal.status, tuple(headers)), text)
