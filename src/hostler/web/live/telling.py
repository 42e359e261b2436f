"""What an agent that speaks in events prints, in words, as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from hostler.agents.lines import Line, Splitter, Stream
from hostler.service.readable import Readable
from hostler.store import Store
from hostler.store.runs import Run
from hostler.web.live.following import Live
from hostler.web.live.sources import next_shown
from hostler.web.live.sse import HEARTBEAT, HEARTBEAT_SECONDS, event


class Teller:
    """Bytes of a stream in words, line by line. `offset`: where the next line begins; whoever goes
    on from there misses nothing and is told nothing twice."""

    def __init__(self, agent_kind: str, stream: Stream, offset: int) -> None:
        self._splitter = Splitter(stream, offset)
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

    def _words(self, lines: Iterable[Line]) -> str:
        told = [word for line in lines for word in self._readable.of(line)]
        # Nothing waits for the next part: who comes back would never hear it.
        return "".join(f"{word}\n" for word in (*told, *self._readable.rest()))


async def told_output(
    live: Live,
    store: Store,
    home: Path,
    run: Run,
    offset: int,
    heartbeat: float = HEARTBEAT_SECONDS,
) -> AsyncIterator[bytes]:
    """The same as the output of a run, in words; offsets are those of the file."""
    path = home / run.folder / Stream.STDOUT
    teller, position = Teller(run.agent_kind, Stream.STDOUT, offset), offset
    async with live.listening(path.parent) as listener:
        while True:
            listener.hush()
            begin = teller.offset
            over, data = await asyncio.to_thread(next_shown, store, run, path, position)
            position += len(data)
            end = over and not data
            text = teller.rest() if end else await asyncio.to_thread(teller.tell, data)
            if text:
                told = {"offset": begin, "end": teller.offset, "text": text}
                yield event("output", told, str(teller.offset))
            if end:
                yield event("end", {"offset": teller.offset}, str(teller.offset))
                return
            if not data and not await listener.heard(heartbeat):
                yield HEARTBEAT
