"""Disks that are full, read-only or lie: real ones."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from children import Child
from database import PATIENT, Database
from mounts import fill, read_only, small_disk
from next_revision import OLD, know_next_revision, next_plan
from sqlalchemy import delete, insert, select

from file_rights import give_up_rights
from hostler.clock import SystemClock
from hostler.errors import StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from hostler.store.admin.backup import read_meta
from hostler.store.admin.inspect import vacuum
from hostler.store.schema import store_meta


@pytest.fixture
def disk():
    # Not below pytest's folder, which other users may not enter.
    with tempfile.TemporaryDirectory(prefix="hostler-disk-") as folder:
        Path(folder).chmod(0o755)
        with small_disk(Path(folder) / "disk", "2m") as mounted:
            yield mounted


@pytest.fixture
def on_disk(disk, sqlite_template):
    home = disk / "home"
    home.mkdir(mode=0o777)
    shutil.copy(sqlite_template, home / "hostler.db")
    return Database(home)


def put(store, key, size=1):
    with store.write() as tx:
        tx.execute(insert(store_meta).values(key=key, value="x" * size))


def keys(store):
    with store.read() as tx:
        return set(tx.execute(select(store_meta.c.key)).scalars())


def test_a_full_disk_loses_nothing_and_works_again_when_there_is_space(on_disk, disk):
    with closing(on_disk.open()) as store:
        put(store, "before")
        filler = fill(disk)
        stored = {"before"}
        with pytest.raises(StoreFull) as caught:
            for number in range(1000):
                put(store, f"n{number}", 5000)
                stored.add(f"n{number}")
        assert "space" in caught.value.remedy
        assert stored <= keys(store)
        with pytest.raises(StoreFull):
            put(store, "still full", 50_000)
        filler.unlink()
        put(store, "after", 50_000)
        assert stored | {"after"} <= keys(store)
        assert "still full" not in keys(store)
    assert on_disk.inspect().sound


def test_one_large_write_that_does_not_fit_leaves_no_part_of_itself(on_disk):
    with closing(on_disk.open()) as store:
        with pytest.raises(StoreFull), store.write() as tx:
            for number in range(1000):
                tx.execute(insert(store_meta).values(key=f"n{number}", value="x" * 9000))
        assert not [key for key in keys(store) if key.startswith("n")]
        put(store, "after")
        with store.write() as tx:
            tx.execute(delete(store_meta).where(store_meta.c.key == "after"))
    assert on_disk.inspect().sound


def test_a_full_disk_swallowed_by_the_caller_commits_nothing(on_disk):
    with closing(on_disk.open()) as store:
        with pytest.raises(StoreFull), store.write() as tx:
            try:
                for number in range(1000):
                    tx.execute(insert(store_meta).values(key=f"n{number}", value="x" * 9000))
            except StoreFull:
                pass
        assert not [key for key in keys(store) if key.startswith("n")]


def test_opening_and_upgrading_on_a_full_disk_say_so(disk, monkeypatch):
    database = Database(disk / "home")
    database.upgrade()
    filler = fill(disk)
    with pytest.raises(StoreFull):
        database.upgrade(next_plan())
    assert not list((database.home / "backups").glob("*")) or not list(
        (database.home / "backups").glob("*.part")
    )
    filler.unlink()
    know_next_revision(monkeypatch)
    assert database.upgrade().changed
    assert database.inspect().sound


def test_a_backup_that_does_not_fit_leaves_no_half(on_disk, disk):
    from hostler.store.admin.backup import take_backup

    with closing(on_disk.open()) as store:
        put(store, "large", 400_000)
    fill(disk)
    target = disk / "copy.db"
    with pytest.raises(StoreFull):
        take_backup(on_disk.place, target, OLD, lambda done, total: None)
    assert not list(disk.glob("copy.db*"))


def test_a_read_only_disk_is_named_and_nothing_is_lost(on_disk, disk):
    with closing(on_disk.open()) as store:
        put(store, "before")
    with read_only(disk):
        with pytest.raises(StoreReadOnly), closing(on_disk.open()) as store:
            put(store, "a")
        with pytest.raises(StoreReadOnly):
            on_disk.upgrade(next_plan())
    with closing(on_disk.open()) as store:
        assert "before" in keys(store)
        put(store, "after")


def write_without_rights(pipe, home):
    try:
        give_up_rights()
        with closing(Database(home).open()) as store:
            put(store, "a")
        pipe.send("stored")
    except StoreError as error:
        pipe.send((type(error).__name__, error.remedy))


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"), [(0o444, 0o777), (0o444, 0o555), (0o666, 0o000), (0o000, 0o777)]
)
def test_a_file_or_folder_without_permission_is_named(sqlite_database, file_mode, folder_mode):
    sqlite_database.file.chmod(file_mode)
    sqlite_database.home.chmod(folder_mode)
    kind, remedy = Child(write_without_rights, sqlite_database.home).hear()
    assert kind == "StoreReadOnly"
    assert "permissions" in remedy
    sqlite_database.home.chmod(0o777)
    # SQLite's other files have got the mode of the database.
    for file in sqlite_database.home.iterdir():
        file.chmod(0o666)
    with closing(sqlite_database.open()) as store:
        put(store, "a")


def test_a_damaged_page_is_called_so_and_found_by_the_check(sqlite_database):
    with closing(sqlite_database.open()) as store:
        for number in range(40):
            put(store, f"n{number}", 1000)
    with closing(sqlite3.connect(sqlite_database.file)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'store_meta'"
        ).fetchone()
    content = bytearray(sqlite_database.file.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xa5" * 4096
    sqlite_database.file.write_bytes(content)
    store = sqlite_database.open()
    with pytest.raises(StoreCorrupt) as caught, store.read() as tx:
        read_meta(tx)
    store.close()
    assert "restore" in caught.value.remedy
    assert not sqlite_database.inspect().sound


def test_a_file_cut_short_is_called_damaged(sqlite_database):
    content = sqlite_database.file.read_bytes()
    sqlite_database.file.write_bytes(content[:5000])
    with pytest.raises(StoreCorrupt), closing(sqlite_database.open()) as store:
        keys(store)
    assert not sqlite_database.inspect().sound


def test_a_vacuum_on_a_full_disk_says_so(disk):
    database = Database(disk / "home")
    database.upgrade()
    with closing(database.open()) as store:
        put(store, "large", 600_000)
    filler = fill(disk)
    with pytest.raises(StoreFull):
        vacuum(database.home, database.place, clock=SystemClock(), patience=PATIENT)
    filler.unlink()
    vacuum(database.home, database.place, clock=SystemClock(), patience=PATIENT)
    assert database.inspect().sound
