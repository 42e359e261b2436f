"""What opening says about each state in which a database can be found."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest
from database import PATIENT, Database, no_progress

from hostler.clock import SystemClock
from hostler.errors import (
    MissingExtra,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreMissing,
    StoreUnsteady,
)
from hostler.store import open_store
from hostler.store.admin.backup import take_backup, verify_backup
from hostler.store.admin.inspect import vacuum
from hostler.store.admin.revision import HEAD
from hostler.store.engine.backend import PostgresPlace, find_place
from hostler.store.engine.errors import translated
from hostler.store.store import make_backend


def test_where_nothing_is_the_database_is_missing_and_is_not_created(empty):
    with pytest.raises(StoreMissing) as caught:
        empty.open()
    assert "hostler db upgrade" in caught.value.remedy
    assert not empty.file.exists()


def test_an_empty_file_is_a_missing_database(home):
    home.mkdir()
    (home / "hostler.db").touch()
    with pytest.raises(StoreMissing):
        Database(home).open()
    assert Database(home).upgrade().before is None
    Database(home).open().close()


def _made_too_late(place):
    """A database, and what SQLite said before it was there."""
    place.path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(place.path)) as made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE t (a)")
    with pytest.raises(sqlite3.OperationalError) as said:
        sqlite3.connect(f"file:{place.path}-nowhere?mode=rw", uri=True)
    return said.value


def test_a_database_made_after_one_looked_can_be_looked_for_again(home):
    place = find_place(home)
    said = _made_too_late(place)
    with pytest.raises(StoreUnsteady), translated(place, reading=True):
        raise said


def test_who_opens_a_database_that_is_just_made_looks_again(home, monkeypatch):
    place = find_place(home)
    said, tries = _made_too_late(place), []

    def opened(*_given):
        tries.append(1)
        with translated(place, reading=True):
            raise said

    monkeypatch.setattr("hostler.store.store._opened", opened)
    with pytest.raises(StoreUnsteady):
        open_store(home)
    assert len(tries) == 2


def test_a_full_disk_is_told_also_where_it_cannot_be_opened(home, monkeypatch):
    place = find_place(home)
    said = _made_too_late(place)
    monkeypatch.setattr("hostler.store.engine.errors._is_full", lambda _place: True)
    with pytest.raises(StoreFull), translated(place, reading=True):
        raise said


def test_a_database_that_cannot_be_opened_is_not_called_missing(home):
    place = find_place(home)
    said = _made_too_late(place)
    place.wal.mkdir()
    failed = pytest.raises(StoreError, match="failed: unable to open")
    with failed as raised, translated(place, reading=True):
        raise said
    assert not isinstance(raised.value, StoreMissing)


def test_a_folder_in_its_place_is_named(home):
    (home / "hostler.db").mkdir(parents=True)
    with pytest.raises(StoreError, match="folder"):
        Database(home).open()
    with pytest.raises(StoreError, match="folder"):
        Database(home).upgrade()


def test_a_home_that_is_a_file_is_refused(home):
    home.write_text("")
    with pytest.raises(StoreError):
        Database(home).upgrade()
    with pytest.raises(StoreError):
        Database(home).open()


@pytest.mark.parametrize("garbage", [b"not a database, but long enough" * 100, os.urandom(8192)])
def test_what_is_no_database_is_called_damaged(home, garbage):
    home.mkdir()
    (home / "hostler.db").write_bytes(garbage)
    with pytest.raises(StoreCorrupt) as caught:
        Database(home).open()
    assert "restore" in caught.value.remedy
    with pytest.raises(StoreCorrupt):
        Database(home).upgrade()
    assert (home / "hostler.db").read_bytes() == garbage


def test_another_programs_database_is_left_alone(home):
    home.mkdir()
    with closing(sqlite3.connect(home / "hostler.db")) as other:
        other.execute("CREATE TABLE theirs (a)")
    with pytest.raises(StoreError, match="not those of Hostler"):
        Database(home).open()
    with pytest.raises(StoreError, match="not those of Hostler"):
        Database(home).upgrade()


@pytest.mark.parametrize("name", ["a b", "100%", "what?", "a#b", "ü;x"])
def test_homes_may_have_odd_names(tmp_path, name):
    database = Database(tmp_path / name)
    database.upgrade()
    database.open().close()
    assert database.inspect().sound
    assert database.file.exists()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@db.example/hostler",
        "postgresql://db.example/hostler?password=hunter2",
        "mysql://me:hunter2@db.example/hostler",
        "hunter2",
        "sqlite:///hunter2.db",
        "postgresql://db.example:hunter2/x",
    ],
)
def test_a_url_with_a_password_or_of_another_kind_is_refused_without_repeating_it(home, url):
    with pytest.raises(StoreError) as caught:
        open_store(home, url)
    assert "hunter2" not in " ".join(caught.value.lines())


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_a_url_without_a_password_names_a_server(home, scheme):
    place = find_place(home, f"{scheme}://me@db.example:5433/hostler?sslmode=require")
    assert isinstance(place, PostgresPlace)
    assert place.conninfo == "postgresql://me@db.example:5433/hostler?sslmode=require"


def test_without_the_driver_the_missing_package_is_named(home, monkeypatch):
    monkeypatch.setattr("hostler.store.engine.postgres.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="PostgreSQL"):
        open_store(home, "postgresql://db.example/hostler")


@pytest.mark.parametrize("target", ["gone.db", "not/mounted/hostler.db"])
def test_a_link_that_leads_nowhere_is_told_apart(home, tmp_path, target):
    home.mkdir()
    (home / "hostler.db").symlink_to(tmp_path / target)
    for action in (Database(home).open, Database(home).upgrade):
        with pytest.raises(StoreError, match="is a link to") as caught:
            action()
        assert not isinstance(caught.value, StoreMissing)
        assert target in str(caught.value)
    assert not (tmp_path / target).exists()


def test_a_home_may_have_a_name_that_is_no_text(tmp_path):
    database = Database(tmp_path / os.fsdecode(b"\xff\xfe"))
    database.upgrade()
    database.open().close()
    assert database.inspect().sound


def test_two_noted_layouts_are_called_damage(database):
    file = database.home / "before"
    backend = make_backend(database.place, SystemClock(), PATIENT)
    with backend.writing((), relaxed=False) as connection:
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('0000')")
        connection.commit()
    backend.close()
    for action in (database.open, database.upgrade):
        with pytest.raises(StoreCorrupt, match="2 layouts"):
            action()
    assert "2 layouts" in database.inspect().problems[0]
    if not database.url:
        take_backup(database.place, file, HEAD, no_progress)
        with pytest.raises(StoreCorrupt, match="cannot be used"):
            verify_backup(database.place, file)


def test_vacuum_makes_no_database_of_an_empty_file(home):
    home.mkdir()
    (home / "hostler.db").touch()
    with pytest.raises(StoreMissing):
        vacuum(home, Database(home).place, clock=SystemClock(), patience=PATIENT)
    assert (home / "hostler.db").stat().st_size == 0


def test_a_linked_database_keeps_its_log_beside_the_file_and_not_beside_the_link(tmp_path):
    real, home = tmp_path / "disk", tmp_path / "home"
    real.mkdir()
    home.mkdir()
    Database(real).upgrade()
    (home / "hostler.db").symlink_to(real / "hostler.db")
    place = find_place(home)
    assert (place.wal.parent, place.shm.parent, place.writer.parent) == (real, real, real)
    (home / "hostler.db").unlink()
    (home / "hostler.db").symlink_to(home / "hostler.db")
    assert find_place(home).path == home / "hostler.db"
