"""Server-Sent Events on the wire, and an answer that does not wait for those who never read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hostler.web.hiding import dumped

HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": \n\n"
# Who takes no byte for so long is cut off.
SLOW_SECONDS = 20.0
# What our server lends to every request: a way to hang up.
ABORT = "hostler.abort"


def event(name: str, told: Mapping[str, Any], id: str = "") -> bytes:
    """One event, without secrets. JSON has no line breaks of its own, so data is one line."""
    marked = f"id: {id}\n" if id else ""
    # What is in no UTF-8 (lone surrogates) stands there escaped.
    return f"{marked}event: {name}\ndata: {dumped(told)}\n\n".encode("ascii")


class EventStream(Response):
    """Sends what a source yields, until it ends, whoever reads leaves, or does not read."""

    media_type = "text/event-stream"

    def __init__(
        self,
        source: AsyncIterator[bytes],
        slow_seconds: float = SLOW_SECONDS,
        dropped: Callable[[], None] = lambda: None,
        lasts: Callable[[], bool] = lambda: True,
    ) -> None:
        """`dropped`: hears of one who did not read; `lasts`: whether one may still listen."""
        self.status_code = 200
        self.background = None
        self.init_headers({"X-Accel-Buffering": "no"})
        self._source = source
        self._slow = slow_seconds
        self._dropped = dropped
        self._lasts = lasts

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """The same without a length: nobody knows it."""
        kept = {"content-type": "text/event-stream; charset=utf-8", **(headers or {})}
        self.raw_headers = [(k.lower().encode(), v.encode()) for k, v in kept.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        sending = asyncio.create_task(self._send_all(scope, send))
        leaving = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    async def _send_all(self, scope: Scope, send: Send) -> None:
        try:
            async for part in self._source:
                if not self._lasts():
                    break
                async with asyncio.timeout(self._slow):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            self._dropped()
            hang_up = (scope.get("extensions") or {}).get(ABORT)
            if hang_up is not None:
                hang_up()
        finally:
            closing = getattr(self._source, "aclose", None)
            if closing is not None:
                with suppress(RuntimeError):
                    await closing()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
