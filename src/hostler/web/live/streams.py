"""Server-Sent Events: the response, and the streams of tasks, run output and bus messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hostler.agents.agent_files import LineSplitter, OutputLine, OutputStream
from hostler.bus.message import Message
from hostler.bus.reader import BusSnapshot
from hostler.service.run_output import OutputFormatter
from hostler.store import Store
from hostler.store.runs import LIVE, Run, find_run
from hostler.web.live.hub import EventPosition, LiveHub
from hostler.web.redaction import dump_redacted
from hostler.web.run_output import ByteRange, read_masked, trim_partial_character

_HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": \n\n"
# A client that takes no data for this time is disconnected.
_SEND_TIMEOUT_SECONDS = 20.0
# The server puts a function that aborts the connection here.
ABORT_EXTENSION = "hostler.abort"


def format_event(name: str, data: Mapping[str, Any], id: str = "") -> bytes:
    """Encode one event without secrets."""
    id_line = f"id: {id}\n" if id else ""
    # JSON escapes line breaks and lone surrogates, so the data is one line of ASCII.
    return f"{id_line}event: {name}\ndata: {dump_redacted(data)}\n\n".encode("ascii")


class EventStream(Response):
    """Sends what the source yields until it ends, or the client disconnects or stops reading."""

    media_type = "text/event-stream"

    def __init__(
        self,
        source: AsyncIterator[bytes],
        timeout_seconds: float = _SEND_TIMEOUT_SECONDS,
        on_dropped: Callable[[], None] = lambda: None,
        has_access: Callable[[], bool] = lambda: True,
    ) -> None:
        """`on_dropped`: called for a client that does not read; `has_access`: before each event."""
        self.status_code = 200
        self.background = None
        self.init_headers({"X-Accel-Buffering": "no"})
        self._source = source
        self._timeout = timeout_seconds
        self._on_dropped = on_dropped
        self._has_access = has_access

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Set the headers without `Content-Length`, which is unknown."""
        kept = {"content-type": "text/event-stream; charset=utf-8", **(headers or {})}
        self.raw_headers = [(k.lower().encode(), v.encode()) for k, v in kept.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        sending = asyncio.create_task(self._send_all(scope, send))
        disconnect = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({sending, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, disconnect):
                task.cancel()
            await asyncio.gather(sending, disconnect, return_exceptions=True)
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    async def _send_all(self, scope: Scope, send: Send) -> None:
        try:
            async for part in self._source:
                if not self._has_access():
                    break
                async with asyncio.timeout(self._timeout):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            self._on_dropped()
            abort = (scope.get("extensions") or {}).get(ABORT_EXTENSION)
            if abort is not None:
                abort()
        finally:
            close_source = getattr(self._source, "aclose", None)
            if close_source is not None:
                with suppress(RuntimeError):
                    await close_source()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_MAX_EVENTS_PER_READ = 100
CHUNK_BYTES = 64 * 1024


async def stream_task_events(
    live: LiveHub, after: str, heartbeat: float = _HEARTBEAT_SECONDS
) -> AsyncIterator[bytes]:
    """Yield tasks as they change, after the event with this id; an empty id starts now."""
    async with live.listen() as listener:
        position = EventPosition.parse(after) if after else live.event_log.last_position()
        notified = False
        if not after:
            yield format_event("ready", {}, str(position))
        while True:
            listener.clear()
            found = live.event_log.read_after(position, _MAX_EVENTS_PER_READ) if position else None
            if found is None:
                position = live.event_log.last_position()
                yield format_event("reset", {}, str(position))
                continue
            for one in found:
                position = EventPosition(position.epoch, one.number) if position else None
                yield format_event("task", one.data, str(position))
            if len(found) == _MAX_EVENTS_PER_READ:
                continue
            if notified:
                yield format_event("changed", {})
            notified = await listener.wait(heartbeat)
            if not notified:
                yield HEARTBEAT


async def stream_run_output(
    live: LiveHub,
    store: Store,
    home: Path,
    run: Run,
    stream: OutputStream,
    offset: int,
    heartbeat: float = _HEARTBEAT_SECONDS,
) -> AsyncIterator[bytes]:
    """Yield a run's output from an offset on, until the run has ended and all was sent."""
    path = home / run.folder / stream
    async with live.listen(path.parent) as listener:
        while True:
            listener.clear()
            complete, text = await asyncio.to_thread(read_next_output, store, run, path, offset)
            if text:
                end = offset + len(text)
                data = {"offset": offset, "end": end, "text": text.decode("utf-8", "replace")}
                yield format_event("output", data, str(end))
                offset = end
            elif complete:
                yield format_event("end", {"offset": offset}, str(offset))
                return
            elif not await listener.wait(heartbeat):
                yield HEARTBEAT


async def stream_bus_messages(
    live: LiveHub, path: Path, after: str, heartbeat: float = _HEARTBEAT_SECONDS
) -> AsyncIterator[bytes]:
    """Yield the messages after an id as they are posted."""
    async with live.listen(path.parent) as listener:
        while True:
            listener.clear()
            found = await asyncio.to_thread(read_messages_after, path, after)
            for one in found:
                after = one.id
                yield format_event("message", one.stored(), one.id)
            if not found and not await listener.wait(heartbeat):
                yield HEARTBEAT


def read_next_output(store: Store, run: Run, path: Path, offset: int) -> tuple[bool, bytes]:
    """Return whether the run had ended before the read, and the next masked output."""
    complete = _is_run_finished(store, run)
    data = read_masked(path, ByteRange(offset, offset + CHUNK_BYTES), complete=complete)
    is_last = complete and len(data) < CHUNK_BYTES
    return complete, trim_partial_character(data, complete=is_last)


def _is_run_finished(store: Store, run: Run) -> bool:
    """Return True if the run prints nothing more."""
    with store.read() as tx:
        found = find_run(tx, run.run)
    return found is None or found.state not in LIVE


def read_messages_after(path: Path, after: str) -> list[Message]:
    """Return the next messages of a bus after an id."""
    with BusSnapshot(path) as snapshot:
        return list(islice(snapshot.read(after), _MAX_EVENTS_PER_READ))


class ChunkFormatter:
    """Formats chunks of a stream as readable text, line by line.

    `offset` is where the next line starts. A client that continues there gets each line once.
    """

    def __init__(self, agent_kind: str, stream: OutputStream, offset: int) -> None:
        self._splitter = LineSplitter(stream, offset)
        self._formatter = OutputFormatter(agent_kind)

    @property
    def offset(self) -> int:
        return self._splitter.offset

    def feed(self, data: bytes) -> str:
        """Return the text of the lines that the data completes."""
        return self._format(list(self._splitter.feed(data)))

    def finish(self) -> str:
        """Return the text of a last line without a line break."""
        return self._format(list(self._splitter.finish()))

    def _format(self, lines: Iterable[OutputLine]) -> str:
        texts = [text for line in lines for text in self._formatter.of(line)]
        # Hold nothing back for the next chunk: a client that reconnects would miss it.
        return "".join(f"{text}\n" for text in (*texts, *self._formatter.rest()))


async def stream_readable_output(
    live: LiveHub,
    store: Store,
    home: Path,
    run: Run,
    offset: int,
    heartbeat: float = _HEARTBEAT_SECONDS,
) -> AsyncIterator[bytes]:
    """Yield a run's output as readable text; offsets are those of the file."""
    path = home / run.folder / OutputStream.STDOUT
    formatter, position = ChunkFormatter(run.agent_kind, OutputStream.STDOUT, offset), offset
    async with live.listen(path.parent) as listener:
        while True:
            listener.clear()
            start = formatter.offset
            complete, data = await asyncio.to_thread(read_next_output, store, run, path, position)
            position += len(data)
            end = complete and not data
            text = formatter.finish() if end else await asyncio.to_thread(formatter.feed, data)
            if text:
                event = {"offset": start, "end": formatter.offset, "text": text}
                yield format_event("output", event, str(formatter.offset))
            if end:
                yield format_event("end", {"offset": formatter.offset}, str(formatter.offset))
                return
            if not data and not await listener.wait(heartbeat):
                yield HEARTBEAT
