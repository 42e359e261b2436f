"""What a message costs, against a bare loop that opens, locks, appends and lets go.

The bare loop encodes the same JSON and takes the same lock in the same way; it knows no ids, torn
ends, rotation or senders. Everything that our writers posted is then looked for in the file, with
nothing of ours but the lines.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench.harness import Figures
from hostler.bus.bus import Bus
from hostler.bus.message import MessageSender, MessageType
from hostler.bus.writer import BusOptions

PROCESSES = (1, 8, 32, 50)
ROUNDS = 9
# In each round, shared evenly among its processes: more than 100,000 in all.
MESSAGES = 4_000
SYNCED_MESSAGES = 400
FOLLOWED = 400
IDLE_SECONDS = 3.0
CONTEXT = multiprocessing.get_context("forkserver")

SENDER = MessageSender.agent(
    "20260301-120000-123-9f3a1c", "20260301-115958-stable-12-bugfix", "stable"
)
BODY = "The parser keeps empty lines now; the tests of the reader pass. " * 2
# Nobody gives up in a benchmark, and the file is looked through whole.
TERMS = BusOptions(lock_timeout_seconds=600, max_bytes=1 << 40)

Write = Callable[[str], object]


def _ours(path: Path, sync: bool) -> Write:
    terms = BusOptions(sync, TERMS.lock_timeout_seconds, max_bytes=TERMS.max_bytes)
    bus = Bus(path, options=terms)
    return lambda body: bus.post(MessageType.FACT, body, SENDER)


def _bare(path: Path, sync: bool) -> Write:
    name, sender = str(path), SENDER.stored()
    words = {"id": "20260301-120000-123456", "at": "2026-03-01T12:00:00.123Z", "type": "FACT"}

    def write(body: str) -> None:
        line = json.dumps({**words, "sender": sender, "body": body}).encode() + b"\n"
        file = os.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        while not _locked(file):
            time.sleep(0.01)
        os.write(file, line)
        fcntl.flock(file, fcntl.LOCK_UN)
        if sync:
            os.fdatasync(file)
        os.close(file)

    return write


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _work(pipe: Connection, make: Any, path: Path, sync: bool, name: str, count: int) -> None:
    write = make(path, sync)
    pipe.send("ready")
    pipe.recv()
    for number in range(count):
        write(f"{name}/{number} {BODY}")
    pipe.send("done")


def _together(make: Any, path: Path, processes: int, messages: int, sync: bool = False) -> float:
    """Seconds until all of them have written their share."""
    started = []
    for number in range(processes):
        ours, theirs = CONTEXT.Pipe()
        arguments = (theirs, make, path, sync, str(number), messages // processes)
        process = CONTEXT.Process(target=_work, args=arguments)
        process.start()
        theirs.close()
        started.append((process, ours))
    for _, pipe in started:
        pipe.recv()
    start = time.perf_counter()
    for _, pipe in started:
        pipe.send("go")
    for _, pipe in started:
        pipe.recv()
    taken = time.perf_counter() - start
    for process, _ in started:
        process.join()
    return taken


class _Check:
    """Looks at the files of our writers from outside."""

    def __init__(self) -> None:
        self.messages = self.lost = self.torn = self.out_of_order = 0

    def __call__(self, path: Path, processes: int, messages: int) -> None:
        share = messages // processes
        expected = Counter(f"{name}/{n}" for name in range(processes) for n in range(share))
        found: Counter[str] = Counter()
        last = ""
        for line in path.read_bytes().splitlines():
            try:
                message = json.loads(line)
            except ValueError:
                self.torn += 1
                continue
            found[message["body"].split()[0]] += 1
            self.out_of_order += message["id"] <= last
            last = message["id"]
        self.messages += expected.total()
        self.lost += (expected - found).total()
        self.torn += (found - expected).total()


def _measure(processes: int, messages: int, rounds: int, check: _Check, sync: bool) -> Figures:
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(rounds):
        for name, make in (("ours", _ours), ("bare", _bare)):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "bus.jsonl"
                times[name].append(_together(make, path, processes, messages, sync))
                if name == "ours":
                    check(path, processes, messages)
    ours, bare = median(times["ours"]), median(times["bare"])
    return {
        # Of each pair, which stood next to each other in time: noise hits both alike.
        "ratio": median(o / b for o, b in zip(times["ours"], times["bare"], strict=True)),
        "messages_per_second": messages / ours,
        "bare_messages_per_second": messages / bare,
    }


def _follow(pipe: Connection, path: Path) -> None:
    bus = Bus(path)
    messages = bus.follow(after="")
    pipe.send("ready")
    first = next(messages)
    assert first.body == "first"
    used, began = time.process_time(), time.perf_counter()
    pipe.send("idle")
    delays = []
    for message in messages:
        now = time.monotonic()
        if message.body == "begin":
            idle = (time.process_time() - used) / (time.perf_counter() - began)
        elif message.body == "end":
            break
        else:
            delays.append(now - float(message.body))
    pipe.send((delays, idle))


def _follow_figures() -> Figures:
    """How late a follower in another process hears of a message, and what it uses while idle."""
    with tempfile.TemporaryDirectory() as folder:
        bus = Bus(Path(folder) / "bus.jsonl")
        ours, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=_follow, args=(theirs, bus.path))
        process.start()
        theirs.close()
        ours.recv()
        bus.post(MessageType.INFO, "first", SENDER)
        ours.recv()
        time.sleep(IDLE_SECONDS)
        bus.post(MessageType.INFO, "begin", SENDER)
        for _ in range(FOLLOWED):
            # Long enough for the follower to fall asleep again.
            time.sleep(0.01)
            bus.post(MessageType.INFO, repr(time.monotonic()), SENDER)
        bus.post(MessageType.INFO, "end", SENDER)
        delays, idle = ours.recv()
        process.join()
    in_ms = sorted(delay * 1000 for delay in delays)
    return {
        "follow_p50_ms": median(in_ms),
        "follow_p99_ms": quantiles(in_ms, n=100)[98],
        "follow_worst_ms": in_ms[-1],
        "follow_idle_cpu_percent": idle * 100,
    }


def run() -> Figures:
    """Ratios by the number of processes, what is missing, and the time to a follower."""
    CONTEXT.set_forkserver_preload(["hostler.bus", "bench.bus"])
    check = _Check()
    plain = {n: _measure(n, MESSAGES, ROUNDS, check, sync=False) for n in PROCESSES}
    synced = {n: _measure(n, SYNCED_MESSAGES, 3, check, sync=True) for n in (1, 8)}
    return {
        "ratio_to_bare_append": {str(n): found["ratio"] for n, found in plain.items()},
        "ratio_to_bare_append_synced": {str(n): found["ratio"] for n, found in synced.items()},
        "messages": check.messages,
        "lost": check.lost,
        "torn": check.torn,
        "out_of_order": check.out_of_order,
        **_follow_figures(),
        "messages_per_second": {str(n): f["messages_per_second"] for n, f in plain.items()},
        "bare_messages_per_second": {
            str(n): found["bare_messages_per_second"] for n, found in plain.items()
        },
    }
