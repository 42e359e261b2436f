"""What a transaction promises, on both databases."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from datetime import timedelta

import pytest
from sqlalchemy import func, insert, select

from hostler.errors import StoreConflict, StoreError, StoreReadOnly
from hostler.model import format_timestamp
from hostler.store.admin.backup import read_meta
from hostler.store.schema import repositories, store_meta
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import STORE_TRANSACTIONS


def put(tx, key, value="x"):
    tx.execute(insert(store_meta).values(key=key, value=value))


def keys(store):
    with store.read() as tx:
        return set(read_meta(tx))


def test_a_write_is_there_when_its_block_has_ended(store, opened):
    with store.write() as tx:
        put(tx, "a")
    assert "a" in keys(opened())


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_block_that_raises_leaves_nothing(store, error):
    with pytest.raises(error), store.write() as tx:
        put(tx, "a")
        raise error
    assert "a" not in keys(store)
    with store.write() as tx:
        put(tx, "b")
    assert "b" in keys(store)


def test_nobody_sees_a_write_before_it_is_whole(store, opened):
    other = opened()
    with store.write() as tx:
        put(tx, "a")
        assert "a" not in keys(other)
        put(tx, "b")
    assert {"a", "b"} <= keys(other)


def test_a_reader_sees_one_moment(store, opened):
    other = opened()
    with store.read() as tx:
        before = read_meta(tx)
        with other.write() as writing:
            put(writing, "a")
        assert read_meta(tx) == before
    assert "a" in keys(store)


def test_a_reader_cannot_write(store):
    with pytest.raises(StoreReadOnly), store.read() as tx:
        put(tx, "a")
    assert "a" not in keys(store)


def test_a_row_that_is_there_already_is_a_conflict(store):
    with store.write() as tx:
        put(tx, "a", "first")
    with pytest.raises(StoreConflict), store.write() as tx:
        put(tx, "a", "second")
    with store.read() as tx:
        assert read_meta(tx)["a"] == "first"


def test_a_failed_statement_undoes_the_block_even_if_swallowed(store):
    with pytest.raises(StoreConflict), store.write() as tx:
        put(tx, "a")
        try:
            put(tx, "a")
        except StoreConflict:
            with pytest.raises(RuntimeError, match="failed"):
                put(tx, "b")
    assert not {"a", "b"} & keys(store)


def test_a_transaction_is_of_no_use_after_its_block(store):
    with store.write() as tx:
        put(tx, "a")
    with pytest.raises(RuntimeError, match="has ended"):
        put(tx, "b")
    with pytest.raises(RuntimeError, match="has ended"):
        tx.constant("SELECT 1")


def test_a_write_inside_a_write_of_one_thread_is_a_mistake_and_not_a_deadlock(
    sqlite_store, sqlite_database
):
    with sqlite_store.write() as tx:
        put(tx, "a")
        with pytest.raises(RuntimeError, match=r"inside store\.write"), sqlite_store.write():
            pass
        other = sqlite_database.open()
        with pytest.raises(RuntimeError, match=r"inside store\.write"), other.write():
            pass
        other.close()
    assert "a" in keys(sqlite_store)


def test_a_write_inside_a_write_on_a_common_scope_is_a_mistake_on_both(store):
    with (
        store.write("x"),
        pytest.raises(RuntimeError, match=r"inside store\.write"),
        store.write("x"),
    ):
        pass


def test_threads_take_turns(store):
    def count_up():
        for _ in range(10):
            with store.write("count") as tx:
                value = int(read_meta(tx)["n"])
                tx.constant("UPDATE store_meta SET value = ? WHERE key = ?", (str(value + 1), "n"))

    with store.write() as tx:
        put(tx, "n", "0")
    threads = [threading.Thread(target=count_up) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.read() as tx:
        assert read_meta(tx)["n"] == "80"


def test_constant_statements_mark_values_alike_on_both(store):
    with store.write() as tx:
        tx.constant("INSERT INTO store_meta (key, value) VALUES (?, ?)", ("a", "50 %"))
        row = tx.constant("SELECT value FROM store_meta WHERE key = ?", ("a",)).one()
    assert row.value == "50 %"


def test_a_transaction_has_one_moment(store, clock):
    with store.write() as tx:
        first = tx.now()
        clock.advance(5)
        assert tx.now() == first
        assert tx.stamp() == format_timestamp(first)
        assert first.microsecond % 1000 == 0


def test_sqlite_takes_the_time_from_the_injected_clock(sqlite_store, clock):
    clock.jump(-3600)
    with sqlite_store.write() as tx:
        assert tx.now() == clock.now()
    clock.jump(7200)
    with sqlite_store.read() as tx:
        assert tx.now() == clock.now()


@pytest.mark.postgres
def test_postgresql_takes_the_time_from_the_server_after_its_locks(postgres_database, clock):
    store, other = postgres_database.open(clock), postgres_database.open(clock)
    times = {}

    def second():
        with other.write("x") as tx:
            times["second"] = tx.now()

    with store.write("x") as tx:
        thread = threading.Thread(target=second)
        thread.start()
        tx.constant("SELECT pg_sleep(0.05)")
        times["first"] = tx.now()
    thread.join()
    assert times["second"] >= times["first"]
    assert abs(times["first"] - clock.now()) > timedelta(days=1)
    store.close()
    other.close()


def test_defaults_of_the_database_have_the_form_of_our_stamps(store):
    with store.write() as tx:
        tx.execute(insert(repositories).values(repo_full_name="a/b"))
        made = tx.execute(select(repositories.c.added_at)).scalar_one()
        assert len(made) == len(tx.stamp())
        assert made[10] == "T"
        assert made.endswith("Z")


def test_numbers_beyond_32_bits_are_kept(store):
    with store.write() as tx:
        store.repo("a/b").add(tx, 2**53)
    with store.read() as tx:
        assert tx.execute(select(func.max(repositories.c.github_id))).scalar_one() == 2**53


def test_a_relaxed_write_is_there_too(store, opened):
    with store.write(relaxed=True) as tx:
        put(tx, "a")
    assert "a" in keys(opened())


def test_the_engines_of_sqlite_are_durable_relaxed_and_read_only(sqlite_store):
    def pragmas(tx):
        names = ("synchronous", "journal_mode", "query_only", "foreign_keys")
        return {name: tx.constant(f"PRAGMA {name}").scalar_one() for name in names}

    full, normal = 2, 1
    with sqlite_store.write() as tx:
        assert pragmas(tx)["synchronous"] == full
        assert pragmas(tx)["journal_mode"] == "wal"
        assert pragmas(tx)["foreign_keys"] == 1
    with sqlite_store.write(relaxed=True) as tx:
        assert pragmas(tx)["synchronous"] == normal
    with sqlite_store.read() as tx:
        assert pragmas(tx)["query_only"] == 1


@pytest.mark.postgres
def test_on_postgresql_only_relaxed_writes_commit_without_waiting_for_the_disk(postgres_database):
    store = postgres_database.open()
    with store.write() as tx:
        assert tx.constant("SHOW synchronous_commit").scalar_one() == "on"
    with store.write(relaxed=True) as tx:
        assert tx.constant("SHOW synchronous_commit").scalar_one() == "off"
    with store.write() as tx:
        assert tx.constant("SHOW synchronous_commit").scalar_one() == "on"
    store.close()


def test_no_read_stays_open_after_its_block(sqlite_store, sqlite_database):
    keys(sqlite_store)
    with sqlite_store.write() as tx:
        put(tx, "a")
    # Moving everything out of the log only works where no reader is left in it.
    with closing(sqlite3.connect(sqlite_database.file)) as other:
        busy, _, _ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert busy == 0
    assert sqlite_database.place.wal.stat().st_size == 0


def test_transactions_are_counted_by_kind_and_end(store):
    def counts():
        kinds = [
            ("write", "commit"),
            ("write", "rollback"),
            ("relaxed", "commit"),
            ("read", "commit"),
        ]
        return [metrics.value(STORE_TRANSACTIONS, kind=kind, end=end) for kind, end in kinds]

    before, waits = counts(), metrics.registry.get_sample_value("store_write_wait_seconds_count")
    with store.write():
        pass
    with pytest.raises(ZeroDivisionError), store.write():
        raise ZeroDivisionError
    with store.write(relaxed=True):
        pass
    with store.read():
        pass
    assert counts() == [count + 1 for count in before]
    assert metrics.registry.get_sample_value("store_write_wait_seconds_count") == waits + 3


@pytest.mark.postgres
def test_the_moment_on_postgresql_is_not_the_start_of_the_transaction(postgres_database):
    with closing(postgres_database.open()) as store, store.write() as tx:
        tx.constant("SELECT pg_sleep(0.05)")
        begun = tx.constant("SELECT now()").scalar_one()
        assert tx.now() - begun > timedelta(milliseconds=40)


def test_a_transaction_that_sqlite_ended_is_not_taken_for_stored(sqlite_store):
    with (
        pytest.raises(StoreError, match="ended a transaction by itself"),
        sqlite_store.write() as tx,
    ):
        put(tx, "a")
        tx.constant("ROLLBACK")
    assert "a" not in keys(sqlite_store)
    with sqlite_store.write() as tx:
        put(tx, "b")
    assert "b" in keys(sqlite_store)
