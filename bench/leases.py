"""How fast many processes take and give back leases, against lease files and a one-row write.

All numbers are changes per second over all processes: a lease taken is one, and so is one given
back. `files_fsync` is a folder of lease files behind a lock: whoever takes one reads all of them,
looks whether their holders live, and writes its own, with the file and its name synced.
`one_row_write` is a row inserted and removed through the same store. The plain keys are measured
beside 8 standing leases, those of `at_1000` beside 1,000.

`worst_wait_ratio_32` is the longest wait of 32 processes for a change, against the longest wait
for nothing but a blocking flock that each holds for as long as one process needs for a change.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count, product
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median
from typing import Any

from bench.harness import Figures
from hostler.clock import SystemClock
from hostler.governor.gates import LeaseGranted, LeaseRequest
from hostler.governor.holders import read_host
from hostler.governor.leases import acquire, release_lease
from hostler.governor.policy import Policy
from hostler.store import Patience, open_store
from hostler.store.admin.migrate import upgrade
from hostler.store.engine.backend import find_place

SECONDS = 1.0
ROUNDS = 3
CROWDS = (1, 2, 8, 32)
FEW, MANY = 8, 1000
CAP = 5000
CONTEXT = multiprocessing.get_context("forkserver")
# Nobody gives up in a benchmark.
PATIENCE = Patience(queue_seconds=120.0, begin_seconds=120.0)
POLICY = Policy(default_cap=CAP, memory_floor_mb=0)
PROJECTS = 8
INSERT = "INSERT INTO store_meta (key, value) VALUES (?, 'x')"
DELETE = "DELETE FROM store_meta WHERE key = ?"

_names = count()

# Does one change: the first takes, the second gives back, and so on.
Change = Callable[[], None]
# What one process measured: changes made, and the longest wait for one.
Tally = tuple[int, float]


def leases_of_ours(home: Path, name: str) -> Iterator[None]:
    """Each step is one change through the governor."""
    store, here, numbers = open_store(home, patience=PATIENCE), read_host(), count()
    while True:
        ask = LeaseRequest(f"{name}-{next(numbers)}", f"project-{name}", width=3)
        with store.write("admission", relaxed=True) as tx:
            assert isinstance(acquire(tx, ask, POLICY, here), LeaseGranted)
        yield
        with store.write("admission", relaxed=True) as tx:
            release_lease(tx, ask.lease)
        yield


def one_row(home: Path, name: str) -> Iterator[None]:
    """Each step is one write of one row through the store."""
    store, numbers = open_store(home, patience=PATIENCE), count()
    while True:
        key = f"{name}-{next(numbers)}"
        for statement in (INSERT, DELETE):
            with store.write("admission", relaxed=True) as tx:
                tx.constant(statement, (key,))
            yield


def lease_files(home: Path, name: str) -> Iterator[None]:
    """Each step is one change in a folder of files."""
    folder, numbers = home / "slots", count()
    while True:
        file = folder / f"{name}-{next(numbers)}.json"
        with _locked(home / "slots.lock"):
            living = sum(_lives(lease) for lease in folder.glob("*.json"))
            assert living < CAP
            _write_synced(file, _lease_text(name))
        yield
        with _locked(home / "slots.lock"):
            file.unlink()
        yield


def flock_alone(home: Path, _name: str) -> Iterator[None]:
    """Each step holds a lock for as long as a change takes one process alone."""
    hold = float((home / "hold").read_text())
    while True:
        with _locked(home / "flock"):
            end = time.perf_counter() + hold
            while time.perf_counter() < end:
                pass
        yield


def _lives(lease: Path) -> bool:
    try:
        os.kill(json.loads(lease.read_text())["pid"], 0)
    except ProcessLookupError:
        lease.unlink()
        return False
    return True


def _lease_text(name: str) -> str:
    who = {"project": f"project-{name}", "task": "t", "pid": os.getpid(), "model": "m"}
    return json.dumps({**who, "acquired_at": time.time(), "provider": "anthropic"})


def _write_synced(file: Path, text: str) -> None:
    with file.open("x") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    # Else the file may be whole and its name gone.
    folder = os.open(file.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _work(pipe: Connection, make: Any, home: Path, name: str) -> None:
    changes = make(home, name)
    next(changes)
    next(changes)
    pipe.send("ready")
    pipe.recv()
    pipe.send(_repeat(lambda: next(changes)))


def _repeat(change: Change) -> Tally:
    done, worst, end = 0, 0.0, time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < end:
        change()
        worst = max(worst, time.perf_counter() - start)
        done += 1
    return done, worst


def _together(crowd: int, make: Any, home: Path) -> Tally:
    """All changes of a crowd, and the longest wait of any of them."""
    started: list[tuple[BaseProcess, Connection]] = []
    for _ in range(crowd):
        ours, theirs = CONTEXT.Pipe()
        process: BaseProcess = CONTEXT.Process(
            target=_work, args=(theirs, make, home, str(next(_names)))
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
    return sum(done for done, _ in tallies), max(worst for _, worst in tallies)


@contextmanager
def _home(standing: int) -> Iterator[Path]:
    """A home with standing leases, in the database and as files; we are their holder."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "slots").mkdir()
        place, clock = find_place(home), SystemClock()
        upgrade(home, place, clock=clock, patience=PATIENCE, progress=lambda _done, _all: None)
        with closing(open_store(home)) as store, store.write("admission") as tx:
            for number in range(standing):
                ask = LeaseRequest(f"standing-{number}", f"standing-{number % PROJECTS}")
                assert isinstance(acquire(tx, ask, POLICY, read_host()), LeaseGranted)
                (home / "slots" / f"{ask.lease}.json").write_text(_lease_text(ask.project))
        yield home


