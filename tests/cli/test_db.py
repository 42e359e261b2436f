"""`hostler db` as a person and as a program uses it, on SQLite."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostler.cli import main
from hostler.clock import SystemClock
from hostler.store import open_store
from hostler.store.engine.locks import home_lock

COMMANDS = ["upgrade", "backup", "restore", "check", "vacuum"]


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def db(environment, monkeypatch, capsys):
    """Run the command line in this process: loading the libraries each time would take long."""

    def run(*argv, env=None):
        for name, value in {**environment, **(env or {})}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["hostler", "db", *map(str, argv)])
        code = 0
        try:
            main.run()
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return run


def facts(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


def add(home, name):
    with closing(open_store(home)) as store, store.write() as tx:
        store.repo(name).add(tx)


def known(home):
    with closing(open_store(home)) as store, store.read() as tx:
        rows = tx.constant("SELECT repo_full_name FROM repositories").scalars()
        return set(rows)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(db, command):
    done = db(command, "--help")
    assert done.code == 0
    assert f"hostler db {command}" in done.out
    assert "Example:" in done.out
    assert "--json" in done.out


@pytest.mark.parametrize("command", ["backup", "check", "vacuum"])
def test_without_a_database_every_command_says_how_to_make_one(db, home, command):
    done = db(command)
    assert done.code == 1
    assert "There is no database yet" in done.err
    assert "hostler db upgrade" in done.err
    assert done.out == ""
    assert not (home / "hostler.db").exists()


def test_upgrade_creates_the_database_once(db, home):
    first = facts(db("upgrade", "--json"))
    assert (first["changed"], first["from"], first["backup"]) == (True, None, None)
    again = db("upgrade")
    assert "up to date" in again.out
    assert not (home / "backups").exists()
    assert facts(db("upgrade", "--json"))["changed"] is False


def test_backup_and_restore_bring_the_old_state_back(hostler, home):
    hostler("db", "upgrade")
    add(home, "octo/before")
    backup = facts(hostler("db", "backup", "--json"))
    assert backup["bytes"] == Path(backup["backup"]).stat().st_size
    add(home, "octo/after")
    restored = facts(hostler("db", "restore", backup["backup"], "--json"))
    assert known(home) == {"octo/before"}
    assert Path(restored["kept"]).is_file()
    assert "moved to" in hostler("db", "restore", restored["kept"]).out
    assert known(home) == {"octo/before", "octo/after"}


def test_a_backup_goes_where_it_is_told(db, tmp_path):
    db("upgrade")
    target = tmp_path / "new" / "copy.db"
    assert db("backup", "--to", target).code == 0
    again = db("backup", "--to", target)
    assert again.code == 1
    assert "exists already" in again.err
    (tmp_path / "file").touch()
    nowhere = db("backup", "--to", tmp_path / "file" / "copy.db")
    assert nowhere.code == 1
    assert "Traceback" not in nowhere.err


@pytest.mark.parametrize("kind", ["missing", "folder", "garbage", "empty"])
def test_bad_backups_are_refused_in_words(db, home, tmp_path, kind):
    db("upgrade")
    add(home, "octo/before")
    file = tmp_path / "thing"
    if kind == "folder":
        file.mkdir()
    elif kind == "garbage":
        file.write_bytes(os.urandom(9000))
    elif kind == "empty":
        file.touch()
    done = db("restore", file)
    assert done.code == 1
    assert "error:" in done.err
    assert "Traceback" not in done.err
    assert known(home) == {"octo/before"}


def test_check_finds_a_sound_database_sound(db):
    db("upgrade")
    assert "No problems found" in db("check").out
    assert facts(db("check", "--json"))["problems"] == []


def test_check_lists_problems_and_fails(db, home):
    db("upgrade")
    with closing(sqlite3.connect(home / "hostler.db")) as connection:
        connection.execute("DROP TABLE repositories")
    done = db("check", "--json")
    assert done.code == 1
    assert json.loads(done.out)["sound"] is False
    done = db("check")
    assert done.code == 1
    assert "problem:" in done.out


@pytest.mark.parametrize("command", [("check",), ("vacuum",), ("backup",), ("upgrade",)])
@pytest.mark.parametrize("content", ["garbage", "folder"])
def test_a_file_that_is_no_database_is_told_in_words(db, home, command, content):
    home.mkdir()
    if content == "folder":
        (home / "hostler.db").mkdir()
    else:
        (home / "hostler.db").write_bytes(b"garbage" * 1000)
    done = db(*command)
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "damaged" in done.err + done.out or "folder" in done.err


def test_vacuum_says_what_it_gave_back(db):
    db("upgrade")
    sizes = facts(db("vacuum", "--json"))
    assert sizes["after"] <= sizes["before"]
    assert "bytes after" in db("vacuum").out


@pytest.mark.parametrize(("command", "before"), [("upgrade", []), ("vacuum", ["upgrade"])])
def test_while_a_service_works_on_the_home_it_is_named(db, home, command, before):
    for step in before:
        db(step)
    with home_lock(home, SystemClock()):
        done = db(command)
    assert done.code == 1
    assert str(os.getpid()) in done.err


def test_restore_is_refused_while_a_service_works_on_the_home(db, home):
    db("upgrade")
    backup = facts(db("backup", "--json"))["backup"]
    with home_lock(home, SystemClock()):
        done = db("restore", backup)
    assert done.code == 1
    assert str(os.getpid()) in done.err


def test_a_password_in_the_url_is_refused_and_not_repeated(db):
    url = "postgresql://me:hunter2@db.example/hostler"
    for done in (
        db("--database-url", url, "check"),
        db("check", env={"HOSTLER_DATABASE_URL": url}),
    ):
        assert done.code == 1
        assert "contains a password" in done.err
        assert "hunter2" not in done.err + done.out


def test_a_server_that_does_not_answer_is_told_in_words(db):
    done = db("--database-url", "postgresql://me@127.0.0.1:1/hostler", "upgrade")
    assert done.code == 1
    assert "does not answer" in done.err
    assert "Traceback" not in done.err


def test_help_does_not_load_the_database_libraries():
    script = "import sys, hostler.cli.main; print({'sqlalchemy', 'alembic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "set()"


def test_what_changes_the_database_is_in_the_log(hostler, home):
    hostler("db", "upgrade")
    hostler("db", "upgrade")
    hostler("db", "backup", "--to", home / "copy.db")
    hostler("db", "restore", home / "copy.db")
    (log,) = (home / "logs").iterdir()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["event"] for line in lines] == [
        "store_upgraded",
        "store_backed_up",
        "store_restored",
    ]
    assert lines[1]["backup"] == str(home / "copy.db")


def test_the_settings_say_where_the_database_is(hostler, home):
    home.mkdir()
    url = "postgresql://nobody@127.0.0.1:1/none"
    (home / "hostler.toml").write_text(f'[runtime]\ndatabase_url = "{url}"\n')
    for command in (("db", "check"), ("db", "upgrade")):
        done = hostler(*command)
        assert done.code == 1
        assert "127.0.0.1:1" in done.err and "Traceback" not in done.err
    assert "127.0.0.1:1" in hostler("doctor").out
