"""Migrations build exactly the tables, keep the data, and change all or nothing."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from children import Child
from database import PATIENT, Database, no_progress
from next_revision import NEXT, OLD, know_next_revision, write_migrations
from sqlalchemy import inspect as look_at

from hostler.clock import FakeClock, SystemClock
from hostler.errors import HomeLocked, StoreBusy, StoreError, StoreNewer, StoreOutdated
from hostler.store.admin.backup import read_meta, verify_backup
from hostler.store.admin.inspect import differences
from hostler.store.admin.migrate import Plan, known_revisions, present_revision, upgrade
from hostler.store.admin.revision import HEAD, REVISIONS
from hostler.store.engine import sqlite
from hostler.store.engine.locks import home_lock
from hostler.store.engine.postgres import TRY_SCOPE, scope_key
from hostler.store.schema import action_tokens, metadata
from hostler.store.store import make_backend

HALF = """op.execute("CREATE TABLE half (a TEXT)")
    op.execute("DELETE FROM store_meta")
    """


def with_another(folder: Path, then: str) -> Plan:
    """Return a plan for a migration that changes something, and then does what is given."""
    return Plan(to=NEXT, migrations=write_migrations(folder, HALF + then))


def connected(database: Database):
    return make_backend(database.place, SystemClock(), PATIENT)


def facts(database: Database) -> dict[str, str]:
    with closing(database.open()) as store, store.read() as tx:
        return read_meta(tx)


def test_the_revisions_are_those_of_the_migrations():
    assert tuple(known_revisions()) == REVISIONS


def test_migrations_from_nothing_build_exactly_the_tables(empty):
    done = empty.upgrade()
    assert (done.before, done.after, done.backup) == (None, HEAD, None)
    backend = connected(empty)
    with backend.reading() as connection:
        assert differences(connection) == []
        inspector = look_at(connection)
        assert set(inspector.get_table_names()) == {*metadata.tables, "alembic_version"}
        index, _ = sorted(
            inspector.get_indexes(action_tokens.name), key=lambda found: found["name"] or ""
        )
        assert index["column_names"] == [
            "repo_full_name",
            "scope_kind",
            "scope_number",
            "status",
        ]
    backend.close()
    assert empty.inspect().sound


def test_the_comparison_sees_a_changed_default_key_index_and_column(sqlite_database):
    spoil = [
        "DROP INDEX ix_action_tokens_scope_status",
        "ALTER TABLE store_meta ADD COLUMN more TEXT",
        "DROP TABLE repositories",
        "DROP TABLE github_comment_poll_cursors",
        "CREATE TABLE repositories (repo_full_name TEXT NOT NULL, github_id INTEGER,"
        " added_at TEXT NOT NULL DEFAULT 'never', UNIQUE (github_id))",
    ]
    with closing(sqlite.connect(sqlite_database.file, "rw", 5)) as connection:
        for statement in spoil:
            connection.execute(statement)
    found = " ".join(sqlite_database.inspect().problems)
    for trace in ("ix_action_tokens_scope_status", "more", "added_at", "poll_cursors"):
        assert trace in found


def test_a_missing_primary_key_is_seen(sqlite_database):
    with closing(sqlite.connect(sqlite_database.file, "rw", 5)) as connection:
        connection.execute("DROP TABLE store_meta")
        connection.execute("CREATE TABLE store_meta (key TEXT NOT NULL, value TEXT NOT NULL)")
    assert any("primary key" in problem for problem in sqlite_database.inspect().problems)


def test_an_upgrade_keeps_the_data_and_takes_a_backup_first(database, monkeypatch):
    before = facts(database)
    know_next_revision(monkeypatch)
    with pytest.raises(StoreOutdated, match=OLD):
        database.open()
    done = database.upgrade()
    assert (done.before, done.after) == (OLD, NEXT)
    assert done.backup.path.parent == database.home / "backups"
    assert OLD in done.backup.path.name
    assert verify_backup(database.place, done.backup.path).revision == OLD
    after = facts(database)
    assert after["next"] == "yes" and after["store_id"] == before["store_id"]
    assert database.inspect().sound


def test_an_upgrade_of_an_up_to_date_database_does_nothing(database):
    done = database.upgrade()
    assert not done.changed
    assert done.backup is None
    assert not (database.home / "backups").exists()


def test_a_migration_that_fails_half_way_changes_nothing(database, tmp_path):
    before = facts(database)
    plan = with_another(tmp_path, 'raise ZeroDivisionError("in the middle")')
    with pytest.raises(StoreError, match="in the middle") as caught:
        database.upgrade(plan)
    (backup,) = (database.home / "backups").iterdir()
    assert str(backup) in caught.value.safe
    assert facts(database) == before
    assert database.inspect().sound


def test_a_foreign_error_in_a_migration_names_the_backup_too(database, tmp_path):
    plan = with_another(tmp_path, "op.execute(\"INSERT INTO repositories VALUES ('a', 1, NULL)\")")
    with pytest.raises(StoreError) as caught:
        database.upgrade(plan)
    assert "backups" in caught.value.safe
    assert database.inspect().sound


def stop_in_the_middle(pipe, home, url, plan):
    import builtins

    builtins.half_way = lambda: (pipe.send("half way"), pipe.recv())
    Database(home, url).upgrade(plan)


def test_a_migration_killed_half_way_changes_nothing(database, tmp_path):
    before = facts(database)
    plan = with_another(tmp_path, "half_way()")
    child = Child(stop_in_the_middle, database.home, database.url, plan)
    assert child.hear() == "half way"
    child.kill()
    assert facts(database) == before
    assert database.inspect().sound
    assert not database.upgrade().changed


def test_a_database_of_a_newer_program_is_left_alone(database, tmp_path):
    database.upgrade(with_another(tmp_path, "pass"))
    with pytest.raises(StoreNewer, match=NEXT):
        database.open()
    with pytest.raises(StoreNewer, match=NEXT):
        database.upgrade()
    assert database.inspect().problems


def test_no_upgrade_while_somebody_works_on_the_home(database):
    clock = FakeClock()
    with home_lock(database.home, clock), pytest.raises(HomeLocked) as caught:
        database.upgrade(Plan(to=NEXT))
    assert str(caught.value.holder.pid) in str(caught.value)


@pytest.mark.postgres
def test_two_homes_do_not_migrate_one_server_at_once(server, tmp_path):
    url = server.new_database()
    one, other = Database(tmp_path / "one", url), Database(tmp_path / "other", url)
    backend = connected(one)
    with backend.writing((), relaxed=False) as connection:
        assert connection.exec_driver_sql(TRY_SCOPE, (scope_key("migration"),)).scalar_one()
        with pytest.raises(StoreBusy, match="hostler"):
            other.upgrade()
    assert other.upgrade().changed
    backend.close()
    server.drop_database(url)


@pytest.mark.postgres
def test_without_pg_dump_an_upgrade_needs_the_word_of_a_person(
    postgres_database, tmp_path, monkeypatch
):
    monkeypatch.setattr("hostler.store.admin.backup.find_tool", lambda name: None)
    plan = with_another(tmp_path, "pass")
    with pytest.raises(StoreError, match="pg_dump") as caught:
        postgres_database.upgrade(plan)
    assert "--no-backup" in caught.value.remedy
    assert present_revision(postgres_database.place, SystemClock(), PATIENT) == HEAD
    done = postgres_database.upgrade(Plan(plan.to, plan.migrations, with_backup=False))
    assert (done.after, done.backup) == (NEXT, None)


def test_opening_does_not_import_alembic(sqlite_database):
    script = """