KINDS: dict[str, Any] = {
    "ours": leases_of_ours,
    "files_fsync": lease_files,
    "one_row_write": one_row,
}


def _rates(homes: list[Path]) -> list[dict[str, dict[str, float]]]:
    """Medians for each home, measured in turns so that noise hits all alike."""
    found: dict[tuple[Path, str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for crowd, (kind, make), home in product(CROWDS, KINDS.items(), homes):
            done, _ = _together(crowd, make, home)
            found.setdefault((home, kind, crowd), []).append(done / SECONDS)
    return [
        {kind: {str(n): median(found[home, kind, n]) for n in CROWDS} for kind in KINDS}
        for home in homes
    ]


def _waits(home: Path) -> Figures:
    """The longest waits of the largest crowd, in turns."""
    alone = median(_together(1, leases_of_ours, home)[0] for _ in range(ROUNDS)) / SECONDS
    (home / "hold").write_text(str(1 / alone))
    ours, flock = [], []
    for _ in range(ROUNDS):
        ours.append(_together(CROWDS[-1], leases_of_ours, home)[1])
        flock.append(_together(CROWDS[-1], flock_alone, home)[1])
    return {
        "worst_wait_ms_32": median(ours) * 1000,
        "worst_flock_wait_ms_32": median(flock) * 1000,
        "worst_wait_ratio_32": median(ours) / median(flock),
    }


def run() -> Figures:
    """At 1, 2, 8 and 32 processes, beside few and many standing leases."""
    CONTEXT.set_forkserver_preload(["hostler.governor", "bench.leases"])
    with _home(FEW) as beside_few, _home(MANY) as beside_many:
        few, many = _rates([beside_few, beside_many])
        waits = _waits(beside_few)
    ours = few["ours"]
    return {
        **few,
        "at_1000": many,
        **waits,
        "ratio_to_files": {n: rate / few["files_fsync"][n] for n, rate in ours.items()},
        "ratio_to_files_at_1000": {
            n: rate / many["files_fsync"][n] for n, rate in many["ours"].items()
        },
        "cost_to_one_row": {n: few["one_row_write"][n] / rate for n, rate in ours.items()},
        "cost_1000_to_8": {n: rate / many["ours"][n] for n, rate in ours.items()},
    }
