"""How fast many processes write, against a bare SQLite insert, and the longest wait of any."""

from __future__ import annotations

import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, contextmanager
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from bench.harness import Figures
from hostler.clock import SystemClock
from hostler.store import Patience, open_store
from hostler.store.admin.migrate import upgrade
from hostler.store.engine.backend import find_place
from hostler.store.engine.sqlite import connect

SECONDS = 2.0
CONTEXT = multiprocessing.get_context("forkserver")
# Nobody gives up in a benchmark.
PATIENCE = Patience(queue_seconds=120.0, begin_seconds=120.0)
INSERT = "INSERT INTO store_meta (key, value) VALUES (?, 'x')"

_RUNS = count()

# What one process measured: writes done, and the longest wait for one.
Tally = tuple[int, float]


def _repeat(write: Callable[[str], None], name: str) -> Tally:
    done, worst, end = 0, 0.0, time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < end:
        write(f"{name}/{done}")
        worst = max(worst, time.perf_counter() - start)
        done += 1
    return done, worst


def _through_the_store(home: Path, relaxed: bool) -> Callable[[str], None]:
    store = open_store(home, patience=PATIENCE)

    def write(key: str) -> None:
        with store.write(relaxed=relaxed) as tx:
            tx.constant(INSERT, (key,))

    return write


def _bare(home: Path, _relaxed: bool) -> Callable[[str], None]:
    """What SQLite does without our queue: its own busy handler."""
    connection = connect(home / "hostler.db", "rw", PATIENCE.begin_seconds)
    connection.execute("PRAGMA synchronous=FULL")

    def write(key: str) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(INSERT, (key,))
        connection.execute("COMMIT")

    return write


def _work(pipe: Connection, make: Any, home: Path, relaxed: bool, name: str) -> None:
    write = make(home, relaxed)
    pipe.send("ready")
    pipe.recv()
    pipe.send(_repeat(write, name))


def _together(processes: int, make: Any, home: Path, relaxed: bool = False) -> Figures:
    started: list[tuple[BaseProcess, Connection]] = []
    for number in range(processes):
        ours, theirs = CONTEXT.Pipe()
        name = f"{next(_RUNS)}-{number}"
        process: BaseProcess = CONTEXT.Process(
            target=_work, args=(theirs, make, home, relaxed, name)
        )
        process.start()
        # Else a process that failed would be waited for, instead of heard of.
        theirs.close()
        started.append((process, ours))
    for _, pipe in started:
        pipe.recv()
    for _, pipe in started:
        pipe.send("go")
    tallies: list[Tally] = [pipe.recv() for _, pipe in started]
    for ended, _ in started:
        ended.join()
    return {
        "writes_per_second": sum(done for done, _ in tallies) / SECONDS,
        "worst_wait_ms": max(worst for _, worst in tallies) * 1000,
        "fewest_to_most": min(done for done, _ in tallies) / max(1, max(d for d, _ in tallies)),
    }


@contextmanager
def _home() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        upgrade(
            home,
            find_place(home),
            clock=SystemClock(),
            patience=PATIENCE,
            progress=lambda _done, _total: None,
        )
        yield home


def run() -> Figures:
    """At 1, 8 and 32 processes: with our queue, without it, and relaxed."""
    CONTEXT.set_forkserver_preload(["hostler.store", "bench.store"])
    figures: dict[str, Any] = {"sqlite": sqlite3.sqlite_version}
    with _home() as home:
        base = _together(1, _bare, home)["writes_per_second"]
        figures["bare_writes_per_second"] = base
        for processes in (1, 8, 32):
            queued = _together(processes, _through_the_store, home)
            figures[f"processes_{processes}"] = {
                "queue_ratio": queued["writes_per_second"] / base,
                "queue": queued,
                "no_queue": _together(processes, _bare, home),
                "relaxed": _together(processes, _through_the_store, home, relaxed=True),
            }
        figures["rows"] = _count(home)
    return figures


def _count(home: Path) -> int:
    with closing(connect(home / "hostler.db", "rw", 5.0)) as connection:
        return int(connection.execute("SELECT count(*) FROM store_meta").fetchone()[0])
