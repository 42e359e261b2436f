"""Waiting for a commit: inside a process, across processes, without missing one."""

from __future__ import annotations

import os
import threading
from contextlib import closing

import pytest
from children import Child
from database import Database
from sqlalchemy import insert

from hostler.store.admin.backup import read_meta
from hostler.store.engine import postgres as listener_module
from hostler.store.engine.postgres import CHANNEL, Listener
from hostler.store.schema import store_meta
from hostler.store.store import Changes

POLL = 0.25


def put(store, key):
    with store.write() as tx:
        tx.execute(insert(store_meta).values(key=key, value="x"))


def write_when_told(pipe, home, url):
    store = Database(home, url).open()
    pipe.send("ready")
    while True:
        put(store, pipe.recv())
        pipe.send("stored")


class Waiter(threading.Thread):
    """Waits in a thread and keeps the answer."""

    def __init__(self, store, since, timeout=None):
        super().__init__(daemon=True)
        self.store, self.since, self.timeout = store, since, timeout
        self.mark = None
        self.start()

    def run(self):
        self.mark = self.store.wait_for_change(self.since, self.timeout)

    def answer(self):
        self.join(60)
        assert not self.is_alive(), "the waiter was not woken"
        return self.mark


@pytest.fixture
def writer(database):
    child = Child(write_when_told, database.home, database.url)
    assert child.hear() == "ready"
    yield child
    child.kill()


def test_a_commit_of_the_same_process_wakes_at_once(store, clock):
    mark = store.change_mark()
    waiter = Waiter(store, mark)
    clock.wait_for_waiters()
    put(store, "a")
    assert waiter.answer() != mark


def test_a_commit_of_another_process_wakes(store, clock, writer):
    mark = store.change_mark()
    waiter = Waiter(store, mark)
    clock.wait_for_waiters()
    writer.tell("a")
    assert writer.hear() == "stored"
    clock.advance(POLL)
    assert waiter.answer() != mark
    with store.read() as tx:
        assert "a" in read_meta(tx)


def test_a_commit_between_the_mark_and_the_wait_is_not_missed(store, writer):
    mark = store.change_mark()
    put(store, "mine")
    after_mine = store.wait_for_change(mark)
    assert after_mine != mark
    writer.tell("theirs")
    writer.hear()
    assert Waiter(store, after_mine).answer() != after_mine


def test_without_a_commit_the_time_runs_out(store, clock):
    mark = store.change_mark()
    waiter = Waiter(store, mark, timeout=10 * POLL)
    for _ in range(10):
        clock.wait_for_waiters()
        clock.advance(POLL)
    assert waiter.answer() == mark
    assert store.wait_for_change(mark, timeout=0) == mark


def test_what_was_undone_wakes_nobody(store, clock):
    mark = store.change_mark()
    with pytest.raises(ValueError), store.write() as tx:
        tx.execute(insert(store_meta).values(key="a", value="x"))
        raise ValueError
    assert store.wait_for_change(mark, timeout=0) == mark


def test_ones_own_commit_wakes_only_once(store):
    mark = store.change_mark()
    put(store, "a")
    after = store.change_mark()
    assert after != mark
    assert store.wait_for_change(after, timeout=0) == after


def test_every_waiter_is_woken(store, clock):
    mark = store.change_mark()
    waiters = [Waiter(store, mark) for _ in range(5)]
    clock.wait_for_waiters(5)
    put(store, "a")
    assert all(waiter.answer() != mark for waiter in waiters)


def test_a_wall_clock_that_jumps_neither_wakes_nor_delays(sqlite_store, clock):
    mark = sqlite_store.change_mark()
    waiter = Waiter(sqlite_store, mark, timeout=POLL)
    clock.wait_for_waiters()
    clock.jump(-86_400)
    clock.jump(3 * 86_400)
    assert waiter.is_alive()
    clock.advance(POLL)
    assert waiter.answer() == mark


def test_nobody_asks_while_nobody_waits(clock):
    asked = []
    changes = Changes(clock, lambda: asked.append(1) or 1, POLL)
    changes.committed()
    clock.advance(100 * POLL)
    assert asked == []


@pytest.mark.postgres
def test_a_listener_that_lost_its_server_listens_again(postgres_database, server, clock):
    with closing(postgres_database.open(clock)) as store:
        mark = store.change_mark()
        waiter = Waiter(store, mark)
        clock.wait_for_waiters()
        name = server.name_of(postgres_database.url)
        server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE datname = '{name}' AND query LIKE 'LISTEN%'"
        )
        # What was said meanwhile is unknown, so it counts as a change.
        after = waiter.answer()
        assert after != mark
        waiter = Waiter(store, after)
        clock.wait_for_waiters()
        with closing(postgres_database.open(clock)) as other:
            put(other, "a")
        assert waiter.answer() != after


@pytest.mark.postgres
def test_a_listener_counts_what_others_say_and_not_what_we_say(postgres_database, server):
    looked = threading.Semaphore(0)

    def me():
        looked.release()
        return "me"

    listener = Listener(postgres_database.place, me, lambda: None)
    before = listener.heard()
    name = server.name_of(postgres_database.url)
    for sender in ("me", "other", "me", "me"):
        server.sql(f"NOTIFY {CHANNEL}, '{sender}'", name)
    # Whose name is asked for a fourth time has dealt with three.
    assert all(looked.acquire(timeout=60) for _ in range(4))
    assert listener.heard() == before + 1
    listener.close()


@pytest.mark.postgres
def test_a_listener_that_cannot_reconnect_closes_its_descriptors_once(
    postgres_database, server, monkeypatch
):
    def refuse(place):
        raise ConnectionRefusedError

    lost = threading.Event()
    listener = Listener(postgres_database.place, lambda: "me", lost.set)
    listener.heard()
    name = server.name_of(postgres_database.url)
    server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE datname = '{name}' AND query LIKE 'LISTEN%'"
    )
    assert lost.wait(60)
    listener._ear.join()
    monkeypatch.setattr(listener_module, "_connect", refuse)
    with pytest.raises(ConnectionRefusedError):
        listener.heard()
    # These get the numbers of the descriptors that the first attempt closed.
    reader, writer = os.pipe()
    with pytest.raises(ConnectionRefusedError):
        listener.heard()
    os.close(reader)
    os.close(writer)
    listener.close()
