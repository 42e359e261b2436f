"""The lock: tried for, timed out, tried for again, and who has it."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from pathlib import Path

import pytest
from bus_fixture import AGENT, INFO, Child, post_many

from hostler.bus.bus import Bus
from hostler.bus.errors import BusLocked, BusMissing, InvalidMessage
from hostler.bus.writer import BusOptions, ContentionStats
from hostler.clock import FakeClock

HASTY = BusOptions(lock_timeout_seconds=0.03, max_retries=2, retry_backoff_seconds=0.01)


class PassingClock(FakeClock):
    """A clock on which waiting makes time pass at once; it remembers each wait."""

    def __init__(self):
        super().__init__()
        self.waits: list[float] = []
        self.at_wait = lambda number: None

    def wakeup(self):
        clock = self

        class Passing:
            def wait(self, timeout):
                clock.waits.append(timeout)
                clock.advance(timeout)
                clock.at_wait(len(clock.waits))
                return False

        return Passing()


@pytest.fixture
def held(path):
    """A lock that somebody else holds."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield descriptor
    os.close(descriptor)


def pauses(clock):
    return [round(wait, 6) for wait in clock.waits if wait > 0.01]


def test_it_is_tried_every_ten_milliseconds_for_ten_seconds_three_times(path, held):
    clock = PassingClock()
    bus = Bus(path, clock)
    with pytest.raises(BusLocked) as caught:
        bus.post(INFO, "x", AGENT)
    assert pauses(clock) == [0.1, 0.2]
    assert 3000 <= len(clock.waits) - 2 <= 3003
    assert caught.value.attempts == 3
    assert caught.value.waited_seconds == pytest.approx(30.3)
    assert bus.contention_stats == ContentionStats(attempts=3, retries=2)
    assert path.read_bytes() == b"", "nothing was posted"


def test_a_later_attempt_posts_and_tells_how_many_it_took(path, held):
    clock = PassingClock()
    bus = Bus(path, clock)

    def let_go(number):
        if len(pauses(clock)) == 1 and clock.waits[-1] > 0.01:
            fcntl.flock(held, fcntl.LOCK_UN)

    clock.at_wait = let_go
    message = bus.post(INFO, "x", AGENT)
    assert (message.attempts, bus.contention_stats) == (2, ContentionStats(attempts=2, retries=1))
    bus.post(INFO, "y", AGENT)
    stats = Bus(path).stats()
    assert (stats.messages, stats.attempts, stats.retries) == (2, 3, 1)
    assert bus.contention_stats == ContentionStats(attempts=3, retries=1)


def test_it_is_had_as_soon_as_it_is_free(path, held):
    clock = PassingClock()
    clock.at_wait = lambda number: number == 5 and fcntl.flock(held, fcntl.LOCK_UN)
    assert Bus(path, clock).post(INFO, "x", AGENT).attempts == 1
    assert clock.waits == [0.01] * 5


def test_the_settings_are_obeyed(path, held):
    clock = PassingClock()
    terms = BusOptions(lock_timeout_seconds=1, max_retries=4, retry_backoff_seconds=0.5)
    with pytest.raises(BusLocked) as caught:
        Bus(path, clock, terms).post(INFO, "x", AGENT)
    assert pauses(clock) == [0.5, 1, 2]
    assert caught.value.attempts == 4


def test_any_other_trouble_is_told_at_once(tmp_path):
    clock = PassingClock()
    bus = Bus(tmp_path / "absent" / "bus.jsonl", clock)
    with pytest.raises(BusMissing):
        bus.post(INFO, "x", AGENT)
    assert (clock.waits, bus.contention_stats) == ([], ContentionStats(attempts=1, retries=0))
    with pytest.raises(InvalidMessage):
        bus.post(INFO, "x" * 70_000, AGENT)
    assert bus.contention_stats == ContentionStats(attempts=1, retries=0), "not even tried"


def test_readers_need_no_lock(path, held):
    post_many(Bus(path.with_name("other.jsonl")), 3)
    path.write_bytes(path.with_name("other.jsonl").read_bytes())
    bus = Bus(path)
    assert len(bus.since()) == len(bus.tail(3)) == bus.stats().messages == 3


def hold_the_lock(pipe, path):
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    pipe.send(os.getpid())
    pipe.recv()


def test_a_stopped_holder_is_named_and_nothing_is_posted(path):
    child = Child(hold_the_lock, path)
    pid = child.hear()
    os.kill(pid, signal.SIGSTOP)
    wait_until_stopped(pid)
    bus = Bus(path, options=HASTY)
    with pytest.raises(BusLocked) as caught:
        bus.post(INFO, "x", AGENT)
    assert f"pid {pid}, stopped" in caught.value.holder
    assert str(pid) in caught.value.what and str(path) in caught.value.what
    assert list(bus.since()) == []
    os.kill(pid, signal.SIGCONT)
    child.tell()
    child.join()
    assert bus.post(INFO, "y", AGENT).attempts == 1


def wait_until_stopped(pid):
    """The child belongs to the fork server, so that we cannot wait for it; we look."""
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        os.sched_yield()


def test_a_running_holder_is_named_too(path):
    child = Child(hold_the_lock, path)
    pid = child.hear()
    with pytest.raises(BusLocked) as caught:
        Bus(path, options=HASTY).post(INFO, "x", AGENT)
    assert f"(pid {pid})" in caught.value.holder
    child.process.kill()
    child.join()
    assert Bus(path, options=HASTY).post(INFO, "x", AGENT)


def test_where_nothing_tells_who_it_is_that_is_said(path, held, monkeypatch):
    from hostler.bus import writer

    monkeypatch.setattr(writer, "Path", lambda name: path.parent / "absent")
    with pytest.raises(BusLocked, match="another process"):
        Bus(path, options=HASTY).post(INFO, "x", AGENT)


def test_threads_that_share_a_bus_do_not_share_the_lock(path):
    bus = Bus(path, options=BusOptions(max_bytes=4000))
    barrier = threading.Barrier(8)

    def work(name):
        barrier.wait()
        post_many(bus, 40, f"{name}/")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = list(bus.since())
    for name in "abcdefgh":
        own = [m.body for m in found if m.body.startswith(f"{name}/")]
        assert own == [f"{name}/{number}" for number in range(40)]
    assert len(found) == bus.contention_stats.attempts == 320


def test_a_forked_child_posts_on_its_own(path):
    bus = Bus(path)
    bus.post(INFO, "parent", AGENT)
    with bus._writer._counting:  # held by another thread at the moment of the fork, say
        pid = os.fork()
        if pid == 0:
            try:
                bus.post(INFO, "child", AGENT)
            finally:
                os._exit(0)
    os.waitpid(pid, 0)
    bus.post(INFO, "parent", AGENT)
    assert [m.body for m in bus.since()] == ["parent", "child", "parent"]


def test_the_lock_is_let_go_even_if_a_child_inherited_the_descriptor(path, monkeypatch):
    """Closing alone would leave it with the child."""
    bus = Bus(path, options=HASTY)
    real, copies = os.write, []

    def write_and_copy(descriptor, data):
        copies.append(os.dup(descriptor))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write_and_copy)
    bus.post(INFO, "a", AGENT)
    bus.post(INFO, "b", AGENT)
    assert len(bus.since()) == len(copies) == 2
    for copy in copies:
        os.close(copy)