import sys
from pathlib import Path
from hostler.store import open_store
store = open_store(Path(sys.argv[1]))
with store.write() as tx:
    store.repo("a/b").add(tx)
store.close()
print([name for name in sys.modules if name.split(".")[0] == "alembic"])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, sqlite_database.home], capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_progress_of_the_backup_is_told(sqlite_database, tmp_path):
    told = []
    upgrade(
        sqlite_database.home,
        sqlite_database.place,
        clock=FakeClock(),
        patience=PATIENT,
        progress=lambda done, total: told.append((done, total)),
        plan=with_another(tmp_path, "pass"),
    )
    assert told[-1][0] == told[-1][1] > 0
    no_progress(*told[-1])


def test_a_migration_that_breaks_a_reference_changes_nothing(sqlite_database, tmp_path):
    before = facts(sqlite_database)
    table = "CREATE TABLE child (a TEXT REFERENCES repositories (repo_full_name))"
    row = "INSERT INTO child VALUES ('nobody')"
    plan = with_another(tmp_path, f"op.execute({table!r}); op.execute({row!r})")
    with pytest.raises(StoreError, match="1 rows refer to rows that are not there"):
        sqlite_database.upgrade(plan)
    assert facts(sqlite_database) == before
    assert sqlite_database.inspect().sound
