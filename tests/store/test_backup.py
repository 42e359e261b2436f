"""Backups can be trusted, and going back to one never leaves nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path

import pytest
from children import Child
from database import HASTY, PATIENT, Database, no_progress
from next_revision import NEXT, OLD, know_next_revision
from sqlalchemy import insert

from file_rights import give_up_rights
from hostler.clock import FakeClock, SystemClock
from hostler.errors import (
    HomeLocked,
    HostlerError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreMissing,
    StoreNewer,
)
from hostler.store.admin import backup
from hostler.store.admin.backup import (
    backup_path,
    owned_on_server,
    read_meta,
    restore,
    take_backup,
    verify_backup,
)
from hostler.store.admin.inspect import vacuum
from hostler.store.admin.revision import HEAD
from hostler.store.engine.locks import home_lock
from hostler.store.engine.postgres import migration_lock
from hostler.store.engine.sqlite import WriterQueue
from hostler.store.schema import store_meta


def put(database, key, size=1):
    with closing(database.open()) as store, store.write() as tx:
        tx.execute(insert(store_meta).values(key=key, value="x" * size))


def keys(database):
    with closing(database.open()) as store, store.read() as tx:
        return set(read_meta(tx))


def back_up(database):
    path = backup_path(database.home, database.place, HEAD, FakeClock())
    return take_backup(database.place, path, HEAD, no_progress).path


def go_back(database, file, patience=PATIENT, clock=None):
    return restore(
        database.home,
        database.place,
        file,
        clock=clock or SystemClock(),
        patience=patience,
        progress=no_progress,
    )


def test_a_backup_holds_what_was_there_and_is_one_file(database):
    put(database, "before")
    file = back_up(database)
    put(database, "after")
    assert verify_backup(database.place, file).revision == HEAD
    assert [found.name for found in file.parent.iterdir()] == [file.name]
    go_back(database, file)
    assert "before" in keys(database)
    assert "after" not in keys(database)
    assert database.inspect().sound


def test_a_backup_is_taken_while_others_write(sqlite_database):
    with closing(sqlite_database.open()) as store:
        with store.write() as tx:
            tx.execute(insert(store_meta).values(key="unfinished", value="x"))
            file = back_up(sqlite_database)
        with closing(sqlite3.connect(file)) as copy:
            copied = {row[0] for row in copy.execute("SELECT key FROM store_meta")}
        assert "unfinished" not in copied
    assert "unfinished" in keys(sqlite_database)


def test_backups_of_one_moment_have_names_of_their_own(database):
    names = {back_up(database).name for _ in range(3)}
    assert len(names) == 3


def test_an_existing_file_is_not_overwritten(database):
    file = back_up(database)
    with pytest.raises(StoreError, match="exists"):
        take_backup(database.place, file, HEAD, no_progress)


def test_the_database_before_is_kept_and_can_be_gone_back_to(database):
    put(database, "first")
    file = back_up(database)
    put(database, "second")
    done = go_back(database, file)
    assert "second" not in keys(database)
    assert done.kept.is_file()
    go_back(database, done.kept)
    assert {"first", "second"} <= keys(database)


def test_a_restored_file_has_nothing_of_the_old_one_beside_it(sqlite_database):
    file = back_up(sqlite_database)
    store = sqlite_database.open()
    with store.write() as tx:
        tx.execute(insert(store_meta).values(key="in the log only", value="x"))
    # As after a kill: the log was never moved into the file.
    place = sqlite_database.place
    log, shm = place.wal.read_bytes(), place.shm.read_bytes()
    store.close()
    place.wal.write_bytes(log)
    place.shm.write_bytes(shm)
    kept = go_back(sqlite_database, file).kept
    assert not place.wal.exists()
    assert not place.shm.exists()
    assert "in the log only" not in keys(sqlite_database)
    go_back(sqlite_database, kept)
    assert "in the log only" in keys(sqlite_database)


def test_a_damaged_database_is_kept_with_its_log_and_replaced(sqlite_database):
    put(sqlite_database, "before")
    file = back_up(sqlite_database)
    sqlite_database.file.write_bytes(b"garbage" * 1000)
    sqlite_database.place.wal.write_bytes(b"also garbage")
    kept = go_back(sqlite_database, file).kept
    assert kept.read_bytes() == b"garbage" * 1000
    assert kept.with_name(kept.name + "-wal").read_bytes() == b"also garbage"
    assert "before" in keys(sqlite_database)


def test_a_missing_database_can_be_restored(sqlite_database, tmp_path):
    put(sqlite_database, "before")
    file = back_up(sqlite_database)
    other = Database(tmp_path / "other")
    assert go_back(other, file).kept is None
    assert "before" in keys(other)


def test_an_older_backup_is_restored_and_then_upgraded(database, monkeypatch):
    know_next_revision(monkeypatch)
    file = database.upgrade().backup.path
    assert go_back(database, file).backup.revision == OLD
    assert database.upgrade().before == OLD
    assert database.inspect().sound


def no_backup(tmp_path, kind):
    path = tmp_path / "thing"
    if kind == "folder":
        path.mkdir()
    elif kind == "garbage":
        path.write_bytes(os.urandom(5000))
    elif kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("hello")
    return path


@pytest.mark.parametrize("kind", ["folder", "missing", "garbage", "empty", "text"])
def test_what_is_no_backup_changes_nothing(database, tmp_path, kind):
    put(database, "before")
    with pytest.raises((StoreMissing, StoreCorrupt, StoreError)) as caught:
        go_back(database, no_backup(tmp_path, kind))
    assert "thing" in str(caught.value)
    assert "before" in keys(database)
    assert not (database.home / "backups").exists()


def test_a_damaged_backup_is_refused(sqlite_database):
    put(sqlite_database, "large", 50_000)
    file = back_up(sqlite_database)
    content = bytearray(file.read_bytes())
    content[8192:16384] = b"\xa5" * 8192
    file.write_bytes(content)
    with pytest.raises(StoreCorrupt, match="cannot be used"):
        go_back(sqlite_database, file)
    assert "large" in keys(sqlite_database)


def test_another_programs_database_is_no_backup(sqlite_database, tmp_path):
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as other:
        other.execute("CREATE TABLE theirs (a)")
    with pytest.raises(StoreError, match="not a backup of Hostler"):
        go_back(sqlite_database, tmp_path / "theirs.db")


def test_a_backup_of_a_newer_program_is_refused(sqlite_database):
    file = back_up(sqlite_database)
    with closing(sqlite3.connect(file)) as copy:
        copy.execute("UPDATE alembic_version SET version_num = '0099'")
        copy.commit()
    with pytest.raises(StoreNewer):
        go_back(sqlite_database, file)


def test_no_restore_while_a_service_works_on_the_home(database):
    file = back_up(database)
    with home_lock(database.home, FakeClock()), pytest.raises(HomeLocked):
        go_back(database, file)


def keep_open(pipe, home):
    store = Database(home).open()
    with store.read() as tx:
        read_meta(tx)
        pipe.send("open")
        pipe.recv()
    with store.read() as tx:
        pipe.send(sorted(read_meta(tx)))


def test_no_restore_while_anybody_has_the_file_open(sqlite_database):
    file = back_up(sqlite_database)
    put(sqlite_database, "after")
    child = Child(keep_open, sqlite_database.home)
    child.hear()
    with pytest.raises(StoreBusy):
        go_back(sqlite_database, file, HASTY)
    child.tell()
    assert "after" in child.hear()
    child.join()
    assert not list(sqlite_database.home.glob("*.restoring*"))
    go_back(sqlite_database, file)
    assert "after" not in keys(sqlite_database)


def restore_and_stop_at(pipe, home, file, step):
    """Die as by a kill when a given name of the operating system is called."""
    from pathlib import Path

    def die(*_arguments, **_options):
        pipe.send("there")
        os.kill(os.getpid(), 9)

    module, name = {"link": (os, "link"), "unlink": (Path, "unlink"), "replace": (Path, "replace")}[
        step.rstrip("2")
    ]
    real, calls = getattr(module, name), []

    def maybe(*arguments, **options):
        calls.append(1)
        if len(calls) == (2 if step.endswith("2") else 1):
            die()
        return real(*arguments, **options)

    setattr(module, name, maybe)
    with suppress(BaseException):
        go_back(Database(home), file)
    pipe.send("done")


@pytest.mark.parametrize("step", ["link", "unlink", "unlink2", "replace", "replace2"])
def test_a_restore_killed_at_any_step_leaves_the_old_or_the_new(sqlite_database, step):
    put(sqlite_database, "old")
    file = back_up(sqlite_database)
    put(sqlite_database, "newer")
    child = Child(restore_and_stop_at, sqlite_database.home, file, step)
    assert child.hear() == "there"
    child.join()
    assert {"old", "newer"} <= keys(sqlite_database)
    assert sqlite_database.inspect().sound
    go_back(sqlite_database, file)
    assert "newer" not in keys(sqlite_database)


def test_vacuum_gives_space_back_on_sqlite_and_to_new_rows_on_postgresql(database):
    put(database, "large", 3_000_000)
    with closing(database.open()) as store, store.write() as tx:
        tx.constant("DELETE FROM store_meta WHERE key = ?", ("large",))
    done = vacuum(database.home, database.place, clock=SystemClock(), patience=PATIENT)
    assert done.after < done.before or database.url
    assert database.inspect().sound


def test_no_vacuum_of_a_file_under_a_running_service(sqlite_database):
    with home_lock(sqlite_database.home, FakeClock()), pytest.raises(HomeLocked):
        vacuum(
            sqlite_database.home,
            sqlite_database.place,
            clock=FakeClock(),
            patience=PATIENT,
        )


def upgraded_by_a_newer_program(database, folder):
    """One migration and one table beyond this program."""
    from test_migrations import with_another

    plan = with_another(folder, "op.execute(\"INSERT INTO half VALUES ('kept')\")")
    return plan, database.upgrade(plan).backup.path


def halves(server, database):
    name = server.name_of(database.url)
    (there,) = server.sql("SELECT to_regclass('half')", name)
    return [] if there == (None,) else server.sql("SELECT a FROM half", name)


@pytest.mark.postgres
def test_going_back_from_a_newer_layout_keeps_its_tables_and_leaves_none_behind(
    postgres_database, server, tmp_path
):
    put(postgres_database, "before")
    plan, file = upgraded_by_a_newer_program(postgres_database, tmp_path)
    assert halves(server, postgres_database) == [("kept",)]
    kept = go_back(postgres_database, file).kept
    assert halves(server, postgres_database) == []
    assert "before" in keys(postgres_database)
    assert postgres_database.inspect().sound
    # What is kept is all of the newer database.
    ours = owned_on_server(postgres_database.place, PATIENT)
    backup.undump(postgres_database.place, kept, ours)
    assert halves(server, postgres_database) == [("kept",)]
    assert not postgres_database.upgrade(plan).changed


@pytest.mark.postgres
def test_a_newer_database_that_does_not_name_its_tables_is_not_copied_in_part(
    postgres_database, server, tmp_path
):
    _, file = upgraded_by_a_newer_program(postgres_database, tmp_path)
    name = server.name_of(postgres_database.url)
    server.sql("DELETE FROM store_meta WHERE key = 'tables'", name)
    for action in (lambda: back_up(postgres_database), lambda: go_back(postgres_database, file)):
        with pytest.raises(StoreNewer, match="which tables"):
            action()
    assert halves(server, postgres_database) == [("kept",)]


@pytest.mark.postgres
def test_tables_of_others_are_neither_copied_nor_dropped(postgres_database, server):
    name = server.name_of(postgres_database.url)
    server.sql("CREATE TABLE theirs (a int)", name)
    go_back(postgres_database, back_up(postgres_database))
    assert server.sql("SELECT count(*) FROM theirs", name) == [(0,)]


@pytest.mark.postgres
def test_an_empty_database_on_a_server_can_be_restored(postgres_database, server, tmp_path):
    put(postgres_database, "before")
    file = back_up(postgres_database)
    other = Database(tmp_path / "other", server.new_database())
    assert go_back(other, file).kept is None
    assert "before" in keys(other)
    server.drop_database(other.url)


@pytest.mark.postgres
def test_no_restore_while_another_host_migrates(postgres_database):
    file = back_up(postgres_database)
    put(postgres_database, "after")
    with migration_lock(postgres_database.place, PATIENT), pytest.raises(StoreBusy):
        go_back(postgres_database, file)
    assert "after" in keys(postgres_database)


@pytest.mark.postgres
def test_a_restore_waits_no_longer_for_tables_that_others_use(postgres_database, monkeypatch):
    file = back_up(postgres_database)
    monkeypatch.setattr("hostler.store.admin.backup.LOCK_MILLISECONDS", 200)
    with closing(postgres_database.open()) as store, store.read() as tx:
        read_meta(tx)
        with pytest.raises(StoreError, match="lock timeout"):
            go_back(postgres_database, file)
    assert postgres_database.inspect().sound


def without_rights(pipe, action, *arguments):
    """Tell what an action says where modes of files hold also for root."""
    try:
        give_up_rights()
        action(*arguments)
        pipe.send(("done", ""))
    except HostlerError as error:
        pipe.send((type(error).__name__, " ".join(error.lines())))
    except OSError as error:
        pipe.send((type(error).__name__, str(error)))


def back_up_to(home, target):
    take_backup(Database(home).place, target, HEAD, no_progress)


def verify_in(home, file):
    verify_backup(Database(home).place, file)


@pytest.mark.parametrize(("mode", "below"), [(0o500, "x.db"), (0o000, "x.db"), (0o000, "a/x.db")])
def test_a_backup_into_a_folder_without_permission_is_named(sqlite_database, mode, below):
    folder = sqlite_database.home.parent / "closed"
    folder.mkdir()
    folder.chmod(mode)
    said = Child(without_rights, back_up_to, sqlite_database.home, folder / below).hear()
    assert said[0] == "StoreReadOnly"
    assert f"{folder / below} cannot be written" in said[1]
    said = Child(without_rights, verify_in, sqlite_database.home, folder / below).hear()
    assert said[0] == ("StoreMissing" if mode == 0o500 else "StoreError")
    folder.chmod(0o700)


def start_a_backup_and_hang(pipe, home):
    def hang(_done, _total):
        pipe.send("copying")
        signal.pause()

    database = Database(home)
    path = backup_path(home, database.place, HEAD, FakeClock())
    take_backup(database.place, path, HEAD, hang)


def test_what_a_killed_backup_left_is_swept_by_the_next_and_a_running_one_is_not(sqlite_database):
    folder = sqlite_database.home / "backups"
    killed = Child(start_a_backup_and_hang, sqlite_database.home)
    assert killed.hear() == "copying"
    running = Child(start_a_backup_and_hang, sqlite_database.home)
    assert running.hear() == "copying"
    assert len(list(folder.glob(".*.part"))) == 2
    killed.kill()
    back_up(sqlite_database)
    assert len(list(folder.glob(".*.part"))) == 1
    running.kill()
    back_up(sqlite_database)
    assert not list(folder.glob(".*"))
    assert len(list(folder.iterdir())) == 2


def test_a_file_of_somebody_elses_with_a_similar_name_is_left_alone(database):
    target = database.home / "x.db"
    theirs = database.home / "x.db.part"
    database.home.mkdir(exist_ok=True)
    theirs.write_text("theirs")
    take_backup(database.place, target, HEAD, no_progress)
    assert theirs.read_text() == "theirs"
    with pytest.raises(StoreError):
        take_backup(database.place, target, HEAD, no_progress)
    assert theirs.read_text() == "theirs"


def modes(folder):
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    return {path.name: mode for path, mode in found.items() if mode & 0o077}


def test_whatever_is_made_is_for_its_owner_alone(empty, monkeypatch):
    old = os.umask(0)
    try:
        empty.upgrade()
        know_next_revision(monkeypatch)
        empty.upgrade()
        put(empty, "a")
        with closing(empty.open()) as store, store.write() as tx:
            tx.execute(insert(store_meta).values(key="b", value="x"))
            assert modes(empty.home) == {}
        file = empty.home / "new" / "folders" / "copy"
        take_backup(empty.place, file, NEXT, no_progress)
        go_back(empty, file)
        put(empty, "c")
    finally:
        os.umask(old)
    assert modes(empty.home) == {}
    assert stat.S_IMODE(empty.home.stat().st_mode) == 0o700


def test_a_copy_is_on_the_disk_before_it_has_its_name_and_its_name_after(
    database, monkeypatch, tmp_path
):
    steps = []
    real_sync, real_replace = os.fsync, Path.replace

    def fsync(descriptor):
        steps.append((stat.S_ISDIR(os.fstat(descriptor).st_mode) and "folder") or "file")
        real_sync(descriptor)

    def replace(path, target):
        steps.append("name")
        return real_replace(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    file = back_up(database)
    assert steps == ["file", "name", "folder"]
    steps.clear()
    if not database.url:
        go_back(database, file)
        assert steps == ["file", "name", "folder", "folder", "name", "folder"]


def restore_one_that_may_not_be_read(folder):
    """Restore a database that its user may not read any more."""
    database = Database(folder / "home")
    database.upgrade()
    file = back_up(database)
    store, place = database.open(), database.place
    with store.write() as tx:
        tx.execute(insert(store_meta).values(key="in the log only", value="x"))
    log = place.wal.read_bytes()
    store.close()
    place.wal.write_bytes(log)
    database.file.chmod(0)
    kept = go_back(database, file).kept
    assert kept.with_name(kept.name + "-wal").read_bytes() == log
    assert not place.wal.exists()
    assert "in the log only" not in keys(database)


def test_the_log_of_a_database_that_may_not_be_read_is_not_replayed_into_the_new(tmp_path):
    child = Child(without_rights, restore_one_that_may_not_be_read, tmp_path)
    assert child.hear() == ("done", "")


def test_a_copy_is_of_its_first_moment_however_many_write_meanwhile(sqlite_database, monkeypatch):
    monkeypatch.setattr("hostler.store.admin.backup._PAGES_PER_STEP", 1)
    put(sqlite_database, "before", 20_000)
    written = []

    def write_meanwhile(done, _total):
        if not written:
            put(sqlite_database, "meanwhile")
        written.append(done)

    file = sqlite_database.home / "copy.db"
    take_backup(sqlite_database.place, file, HEAD, write_meanwhile)
    with closing(sqlite3.connect(file)) as copy:
        copied = {row[0] for row in copy.execute("SELECT key FROM store_meta")}
    assert "before" in copied
    assert "meanwhile" not in copied
    assert written == sorted(set(written))


def queue_and_hold(pipe, home):
    with WriterQueue(Database(home).place.writer).turn(PATIENT, SystemClock()):
        pipe.send("queueing")
        pipe.recv()


def test_no_restore_out_of_turn(sqlite_database):
    file = back_up(sqlite_database)
    put(sqlite_database, "after")
    child = Child(queue_and_hold, sqlite_database.home)
    assert child.hear() == "queueing"
    with pytest.raises(StoreBusy) as caught:
        go_back(sqlite_database, file, HASTY)
    assert str(child.process.pid) in caught.value.holder
    child.tell()
    child.join()
    assert "after" in keys(sqlite_database)
