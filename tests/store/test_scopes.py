"""Scopes on PostgreSQL: who counts and then inserts does so alone."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from children import Child
from database import HASTY, Database
from sqlalchemy import func, insert, select

from hostler.errors import StoreBusy
from hostler.store.schema import repositories

CAP = 5
pytestmark = pytest.mark.postgres


def admit(tx, name):
    """Count, and insert only below the cap."""
    counted = tx.execute(select(func.count()).select_from(repositories)).scalar_one()
    if counted < CAP:
        tx.execute(insert(repositories).values(repo_full_name=name))
    return counted < CAP


def try_to_be_admitted(pipe, home, url, name):
    store = Database(home, url).open()
    pipe.send("ready")
    pipe.recv()
    admitted = 0
    for number in range(4):
        with store.write("admission") as tx:
            admitted += admit(tx, f"{name}/{number}")
    pipe.send(admitted)


def test_many_writers_under_one_scope_never_exceed_the_cap(postgres_database):
    database = postgres_database
    children = [
        Child(try_to_be_admitted, database.home, database.url, f"p{number}") for number in range(6)
    ]
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.tell()
    assert sum(child.hear() for child in children) == CAP
    with closing(database.open()) as store, store.read() as tx:
        assert tx.execute(select(func.count()).select_from(repositories)).scalar_one() == CAP


def test_without_a_common_scope_two_writers_both_count_the_old_number(postgres_database):
    """The trap itself: this is why scopes exist."""
    with closing(postgres_database.open()) as one, closing(postgres_database.open()) as other:
        done = []

        def second():
            with other.write("theirs") as tx:
                done.append(admit(tx, "second/1"))

        with one.write() as tx:
            for number in range(CAP - 1):
                tx.execute(insert(repositories).values(repo_full_name=f"full/{number}"))
        with one.write("ours") as tx:
            assert admit(tx, "first/1")
            thread = threading.Thread(target=second)
            thread.start()
            thread.join()
        assert done == [True]
        with one.read() as tx:
            counted = tx.execute(select(func.count()).select_from(repositories)).scalar_one()
        assert counted == CAP + 1


def test_two_writers_under_one_scope_run_one_after_another(postgres_database):
    with closing(postgres_database.open()) as one, closing(postgres_database.open()) as other:
        order = []
        started = threading.Event()

        def second():
            started.set()
            with other.write("b", "a") as tx:
                order.append("second")
                tx.now()

        with one.write("a", "b") as tx:
            thread = threading.Thread(target=second)
            thread.start()
            started.wait()
            tx.constant("SELECT pg_sleep(0.05)")
            order.append("first")
        thread.join()
    assert order == ["first", "second"]


def test_scopes_in_any_order_never_deadlock(postgres_database):
    def work(names):
        with closing(postgres_database.open()) as store:
            for _ in range(20):
                with store.write(*names):
                    pass

    orders = [("a", "b", "c"), ("c", "b", "a"), ("b", "a"), ("c", "a"), ("a",)]
    threads = [threading.Thread(target=work, args=(names,)) for names in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_who_waits_in_vain_for_a_scope_is_told_who_has_it(postgres_database):
    with (
        closing(postgres_database.open()) as one,
        closing(postgres_database.open(patience=HASTY)) as other,
        one.write("admission"),
    ):
        raised = []

        def second():
            try:
                with other.write("admission"):
                    pass
            except StoreBusy as error:
                raised.append(error)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        with other.write("another"):
            pass
    assert "hostler" in raised[0].holder
    assert "backend" in raised[0].holder
