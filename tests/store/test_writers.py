"""The queue of writers: threads, stopped and foreign holders, forks, inherited descriptors."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from children import Child
from database import HASTY, PATIENT, Database, no_progress
from next_revision import next_plan
from sqlalchemy import insert

from hostler.clock import SystemClock
from hostler.errors import StoreBusy
from hostler.store.admin.backup import read_meta
from hostler.store.admin.inspect import vacuum
from hostler.store.admin.migrate import upgrade
from hostler.store.engine import locks
from hostler.store.engine.backend import SqlitePlace
from hostler.store.engine.sqlite import WriterQueue
from hostler.store.schema import store_meta


def put(store, key):
    with store.write() as tx:
        tx.execute(insert(store_meta).values(key=key, value="x"))


def keys(store):
    with store.read() as tx:
        return set(read_meta(tx))


def hold_a_write(pipe, home):
    store = Database(home).open()
    with store.write() as tx:
        tx.execute(insert(store_meta).values(key="held", value="x"))
        pipe.send("writing")
        pipe.recv()
    pipe.send("stored")


def hold_the_queue_alone(pipe, home):
    queue = WriterQueue(Database(home).place.writer)
    with queue.turn(PATIENT, SystemClock()):
        pipe.send("queueing")
        pipe.recv()


def write_and_say_so(pipe, home, key):
    store = Database(home).open()
    pipe.send("ready")
    put(store, key)
    pipe.send("stored")


@pytest.fixture
def database(sqlite_database):
    return sqlite_database


def test_two_threads_with_stores_of_their_own_are_never_inside_together(database):
    inside, most, guard = 0, 0, threading.Lock()

    def work(number):
        nonlocal inside, most
        with closing(database.open()) as store:
            for turn in range(5):
                with store.write() as tx:
                    with guard:
                        inside += 1
                        most = max(most, inside)
                    tx.execute(insert(store_meta).values(key=f"{number}-{turn}", value="x"))
                    with guard:
                        inside -= 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    with closing(database.open()) as store:
        assert len(keys(store)) >= 40


def test_a_stopped_writer_is_named_and_harms_nobody(database):
    child = Child(hold_a_write, database.home)
    assert child.hear() == "writing"
    os.kill(child.process.pid, signal.SIGSTOP)
    with closing(database.open(patience=HASTY)) as store:
        for _ in range(3):
            with pytest.raises(StoreBusy) as caught:
                put(store, "a")
            assert str(child.process.pid) in caught.value.holder
            assert caught.value.waited_seconds > 0
        assert "held" not in keys(store)
        os.kill(child.process.pid, signal.SIGCONT)
        child.tell()
        assert child.hear() == "stored"
        child.join()
    with closing(database.open()) as store:
        put(store, "b")
        assert {"held", "b"} <= keys(store)


def test_those_who_gave_up_leave_one_place_in_the_queue_and_not_one_each_time(database):
    child = Child(hold_a_write, database.home)
    child.hear()
    before = threading.active_count()
    with closing(database.open(patience=HASTY)) as store:
        for _ in range(3):
            with pytest.raises(StoreBusy):
                put(store, "a")
        assert threading.active_count() <= before + 1
        child.kill()
    with closing(database.open()) as store:
        put(store, "b")


def test_a_process_stopped_in_the_queue_but_not_in_a_write_stops_nobody(database):
    child = Child(hold_the_queue_alone, database.home)
    assert child.hear() == "queueing"
    os.kill(child.process.pid, signal.SIGSTOP)
    with closing(database.open(patience=HASTY)) as store:
        put(store, "a")
        assert "a" in keys(store)
    os.kill(child.process.pid, signal.SIGCONT)
    child.tell()
    child.join()


def test_a_writer_killed_in_the_middle_leaves_no_lock_and_no_row(database):
    child = Child(hold_a_write, database.home)
    child.hear()
    child.kill()
    with closing(database.open()) as store:
        put(store, "a")
        assert "a" in keys(store)
        assert "held" not in keys(store)
    assert database.inspect().sound


def test_a_foreign_program_that_writes_is_named(database):
    script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
    script += "c.execute('BEGIN IMMEDIATE'); print('writing', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, database.file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "writing\n"
        with closing(database.open(patience=HASTY)) as store:
            with pytest.raises(StoreBusy) as caught:
                put(store, "a")
            assert str(other.pid) in caught.value.holder
            other.communicate("")
            put(store, "b")


def test_who_waits_is_let_in_when_the_holder_has_ended(database):
    holder = Child(hold_a_write, database.home)
    holder.hear()
    waiting = [Child(write_and_say_so, database.home, f"w{number}") for number in range(4)]
    for child in waiting:
        assert child.hear() == "ready"
    holder.tell()
    for child in waiting:
        assert child.hear() == "stored"
    with closing(database.open()) as store:
        assert {"held", "w0", "w1", "w2", "w3"} <= keys(store)


def write_but_be_interrupted(pipe, home):
    store = Database(home).open()
    try:
        pipe.send("waiting")
        put(store, "first")
    except KeyboardInterrupt:
        pipe.send("interrupted")
    pipe.recv()
    put(store, "second")
    pipe.send("stored")


def test_who_is_interrupted_while_waiting_holds_nothing(database):
    holder = Child(hold_a_write, database.home)
    holder.hear()
    child = Child(write_but_be_interrupted, database.home)
    assert child.hear() == "waiting"
    os.kill(child.process.pid, signal.SIGINT)
    assert child.hear() == "interrupted"
    holder.tell()
    assert holder.hear() == "stored"
    with closing(database.open()) as store:
        put(store, "between")
        child.tell()
        assert child.hear() == "stored"
        assert {"between", "second"} <= keys(store)
        assert "first" not in keys(store)


def test_a_child_that_inherits_descriptors_keeps_no_lock(database):
    reader, writer = os.pipe()
    with closing(database.open()) as store:
        with store.write() as tx:
            tx.execute(insert(store_meta).values(key="a", value="x"))
            forked = os.fork()
            if forked == 0:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            spawned = subprocess.Popen(
                [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False
            )
        other = Child(write_and_say_so, database.home, "b")
        assert other.hear() == "ready"
        assert other.hear() == "stored"
        assert {"a", "b"} <= keys(store)
    os.close(writer)
    os.close(reader)
    os.waitpid(forked, 0)
    spawned.communicate(b"\n")


def fork_inside_a_write_then_hang(pipe, home):
    store = Database(home).open()
    with store.write():
        if os.fork() == 0:
            pipe.send(os.getpid())
            signal.pause()
        signal.pause()


def test_a_child_outliving_its_killed_parent_keeps_no_lock(database):
    parent = Child(fork_inside_a_write_then_hang, database.home)
    orphan = parent.hear()
    parent.process.kill()
    parent.process.join()
    with closing(database.open()) as store:
        put(store, "a")
        assert "a" in keys(store)
    os.kill(orphan, signal.SIGKILL)


def test_the_kernels_list_of_locks_is_read_with_care(tmp_path):
    assert locks.sqlite_writer(tmp_path / "missing-shm") is None
    path = tmp_path / "hostler.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (a)")
        shm = SqlitePlace(path).shm
        assert locks.sqlite_writer(shm) is None
        connection.execute("BEGIN IMMEDIATE")
        assert str(os.getpid()) in locks.sqlite_writer(shm)


@contextmanager
def a_foreign_writer(file):
    """Another program that has SQLite's write lock."""
    script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
    script += "c.execute('BEGIN IMMEDIATE'); print('writing', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "writing\n"
        yield other
        other.communicate("")


