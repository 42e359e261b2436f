"""Many streams, one after the other, in a process without threads that can be forked at will."""

from __future__ import annotations

import gc
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

from streams_fixture import Broken, copy_home, in_the_middle, played, well_on_its_way
from streams_host import Host
from streams_oracle import LEDGER, Wrong
from streams_script import PLANS, SHORT, Stream, stream_of

from hostler.clock import SystemClock
from hostler.forge.github.client import pagination
from hostler.store import Patience
from hostler.store.admin.migrate import upgrade
from hostler.store.engine.backend import find_place
from loaded_children import CONTEXT
from shared_statements import share_statements

# Plays that a failing stream is worth, to tell what of it matters.
MOST_REPLAYS = 200
Sabotage = Callable[[], Any]
Bases = dict[str, tuple[Path, Host]]


@dataclass
class Report:
    """What became of some streams."""

    failures: list[str] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)


def campaign(
    seeds: Iterable[int], *, longest: int = SHORT, sabotage: Sabotage | None = None
) -> Report:
    """Play these streams elsewhere. `sabotage` breaks something first, to see that it is told."""
    ours, theirs = CONTEXT.Pipe()
    streams = [stream_of(seed, longest) for seed in seeds]
    process = CONTEXT.Process(target=_play_all, args=(theirs, streams, sabotage))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    finally:
        process.join()


def _play_all(pipe: Connection, streams: list[Stream], sabotage: Sabotage | None) -> None:
    report = Report()
    share_statements()
    with _bases() as (folder, bases):
        if sabotage is not None:
            sabotage()
        gc.collect()
        gc.freeze()
        for stream in streams:
            wrong = _trouble(stream, folder, bases, report.tally)
            if wrong:
                told = wrong if sabotage else _smallest(stream, folder, bases, wrong)
                report.failures.append(f"stream {stream.seed}: {told}")
                if sabotage or len(report.failures) == 3:
                    break
    pipe.send(report)


def _trouble(stream: Stream, folder: Path, bases: Bases, tally: Counter[str]) -> str:
    """What is wrong with a stream, in words; nothing if it went as it must."""
    home = folder / "stream"
    try:
        with patch.object(pagination, "PAGE_SIZE", stream.page):
            tally += played(stream, home, bases).tally
        tally[f"{stream.plan} streams"] += 1
        return ""
    except (Wrong, Broken, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(home)


def _smallest(stream: Stream, folder: Path, bases: Bases, wrong: str) -> str:
    """The same trouble with fewer moves."""
    size, plays = max(len(stream.moves) // 2, 1), 0
    while size and plays < MOST_REPLAYS:
        for start in range(0, len(stream.moves), size):
            fewer = stream.with_moves(stream.moves[:start] + stream.moves[start + size :])
            plays += 1
            if told := _trouble(fewer, folder, bases, Counter()):
                stream, wrong = fewer, told
                break
        else:
            size //= 2
    return f"{wrong}\n{stream}"


@contextmanager
def _bases() -> Iterator[tuple[Path, Bases]]:
    """Beginnings for every kind of stream, off the disk where that can be."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        folder = Path(name)
        empty = _template(folder / "empty")
        bases: Bases = {"fresh": (empty, in_the_middle())}
        for plan in PLANS:
            copy_home(empty, folder / plan)
            bases[plan] = (folder / plan, well_on_its_way(folder / plan, plan))
        yield folder, bases


def _template(home: Path) -> Path:
    home.mkdir()
    upgrade(
        home,
        find_place(home, None),
        clock=SystemClock(),
        patience=Patience(queue_seconds=60.0, begin_seconds=60.0),
        progress=lambda done, total: None,
    )
    with closing(sqlite3.connect(home / "hostler.db")) as database:
        database.executescript(LEDGER)
    return home
