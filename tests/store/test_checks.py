"""What the doctor says about the database."""

from __future__ import annotations

import pytest
from database import Database
from next_revision import know_next_revision

from hostler import health
from hostler.clock import FakeClock
from hostler.health import CheckContext, CheckStatus
from hostler.store import checks


@pytest.fixture
def ask(monkeypatch):
    def ask(database, check):
        if database.url:
            monkeypatch.setenv("HOSTLER_DATABASE_URL", database.url)
        else:
            monkeypatch.delenv("HOSTLER_DATABASE_URL", raising=False)
        (finding,) = check(CheckContext(database.home, None, FakeClock()))
        assert finding.evidence
        assert (finding.remedy != "") == (
            finding.status in {CheckStatus.WARNING, CheckStatus.FAILED}
        )
        return finding

    return ask


def test_the_checks_are_registered():
    names = {item.name for item in health.list_checks()}
    assert {checks.DATABASE, checks.INTEGRITY, checks.SPACE, checks.WAL} <= names


def test_a_sound_database_is_well(database, ask):
    assert ask(database, checks.database).status is CheckStatus.OK
    assert ask(database, checks.integrity).status is CheckStatus.OK
    assert ask(database, checks.space).status is CheckStatus.OK


def test_a_missing_database_is_something_to_do(empty, ask):
    finding = ask(empty, checks.database)
    assert finding.status is CheckStatus.WARNING
    assert "hostler db upgrade" in finding.remedy
    assert ask(empty, checks.integrity).status is CheckStatus.SKIPPED
    assert ask(empty, checks.space).status is CheckStatus.OK
    assert ask(empty, checks.write_ahead_log).status is CheckStatus.SKIPPED


def test_an_older_schema_is_something_to_do(database, ask, monkeypatch):
    know_next_revision(monkeypatch)
    assert "upgrade" in ask(database, checks.database).remedy


def test_a_damaged_database_is_a_failure_with_evidence(home, ask):
    home.mkdir()
    (home / "hostler.db").write_bytes(b"garbage" * 1000)
    assert ask(Database(home), checks.integrity).status is CheckStatus.FAILED
    found = [item for item in health.list_checks() if item.name == checks.DATABASE]
    (finding,) = health._run_check(found[0], CheckContext(home, None, FakeClock()))
    assert finding.status is CheckStatus.FAILED
    assert "restore" in finding.remedy


@pytest.mark.parametrize(
    ("free", "status"),
    [(10**6, CheckStatus.FAILED), (5 * 10**8, CheckStatus.WARNING), (10**11, CheckStatus.OK)],
)
def test_little_space_is_told_before_it_is_none(sqlite_database, ask, monkeypatch, free, status):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": free}))
    assert ask(sqlite_database, checks.space).status is status


def test_a_log_that_only_grows_is_told(sqlite_database, ask):
    with sqlite_database.place.wal.open("wb") as log:
        log.truncate(checks.LARGE_WAL + 1)
    assert ask(sqlite_database, checks.write_ahead_log).status is CheckStatus.WARNING
    with sqlite_database.place.wal.open("wb") as log:
        log.truncate(0)
    assert ask(sqlite_database, checks.write_ahead_log).status is CheckStatus.OK


def test_a_database_that_everybody_may_read_is_told(sqlite_database, ask):
    sqlite_database.home.chmod(0o755)
    sqlite_database.file.chmod(0o644)
    finding = ask(sqlite_database, checks.database)
    assert finding.status is CheckStatus.WARNING
    assert "chmod" in finding.remedy
    sqlite_database.home.chmod(0o700)
    assert ask(sqlite_database, checks.database).status is CheckStatus.OK
