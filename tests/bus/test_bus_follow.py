"""Followers: woken by events, reading only what is new, going on by an id."""

from __future__ import annotations

import os
import queue
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from bus_fixture import AGENT, INFO, PATIENCE, Child, bodies, post_many

from hostler.bus import files as lines_module
from hostler.bus import watch as inotify_module
from hostler.bus import watch as watch_module
from hostler.bus.bus import Bus
from hostler.bus.message import BEGINNING
from hostler.bus.watch import POLL_SECONDS, InotifyWatch, PollingWatch, open_watch
from hostler.bus.writer import BusOptions
from hostler.clock import FakeClock, SystemClock


class Following:
    """A thread that follows, and what it heard."""

    def __init__(self, bus, after=None, using=None):
        self.watch = using or bus.watch()
        self._heard: queue.Queue = queue.Queue()
        messages = bus.follow(after, using=self.watch)
        self._thread = threading.Thread(target=self._work, args=(messages,), daemon=True)
        self._thread.start()

    def _work(self, messages):
        for message in messages:
            self._heard.put(message)

    def hear(self):
        return self._heard.get(timeout=PATIENCE).body

    def stop(self):
        self.watch.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it goes on following"
        self.watch.close()
        assert self._heard.empty()


@pytest.fixture
def never_looks(monkeypatch):
    """Whoever waits is woken by an event, or not in this test."""
    monkeypatch.setattr(watch_module, "FALLBACK_POLL_SECONDS", PATIENCE * 10)


def test_a_message_wakes_whoever_follows(bus, never_looks):
    bus.post(INFO, "before", AGENT)
    following = Following(bus)
    for number in range(5):
        bus.post(INFO, f"m{number}", AGENT)
        assert following.hear() == f"m{number}"
    following.stop()


def post_one(pipe, path, body):
    Bus(path).post(INFO, body, AGENT)


def test_another_process_wakes_it_too(bus, path, never_looks):
    following = Following(bus)
    Child(post_one, path, "from elsewhere").join()
    assert following.hear() == "from elsewhere"
    following.stop()


def test_now_is_when_follow_was_called_and_not_when_it_is_first_asked(bus):
    bus.post(INFO, "before", AGENT)
    messages = bus.follow()
    bus.post(INFO, "after", AGENT)
    assert next(messages).body == "after"
    messages.close()


def test_an_id_is_enough_to_go_on(path, never_looks):
    bus = Bus(path, options=BusOptions(max_bytes=700))
    said = post_many(bus, 10)
    first = bus.follow(after=BEGINNING)
    heard = [next(first) for _ in range(4)]
    first.close()
    following = Following(bus, after=heard[-1].id)
    assert [following.hear() for _ in range(6)] == bodies(said[4:])
    bus.post(INFO, "new", AGENT)
    assert following.hear() == "new"
    following.stop()


def test_it_goes_on_across_rotations(path, never_looks):
    bus = Bus(path, options=BusOptions(max_bytes=400))
    following = Following(bus)
    for number in range(20):
        bus.post(INFO, f"m{number}", AGENT)
        assert following.hear() == f"m{number}"
    following.stop()


def test_a_torn_line_is_not_heard_and_the_next_message_is(bus, path, never_looks):
    bus.post(INFO, "first", AGENT)
    following = Following(bus)
    with path.open("ab") as file:
        file.write(b'{"id":"2026')
    bus.post(INFO, "second", AGENT)
    assert following.hear() == "second"
    following.stop()


def test_a_bus_whose_folder_comes_later_is_followed_from_its_first_message(tmp_path):
    bus = Bus(tmp_path / "later" / "bus.jsonl")
    following = Following(bus)
    bus.create().post(INFO, "first", AGENT)
    assert following.hear() == "first"
    bus.post(INFO, "second", AGENT)
    assert following.hear() == "second"
    following.stop()


@pytest.mark.parametrize("lose", [shutil.rmtree, lambda folder: folder.rename(f"{folder}.old")])
def test_a_folder_that_goes_and_comes_again_is_followed_on(tmp_path, lose):
    bus = Bus(tmp_path / "folder" / "bus.jsonl").create()
    following = Following(bus)
    bus.post(INFO, "first", AGENT)
    assert following.hear() == "first"
    lose(bus.path.parent)
    bus.create().post(INFO, "second", AGENT)
    assert following.hear() == "second"
    following.stop()


def test_a_folder_that_is_not_there_yet_is_heard_of_and_not_looked_for(
    tmp_path, never_looks, monkeypatch
):
    monkeypatch.setattr(watch_module, "POLL_SECONDS", PATIENCE * 10)
    bus = Bus(tmp_path / "not" / "there" / "yet" / "bus.jsonl")
    following = Following(bus, after=BEGINNING)
    bus.create().post(INFO, "first", AGENT)
    assert following.hear() == "first"
    following.stop()


