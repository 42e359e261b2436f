"""What each live stream tells: tasks, what a run prints, a bus. Each client at its own place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path

from hostler.agents.lines import Stream
from hostler.bus.message import Message
from hostler.bus.reading import Look
from hostler.store import Store
from hostler.store.runs import LIVE, Run, find_run
from hostler.web.live.following import Live
from hostler.web.live.journal import Place
from hostler.web.live.sse import HEARTBEAT, HEARTBEAT_SECONDS, event
from hostler.web.outputs import Span, read_shown, whole_text

AT_ONCE = 100
CHUNK = 64 * 1024


async def task_events(
    live: Live, after: str, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncIterator[bytes]:
    """Tasks as they change. `after`: the id of the last event that was read; empty: from now on."""
    async with live.listening() as listener:
        place = Place.parse(after) if after else live.journal.end_place()
        rang = False
        if not after:
            yield event("ready", {}, str(place))
        while True:
            listener.hush()
            found = live.journal.after(place, AT_ONCE) if place else None
            if found is None:
                place = live.journal.end_place()
                yield event("reset", {}, str(place))
                continue
            for one in found:
                place = Place(place.epoch, one.number) if place else None
                yield event("task", one.told, str(place))
            if len(found) == AT_ONCE:
                continue
            if rang:
                yield event("changed", {})
            rang = await listener.heard(heartbeat)
            if not rang:
                yield HEARTBEAT


async def run_output(
    live: Live,
    store: Store,
    home: Path,
    run: Run,
    stream: Stream,
    offset: int,
    heartbeat: float = HEARTBEAT_SECONDS,
) -> AsyncIterator[bytes]:
    """What a run's agent prints from an offset on, until it is over and all was told."""
    path = home / run.folder / stream
    async with live.listening(path.parent) as listener:
        while True:
            listener.hush()
            over, text = await asyncio.to_thread(next_shown, store, run, path, offset)
            if text:
                end = offset + len(text)
                told = {"offset": offset, "end": end, "text": text.decode("utf-8", "replace")}
                yield event("output", told, str(end))
                offset = end
            elif over:
                yield event("end", {"offset": offset}, str(offset))
                return
            elif not await listener.heard(heartbeat):
                yield HEARTBEAT


async def bus_messages(
    live: Live, path: Path, after: str, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncIterator[bytes]:
    """Messages behind an id, as they come."""
    async with live.listening(path.parent) as listener:
        while True:
            listener.hush()
            found = await asyncio.to_thread(messages_after, path, after)
            for one in found:
                after = one.id
                yield event("message", one.stored(), one.id)
            if not found and not await listener.heard(heartbeat):
                yield HEARTBEAT


def next_shown(store: Store, run: Run, path: Path, offset: int) -> tuple[bool, bytes]:
    """Whether the run was over before we read, and the next part of its output without secrets."""
    over = is_over(store, run)
    data = read_shown(path, Span(offset, offset + CHUNK), over=over)
    return over, whole_text(data, over=over and len(data) < CHUNK)


def is_over(store: Store, run: Run) -> bool:
    """Whether nothing is printed any more."""
    with store.read() as tx:
        found = find_run(tx, run.run)
    return found is None or found.state not in LIVE


def messages_after(path: Path, after: str) -> list[Message]:
    """The next messages of a bus behind an id."""
    with Look(path) as look:
        return list(islice(look.read(after), AT_ONCE))
