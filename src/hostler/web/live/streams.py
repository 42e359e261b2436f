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
from hostler.service.run_output import OutputFormatter as Readable
from hostler.store import Store
from hostler.store.runs import LIVE, Run, find_run
from hostler.web.live.hub import EventPosition, LiveHub
from hostler.web.redaction import dump_redacted
from hostler.web.run_output import ByteRange, read_masked, trim_partial_character

HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": \n\n"
# Who takes no byte for so long is cut off.
SEND_TIMEOUT_SECONDS = 20.0
# What our server lends to every request: a way to hang up.
ABORT_EXTENSION = "hostler.abort"


def format_event(name: str, told: Mapping[str, Any], id: str = "") -> bytes:
    """One event, without secrets. JSON has no line breaks of its own, so data is one line."""
    marked = f"id: {id}\n" if id else ""
    # What is in no UTF-8 (lone surrogates) stands there escaped.
    return f"{marked}event: {name}\ndata: {dump_redacted(told)}\n\n".encode("ascii")


class EventStream(Response):
    """Sends what a source yields, until it ends, whoever reads leaves, or does not read."""

    media_type = "text/event-stream"

    def __init__(
        self,
        source: AsyncIterator[bytes],
        slow_seconds: float = SEND_TIMEOUT_SECONDS,
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
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
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
            hang_up = (scope.get("extensions") or {}).get(ABORT_EXTENSION)
            if hang_up is not None:
                hang_up()
        finally:
            closing = getattr(self._source, "aclose", None)
            if closing is not None:
                with suppress(RuntimeError):
                    await closing()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


MAX_EVENTS_PER_READ = 100
CHUNK_BYTES = 64 * 1024


async def stream_task_events(
    live: LiveHub, after: str, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncIterator[bytes]:
    """Tasks as they change. `after`: the id of the last event that was read; empty: from now on."""
    async with live.listening() as listener:
        place = EventPosition.parse(after) if after else live.journal.end_place()
        rang = False
        if not after:
            yield format_event("ready", {}, str(place))
        while True:
            listener.hush()
            found = live.journal.after(place, MAX_EVENTS_PER_READ) if place else None
            if found is None:
                place = live.journal.end_place()
                yield format_event("reset", {}, str(place))
                continue
            for one in found:
                place = EventPosition(place.epoch, one.number) if place else None
                yield format_event("task", one.told, str(place))
            if len(found) == MAX_EVENTS_PER_READ:
                continue
            if rang:
                yield format_event("changed", {})
            rang = await listener.heard(heartbeat)
            if not rang:
                yield HEARTBEAT


async def stream_run_output(
    live: LiveHub,
    store: Store,
    home: Path,
    run: Run,
    stream: OutputStream,
    offset: int,
    heartbeat: float = HEARTBEAT_SECONDS,
) -> AsyncIterator[bytes]:
    """What a run's agent prints from an offset on, until it is over and all was told."""
    path = home / run.folder / stream
    async with live.listening(path.parent) as listener:
        while True:
            listener.hush()
            over, text = await asyncio.to_thread(read_next_output, store, run, path, offset)
            if text:
                end = offset + len(text)
                told = {"offset": offset, "end": end, "text": text.decode("utf-8", "replace")}
                yield format_event("output", told, str(end))
                offset = end
            elif over:
                yield format_event("end", {"offset": offset}, str(offset))
                return
            elif not await listener.heard(heartbeat):
                yield HEARTBEAT


async def stream_bus_messages(
    live: LiveHub, path: Path, after: str, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncIterator[bytes]:
    """Messages behind an id, as they come."""
    async with live.listening(path.parent) as listener:
        while True:
            listener.hush()
            found = await asyncio.to_thread(read_messages_after, path, after)
            for one in found:
                after = one.id
                yield format_event("message", one.stored(), one.id)
            if not found and not await listener.heard(heartbeat):
                yield HEARTBEAT


def read_next_output(store: Store, run: Run, path: Path, offset: int) -> tuple[bool, bytes]:
    """Whether the run was over before we read, and the next part of its output without secrets."""
    over = is_run_finished(store, run)
    data = read_masked(path, ByteRange(offset, offset + CHUNK_BYTES), over=over)
    return over, trim_partial_character(data, over=over and len(data) < CHUNK_BYTES)


def is_run_finished(store: Store, run: Run) -> bool:
    """Whether nothing is printed any more."""
    with store.read() as tx:
        found = find_run(tx, run.run)
    return found is None or found.state not in LIVE


def read_messages_after(path: Path, after: str) -> list[Message]:
    """The next messages of a bus behind an id."""
    with BusSnapshot(path) as look:
        return list(islice(look.read(after), MAX_EVENTS_PER_READ))


class OutputFormatter:
    """Bytes of a stream in words, line by line. `offset`: where the next line begins; whoever goes
    on from there misses nothing and is told nothing twice."""

    def __init__(self, agent_kind: str, stream: OutputStream, offset: int) -> None:
        self._splitter = LineSplitter(stream, offset)
        self._readable = Readable(agent_kind)

    @property
    def offset(self) -> int:
        return self._splitter.offset

    def tell(self, data: bytes) -> str:
        """What the lines say that these bytes complete."""
        return self._words(list(self._splitter.feed(data)))

    def rest(self) -> str:
        """What the last line says, where the agent ended without ending it."""
        return self._words(list(self._splitter.finish()))

    def _words(self, lines: Iterable[OutputLine]) -> str:
        told = [word for line in lines for word in self._readable.of(line)]
        # Nothing waits for the next part: who comes back would never hear it.
        return "".join(f"{word}\n" for word in (*told, *self._readable.rest()))


async def stream_readable_output(
    live: LiveHub,
    store: Store,
    home: Path,
    run: Run,
    offset: int,
    heartbeat: float = HEARTBEAT_SECONDS,
) -> AsyncIterator[bytes]:
    """The same as the output of a run, in words; offsets are those of the file."""
    path = home / run.folder / OutputStream.STDOUT
    teller, position = OutputFormatter(run.agent_kind, OutputStream.STDOUT, offset), offset
    async with live.listening(path.parent) as listener:
        while True:
            listener.hush()
            begin = teller.offset
            over, data = await asyncio.to_thread(read_next_output, store, run, path, position)
            position += len(data)
            end = over and not data
            text = teller.rest() if end else await asyncio.to_thread(teller.tell, data)
            if text:
                told = {"offset": begin, "end": teller.offset, "text": text}
                yield format_event("output", told, str(teller.offset))
            if end:
                yield format_event("end", {"offset": teller.offset}, str(teller.offset))
                return
            if not data and not await listener.heard(heartbeat):
                yield HEARTBEAT
