"""A store on both sides of a fork, on both databases."""

from __future__ import annotations

import gc
import os
from contextlib import closing

import pytest
from sqlalchemy import insert

from hostler.store.admin.backup import read_meta
from hostler.store.engine import sqlite
from hostler.store.engine.backend import PerProcess
from hostler.store.schema import store_meta


def put(store, key):
    with store.write() as tx:
        tx.execute(insert(store_meta).values(key=key, value="x"))


def keys(store):
    with store.read() as tx:
        return set(read_meta(tx))


def in_a_forked_child(work):
    """Run work in a fork; what it says, or the error's name."""
    reader, writer = os.pipe()
    forked = os.fork()
    if forked == 0:
        try:
            said = str(work())
        except BaseException as error:
            said = type(error).__name__
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(forked, 0)
    return said


def test_a_store_goes_on_working_on_both_sides_of_a_fork(store):
    put(store, "before")

    def in_child():
        put(store, "child")
        return sorted(keys(store) & {"before", "child"})

    assert in_a_forked_child(in_child) == "['before', 'child']"
    put(store, "parent")
    assert {"before", "child", "parent"} <= keys(store)


def test_a_child_cannot_end_its_parents_transaction(store):
    with store.write() as tx:
        tx.execute(insert(store_meta).values(key="a", value="x"))

        def use():
            tx.execute(insert(store_meta).values(key="b", value="x"))

        assert in_a_forked_child(use) == "RuntimeError"
        tx.execute(insert(store_meta).values(key="c", value="x"))
    assert {"a", "c"} <= keys(store)
    assert "b" not in keys(store)


def test_a_child_that_leaves_its_parents_block_stores_nothing(store):
    reader, writer = os.pipe()
    forked = -1
    try:
        with store.write() as tx:
            tx.execute(insert(store_meta).values(key="a", value="x"))
            forked = os.fork()
            if forked:
                os.close(writer)
                assert os.read(reader, 1) == b""
                assert "a" not in keys(store)
    except BaseException:
        if forked:
            raise
    finally:
        if forked == 0:
            os._exit(0)
    os.waitpid(forked, 0)
    os.close(reader)
    assert "a" in keys(store)


def test_a_waiting_store_can_be_forked(store):
    mark = store.change_mark()

    def in_child():
        first = store.change_mark()
        put(store, "child")
        return store.wait_for_change(first, timeout=0) != first

    assert in_a_forked_child(in_child) == "True"
    assert store.wait_for_change(mark) != mark


def test_a_child_forked_while_a_thread_looks_for_its_queue_can_write(sqlite_database):
    def in_child():
        with closing(sqlite_database.open()) as store:
            put(store, "child")
        return "stored"

    # As a thread of the parent would hold it at that moment.
    with sqlite._queues_guard:
        assert in_a_forked_child(in_child) == "stored"


class Ended:
    """Says in a pipe that it was thrown away."""

    def __init__(self, pipe):
        self.pipe = pipe

    def __del__(self):
        os.write(self.pipe, b"ended")


def test_what_a_child_inherited_is_not_even_thrown_away():
    reader, writer = os.pipe()
    own = PerProcess(lambda: Ended(writer))

    def in_child():
        gc.collect()
        return id(own.value)

    assert in_a_forked_child(in_child) != str(id(own.value))
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        os.read(reader, 5)
    own.value = None
    gc.collect()
    assert os.read(reader, 5) == b"ended"
    os.close(reader)
    os.close(writer)