def upgrade_hastily(database):
    upgrade(
        database.home,
        database.place,
        clock=SystemClock(),
        patience=HASTY,
        progress=no_progress,
        plan=next_plan(with_backup=False),
    )


def vacuum_hastily(database):
    vacuum(database.home, database.place, clock=SystemClock(), patience=HASTY)


@pytest.mark.parametrize("action", [upgrade_hastily, vacuum_hastily])
def test_an_upgrade_or_vacuum_in_vain_names_the_holder_and_how_long_it_waited(home, action):
    database = Database(home)
    database.upgrade()
    with a_foreign_writer(database.file) as other:
        with pytest.raises(StoreBusy) as caught:
            action(database)
        assert str(other.pid) in caught.value.holder
        assert caught.value.waited_seconds >= HASTY.begin_seconds


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_too_many_reads_at_once_blame_no_other_process(request, kind):
    database = request.getfixturevalue(f"{kind}_database")
    with closing(database.open(patience=HASTY)) as store, ExitStack() as reads:
        with pytest.raises(StoreBusy) as caught:
            for _ in range(16):
                reads.enter_context(store.read())
        assert "write lock" not in str(caught.value)
        assert "too many transactions" in str(caught.value)
        assert caught.value.waited_seconds >= HASTY.begin_seconds


def descriptors_of(path):
    here = Path("/proc/self/fd")
    return [int(found.name) for found in here.iterdir() if os.path.realpath(found) == str(path)]


def test_a_copy_of_the_descriptor_that_no_hook_closes_keeps_no_turn(database):
    side = database.place.writer
    with WriterQueue(side).turn(PATIENT, SystemClock()):
        copies = [os.dup(descriptor) for descriptor in descriptors_of(side)]
    assert copies
    with WriterQueue(side).turn(HASTY, SystemClock()) as turn:
        assert turn.in_order
    for copy in copies:
        os.close(copy)