def test_one_watch_serves_many_buses(tmp_path, never_looks):
    buses = [Bus(tmp_path / name / "bus.jsonl").create() for name in "abc"]
    with open_watch(SystemClock(), [bus.path.parent for bus in buses]) as waiting:
        followers = [bus.follower() for bus in buses]
        for bus, follower in zip(buses, followers, strict=True):
            bus.post(INFO, "x", AGENT)
            while not (found := list(follower.new())):
                waiting.wait()
            assert bodies(found) == ["x"]
    for follower in followers:
        follower.close()


def test_a_stop_ends_the_waiting_also_before_it_began(bus, never_looks):
    following = Following(bus)
    following.stop()
    with bus.watch() as stopped:
        stopped.stop()
        stopped.wait()
        assert list(bus.follow(after=BEGINNING, using=stopped)) == []
    stopped.stop()  # closed already: no harm


def test_a_watch_is_not_closed_while_another_thread_stops_it():
    closing = []

    class Bell:
        closed = False

        def write(self, data):
            closing.append(pool.submit(watching.close))
            wait(closing, timeout=0.1)
            assert not self.closed, "closed while it was written to"

        def close(self):
            self.closed = True

    watching = InotifyWatch()
    watching._bell.close()
    watching._bell = bell = Bell()
    with ThreadPoolExecutor(1) as pool:
        watching.stop()
    closing[0].result()
    assert bell.closed
    watching.stop()  # writes nothing


def test_without_inotify_it_looks_again_and_again(bus, monkeypatch):
    def refused():
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(watch_module, "Inotify", refused)
    clock = FakeClock()
    waiting = open_watch(clock, [bus.path.parent])
    assert isinstance(waiting, PollingWatch)
    following = Following(bus, after=BEGINNING, using=waiting)
    for number in range(3):
        clock.wait_for_waiters()
        bus.post(INFO, f"m{number}", AGENT)
        clock.advance(POLL_SECONDS)
        assert following.hear() == f"m{number}"
    clock.wait_for_waiters()
    following.stop()


def test_a_system_that_has_no_inotify_is_no_trouble(monkeypatch):
    class Library:
        """A C library without it."""

    monkeypatch.setattr(inotify_module.ctypes, "CDLL", lambda *_, **__: Library())
    with open_watch(FakeClock()) as waiting:
        assert isinstance(waiting, PollingWatch)


def test_here_it_is_inotify():
    with open_watch(SystemClock()) as waiting:
        assert isinstance(waiting, InotifyWatch)


def test_following_leaves_no_descriptors_behind(bus):
    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    for _ in range(20):
        messages = bus.follow(after=BEGINNING)
        bus.post(INFO, "x", AGENT)
        next(messages)
        messages.close()
        bus.follow()  # never asked for anything
    assert descriptors() == before


@pytest.fixture
def read_bytes(monkeypatch):
    """How many bytes were read from files since it was last asked."""
    count = 0
    real = os.pread

    def pread(descriptor, size, place):
        nonlocal count
        data = real(descriptor, size, place)
        count += len(data)
        return data

    def taken():
        nonlocal count
        found, count = count, 0
        return found

    monkeypatch.setattr(lines_module.os, "pread", pread)
    return taken


def test_a_follower_reads_only_what_is_new(bus, read_bytes):
    follower = bus.follower(BEGINNING)
    post_many(bus, 3000)
    assert len(list(follower.new())) == 3000
    read_bytes()
    for _ in range(3):
        size = bus.path.stat().st_size
        assert list(follower.new()) == []
        assert read_bytes() == 0
        bus.post(INFO, "new", AGENT)
        read_bytes()
        assert bodies(follower.new()) == ["new"]
        assert read_bytes() == bus.path.stat().st_size - size


def test_the_last_ones_and_those_after_an_id_cost_little_however_long_the_history(bus, read_bytes):
    post_many(bus, 1)
    while bus.path.stat().st_size < 5_000_000:
        post_many(bus, 1000)
    said = list(bus.since())
    middle = said[len(said) // 2]
    read_bytes()
    assert list(bus.tail(5)) == said[-5:]
    assert read_bytes() < 16_000
    assert list(bus.since(said[-4].id)) == said[-3:]
    assert read_bytes() < 200_000
    assert bus.get(middle.id) == middle
    assert read_bytes() < 200_000
    Bus(bus.path).post(INFO, "x", AGENT)
    assert read_bytes() < 16_000
