"""Bytes between an HTTP client and `git http-backend`, in both directions, never held whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """Status and headers of an answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]


def read_head(raw: bytes) -> ResponseHead:
    """Return the CGI header block; without a Status line it means 200."""
    status = 200
    headers: list[tuple[bytes, bytes]] = []
    for line in raw.strip().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"status":
            status = int(value.split()[0])
        elif name:
            headers.append((name.strip().lower(), value.strip()))
    return ResponseHead(status, tuple(headers))


def split_response(raw: bytes) -> tuple[ResponseHead, bytes]:
    """Return a whole CGI answer as head and body; nonsense becomes a 500."""
    head, found, body = raw.partition(HEAD_END)
    if not found:
        return ResponseHead(500, ((b"content-type", b"text/plain"),)), b"git gave no answer\n"
    return read_head(head), body


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

T = TypeVar("T")
CHUNK_BYTES = 65_536


class ClientGone(Exception):
    """The client hung up before its request was complete."""


class ClientStalled(Exception):
    """The client neither sends nor takes anything, and others wait for its place."""


async def read_body(receive: Receive, timeout_seconds: float | None = None) -> AsyncIterator[bytes]:
    """Return the request body, piece by piece; None waits for ever for the next one."""
    more = True
    while more:
        message = await wait_within(timeout_seconds, receive())
        if message["type"] == "http.disconnect":
            raise ClientGone
        more = message.get("more_body", False)
        if piece := message.get("body", b""):
            yield piece


async def wait_within(timeout_seconds: float | None, wait: Awaitable[T]) -> T:
    """Return the awaited value; raise ClientStalled if it takes longer than the timeout."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await wait
    except TimeoutError:
        raise ClientStalled from None


async def forward_all_but_last(
    child: asyncio.subprocess.Process, receive: Receive, timeout_seconds: float | None
) -> bytes:
    """Forward a body but for its last piece, which is returned.

    A push cannot take effect before git has read its last byte, so whoever holds the last
    piece decides when that is.
    """
    held = b""
    async for piece in read_body(receive, timeout_seconds):
        await write_input(child, held)
        held = piece
    return held


async def write_input(child: asyncio.subprocess.Process, data: bytes) -> None:
    """Write to the child. A closed pipe is not an error: the child's response says why."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child.stdin.write(data)
        await child.stdin.drain()


async def finish_input(child: asyncio.subprocess.Process, data: bytes = b"") -> None:
    """Give the last bytes and say that there are no more."""
    assert child.stdin is not None
    await write_input(child, data)
    child.stdin.close()


async def read_limited(pipe: asyncio.StreamReader | None, limit: int) -> bytes:
    """Read a pipe to its end, keeping the first `limit` bytes."""
    assert pipe is not None
    kept = bytearray()
    while piece := await pipe.read(CHUNK_BYTES):
        kept += piece[: max(0, limit - len(kept))]
    return bytes(kept)


async def relay_response(child: asyncio.subprocess.Process, send: Send) -> None:
    """Pass on the child's answer as it comes."""
    assert child.stdout is not None
    try:
        raw = await child.stdout.readuntil(HEAD_END)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        head, text = split_response(b"")
        await send_response(send, head, text)
        return
    await _send_head(send, read_head(raw))
    while piece := await child.stdout.read(CHUNK_BYTES):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def send_response(send: Send, head: ResponseHead, text: bytes) -> None:
    """Send a whole answer."""
    await _send_head(send, head)
    await send({"type": "http.response.body", "body": text, "more_body": False})


async def _send_head(send: Send, head: ResponseHead) -> None:
    await send(
        {"type": "http.response.start", "status": head.status, "headers": list(head.headers)}
    )
