"""Many processes, killed at any moment: what was acknowledged is there, and nothing is locked."""

from __future__ import annotations

import os
from contextlib import closing
from itertools import count

import pytest
from children import Child
from database import Database
from sqlalchemy import insert, select

from hostler.store.schema import repositories, store_meta


def write_until_killed(pipe, home, name):
    """Two rows in each transaction; each is acknowledged after its commit."""
    store = Database(home).open()
    for number in count():
        with store.write(relaxed=number % 4 == 3) as tx:
            tx.execute(insert(store_meta).values(key=f"{name}/{number}", value="x"))
            tx.execute(insert(repositories).values(repo_full_name=f"{name}/{number}"))
        pipe.send(number)


def rows(database):
    with closing(database.open()) as store, store.read() as tx:
        meta = set(tx.execute(select(store_meta.c.key)).scalars())
        return meta, set(tx.execute(select(repositories.c.repo_full_name)).scalars())


@pytest.mark.parametrize("processes", [8, pytest.param(32, marks=pytest.mark.soak)])
def test_no_acknowledged_write_of_killed_processes_is_lost(sqlite_database, processes):
    children = [
        Child(write_until_killed, sqlite_database.home, f"p{number}") for number in range(processes)
    ]
    acknowledged = {number: [child.hear(), child.hear()] for number, child in enumerate(children)}
    # All are in the middle of something now; end them one after another, while the rest go on.
    for child in children:
        child.process.kill()
    for number, child in enumerate(children):
        acknowledged[number] += child.everything_heard()
        child.join()
    meta, names = rows(sqlite_database)
    said = {f"p{name}/{number}" for name, numbers in acknowledged.items() for number in numbers}
    assert said <= meta
    # Whole transactions only: both of a pair, or none.
    assert {key for key in meta if key.startswith("p")} == names
    # At most one unacknowledged write each: the one that was cut off.
    assert len(names) - len(said) <= processes
    assert sqlite_database.inspect().sound
    with closing(sqlite_database.open()) as store, store.write() as tx:
        tx.execute(insert(store_meta).values(key="after", value="x"))


def test_every_moment_of_one_writers_life_survives_its_death(sqlite_database):
    for round_ in range(12):
        child = Child(write_until_killed, sqlite_database.home, f"r{round_}")
        acknowledged = [child.hear() for _ in range(round_ + 1)]
        child.process.kill()
        acknowledged += child.everything_heard()
        child.join()
        meta, _ = rows(sqlite_database)
        assert {f"r{round_}/{number}" for number in acknowledged} <= meta
    assert sqlite_database.inspect().sound


def die_inside_a_write(pipe, home, url):
    store = Database(home, url).open()
    with store.write("x") as tx:
        tx.execute(insert(store_meta).values(key="cut off", value="x"))
        pipe.send("writing")
        pipe.recv()
        os._exit(1)


def test_a_write_that_was_cut_off_is_not_there_and_its_scope_is_free(database):
    child = Child(die_inside_a_write, database.home, database.url)
    child.hear()
    child.tell()
    child.join()
    with closing(database.open()) as store, store.write("x") as tx:
        assert "cut off" not in set(tx.execute(select(store_meta.c.key)).scalars())
        tx.execute(insert(store_meta).values(key="after", value="x"))
    assert database.inspect().sound
