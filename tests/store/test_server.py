"""A PostgreSQL server that is down, refuses us, or goes away in the middle."""

from __future__ import annotations

import socket
from contextlib import closing

import psycopg
import psycopg.conninfo
import pytest
from database import Database
from pg_server import GUARDED, PostgresServer
from sqlalchemy import insert
from sqlalchemy.exc import OperationalError

from hostler.errors import StoreError, StoreMissing, StoreReadOnly, StoreUnreachable
from hostler.store.admin import backup
from hostler.store.admin.backup import read_meta
from hostler.store.engine import postgres
from hostler.store.schema import store_meta

pytestmark = pytest.mark.postgres


@pytest.fixture
def own_server():
    """A server that a test may stop."""
    server = PostgresServer.make()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def put(store, key):
    with store.write() as tx:
        tx.execute(insert(store_meta).values(key=key, value="x"))


def end_sessions(server, url):
    server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE datname = '{server.name_of(url)}'"
    )


def test_a_server_that_is_down_does_not_answer(home, tmp_path):
    with pytest.raises(StoreUnreachable, match="does not answer"):
        Database(home, f"postgresql://me@/hostler?host={tmp_path}").open()
    with pytest.raises(StoreUnreachable):
        Database(home, "postgresql://me@127.0.0.1:1/hostler").upgrade()


def test_a_wrong_password_is_named_and_never_shown(home, server, monkeypatch):
    server.sql(f"CREATE ROLE {GUARDED} LOGIN PASSWORD 'right'")
    guarded = Database(home, server.url("postgres", GUARDED))
    for password in ("hunter2", None):
        if password:
            monkeypatch.setenv("PGPASSWORD", password)
        else:
            monkeypatch.delenv("PGPASSWORD")
        with pytest.raises(StoreUnreachable, match="password") as caught:
            guarded.open()
        assert "PGPASSFILE" in caught.value.remedy
        assert "hunter2" not in " ".join(caught.value.lines())
    monkeypatch.setenv("PGPASSWORD", "right")
    with pytest.raises(StoreMissing):
        guarded.open()
    server.sql(f"DROP ROLE {GUARDED}")


def test_a_database_that_the_server_does_not_have_is_missing(home, server):
    nowhere = Database(home, server.url("nowhere"))
    for action in (nowhere.open, nowhere.upgrade):
        with pytest.raises(StoreMissing) as caught:
            action()
        assert "createdb nowhere" in caught.value.remedy


def test_an_unknown_user_is_refused(home, server):
    with pytest.raises(StoreUnreachable, match="refuses"):
        Database(home, server.url("postgres", "stranger")).open()


def test_a_user_without_grants_cannot_write(home, server, postgres_database):
    server.sql("CREATE ROLE reader LOGIN")
    name = server.name_of(postgres_database.url)
    server.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", name)
    with closing(Database(home, server.url(name, "reader")).open()) as store:
        with pytest.raises(StoreReadOnly) as caught:
            put(store, "a")
        assert "grants" in caught.value.remedy
    server.sql("DROP OWNED BY reader", name)
    server.sql("DROP ROLE reader")


def test_a_connection_lost_in_the_middle_stores_nothing(postgres_database, server):
    with closing(postgres_database.open()) as store:
        with pytest.raises(StoreUnreachable), store.write() as tx:
            tx.execute(insert(store_meta).values(key="a", value="x"))
            end_sessions(server, postgres_database.url)
            tx.execute(insert(store_meta).values(key="b", value="x"))
        put(store, "c")
        with store.read() as tx:
            found = set(read_meta(tx))
    assert "c" in found
    assert not {"a", "b"} & found


def test_sessions_ended_between_two_calls_cost_nobody_an_error(postgres_database, server):
    with closing(postgres_database.open()) as store:
        put(store, "a")
        end_sessions(server, postgres_database.url)
        put(store, "b")


@pytest.mark.slow
def test_a_server_that_stops_and_starts_again_is_used_again(home, own_server):
    database = Database(home, own_server.new_database())
    database.upgrade()
    with closing(database.open()) as store:
        put(store, "before")
        own_server.stop()
        with pytest.raises(StoreUnreachable):
            put(store, "meanwhile")
        own_server.start()
        put(store, "after")
        with store.read() as tx:
            found = set(read_meta(tx))
    # The server may lose what its own crash cut off, but here it was stored before.
    assert {"before", "after"} <= found
    assert "meanwhile" not in found


@pytest.fixture
def silent_port():
    """A port that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("server")
def test_a_server_that_never_answers_is_not_waited_for(home, silent_port, monkeypatch, tmp_path):
    for name in ("backend", "postgres"):
        monkeypatch.setattr(f"hostler.store.engine.{name}.CONNECT_SECONDS", 2)
    database = Database(home, f"postgresql://me@127.0.0.1:{silent_port}/hostler")
    with pytest.raises(StoreUnreachable, match="does not answer"):
        database.open()
    with pytest.raises(OperationalError, match="timeout"):
        postgres.Listener(database.place, str, print).heard()
    with pytest.raises(StoreError, match="pg_dump failed"):
        backup.dump(database.place, tmp_path / "x.dump", ["a"])


def test_an_address_for_libpq_has_bounds_and_no_plus_for_a_space(home):
    url = "postgresql://me@db.example/hostler?options=-c%20a=b&connect_timeout=0"
    address = psycopg.conninfo.conninfo_to_dict(Database(home, url).place.bounded(5))
    assert address["options"] == "-c a=b -c lock_timeout=5"
    assert int(address["connect_timeout"]) == 10


def test_a_user_who_may_not_even_read_is_told_of_grants_and_not_of_writing(
    home, server, postgres_database
):
    server.sql("CREATE ROLE nobody_at_all LOGIN")
    theirs = Database(home, server.url(server.name_of(postgres_database.url), "nobody_at_all"))
    for action in (theirs.open, theirs.inspect):
        with pytest.raises(StoreUnreachable, match="permission denied") as caught:
            action()
        assert "written" not in caught.value.what
        assert "grants" in caught.value.remedy
    server.sql("DROP ROLE nobody_at_all")
