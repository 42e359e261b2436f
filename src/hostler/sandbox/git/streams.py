"""Bytes between an HTTP client and a git child, either way, without holding them all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, TypeVar

from hostler.sandbox.git import cgi

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

T = TypeVar("T")
CHUNK = 65_536


class ClientGone(Exception):
    """The client hung up before its request was complete."""


class Stalled(Exception):
    """The client neither sends nor takes anything, and others wait for its place."""


async def body(receive: Receive, patience: float | None = None) -> AsyncIterator[bytes]:
    """The request body, piece by piece; None waits for ever for the next one."""
    more = True
    while more:
        message = await within(patience, receive())
        if message["type"] == "http.disconnect":
            raise ClientGone
        more = message.get("more_body", False)
        if piece := message.get("body", b""):
            yield piece


async def within(patience: float | None, wait: Awaitable[T]) -> T:
    """What is waited for, unless it takes longer than patience lasts."""
    try:
        async with asyncio.timeout(patience):
            return await wait
    except TimeoutError:
        raise Stalled from None


async def feed_all_but_last(
    child: asyncio.subprocess.Process, receive: Receive, patience: float | None
) -> bytes:
    """Forward a body but for its last piece, which is returned.

    A push cannot take effect before git has read its last byte, so whoever holds the last
    piece decides when that is.
    """
    held = b""
    async for piece in body(receive, patience):
        await write(child, held)
        held = piece
    return held


async def write(child: asyncio.subprocess.Process, data: bytes) -> None:
    """Give bytes to the child; one that no longer listens is no error, its answer says why."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child.stdin.write(data)
        await child.stdin.drain()


async def finish(child: asyncio.subprocess.Process, data: bytes = b"") -> None:
    """Give the last bytes and say that there are no more."""
    assert child.stdin is not None
    await write(child, data)
    child.stdin.close()


async def read_some(pipe: asyncio.StreamReader | None, limit: int) -> bytes:
    """Read a pipe to its end, keeping the first `limit` bytes."""
    assert pipe is not None
    kept = bytearray()
    while piece := await pipe.read(CHUNK):
        kept += piece[: max(0, limit - len(kept))]
    return bytes(kept)


async def answer(child: asyncio.subprocess.Process, send: Send) -> None:
    """Pass on the child's answer as it comes."""
    assert child.stdout is not None
    try:
        raw = await child.stdout.readuntil(cgi.HEAD_END)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        head, text = cgi.split_answer(b"")
        await say(send, head, text)
        return
    await _send_head(send, cgi.read_head(raw))
    while piece := await child.stdout.read(CHUNK):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def say(send: Send, head: cgi.Head, text: bytes) -> None:
    """Send a whole answer."""
    await _send_head(send, head)
    await send({"type": "http.response.body", "body": text, "more_body": False})


async def _send_head(send: Send, head: cgi.Head) -> None:
    await send(
        {"type": "http.response.start", "status": head.status, "headers": list(head.headers)}
    )
