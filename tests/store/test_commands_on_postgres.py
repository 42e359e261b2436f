"""`hostler db` on a server."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from command_calls import caller
from database import Database

pytestmark = pytest.mark.postgres


@pytest.fixture
def hostler(tmp_path, environment):
    """Run a command in this process."""
    return caller(tmp_path, environment)


def known(database):
    with closing(database.open()) as store, store.read() as tx:
        return set(tx.constant("SELECT repo_full_name FROM repositories").scalars())


def add(database, name):
    with closing(database.open()) as store, store.write() as tx:
        store.repo(name).add(tx)


def test_the_whole_life_of_a_database_on_a_server(hostler, home, server):
    database = Database(home, server.new_database())

    def db(*argv):
        done = hostler("db", *argv, "--json", env={"HOSTLER_DATABASE_URL": database.url})
        assert done.code == 0, done.err
        return json.loads(done.out)

    assert db("upgrade")["changed"] is True
    assert db("upgrade")["changed"] is False
    add(database, "octo/before")
    backup = db("backup")["backup"]
    add(database, "octo/after")
    assert db("check")["sound"] is True
    assert db("restore", backup)["kept"].endswith(".dump")
    assert known(database) == {"octo/before"}
    assert db("vacuum")["after"] > 0
    assert db("check")["sound"] is True
    assert not (home / "hostler.db").exists()
    server.drop_database(database.url)


def test_what_is_no_dump_is_refused_in_words(hostler, postgres_database, tmp_path):
    add(postgres_database, "octo/before")
    (tmp_path / "thing").write_bytes(b"garbage")
    url = postgres_database.url
    done = hostler("db", "--database-url", url, "restore", tmp_path / "thing")
    assert done.code == 1
    assert "cannot be used" in done.err
    assert "Traceback" not in done.err
    assert known(postgres_database) == {"octo/before"}
