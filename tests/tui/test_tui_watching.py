"""A watcher: woken by commits, patient with failures, and never in anybody's way."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from intake_yard import migrated
from tui_farm import seen
from tui_glass import Glass

from hostler.clock import FakeClock
from hostler.config.settings import Settings
from hostler.errors import HostlerError, StoreBusy, StoreError
from hostler.store import open_store
from hostler.tui.snapshot_source import (
    BUSY_POLL_SECONDS,
    IDLE_POLL_SECONDS,
    MAX_RETRY_SECONDS,
    MIN_POLL_SECONDS,
    HomeSnapshots,
    ServiceSnapshots,
    SnapshotWatcher,
    describe_error,
    retry_delay,
)


class Ward:
    """A watcher and what it told."""

    def __init__(self, first):
        self.clock, self.glass, self.told = FakeClock(), Glass(first), queue.Queue()
        self.watcher = SnapshotWatcher(self.glass, self.clock, lambda *news: self.told.put(news))

    def hears(self):
        return self.told.get(timeout=20)

    def passes(self, seconds):
        self.clock.wait_for_waiters(1)
        self.clock.advance(seconds)


@pytest.fixture
def ward() -> Iterator[Ward]:
    made = Ward(seen())
    made.watcher.start()
    yield made
    made.watcher.end()
    made.watcher.join()
    assert made.glass.forgotten


def test_it_looks_at_once_and_after_each_commit(ward):
    assert ward.hears() == (seen(), "")
    ward.passes(MIN_POLL_SECONDS)
    ward.glass.put(seen(full=False))
    assert ward.hears() == (seen(full=False), "")


def test_many_commits_in_a_moment_are_one_look(ward):
    ward.hears()
    for _ in range(50):
        ward.glass.put(seen())
    ward.passes(MIN_POLL_SECONDS)
    ward.hears()
    ward.clock.wait_for_waiters(1)
    assert ward.glass.looks == 2


@pytest.mark.parametrize(
    ("full", "seconds"), [(True, BUSY_POLL_SECONDS), (False, IDLE_POLL_SECONDS)]
)
def test_without_commits_it_looks_now_and_then(full, seconds):
    ward = Ward(seen(full))
    ward.watcher.start()
    ward.hears()
    ward.passes(MIN_POLL_SECONDS)
    ward.clock.advance(seconds - MIN_POLL_SECONDS - 0.01)
    assert ward.glass.looks == 1
    ward.clock.advance(0.01)
    assert ward.hears() == (seen(full), "")
    ward.watcher.end()
    ward.watcher.join()


def test_a_failure_is_told_and_tried_again_later_each_time(ward):
    ward.hears()
    ward.passes(MIN_POLL_SECONDS)
    ward.glass.put(StoreBusy("pid 7", 5.0))
    for failures in range(1, 6):
        told, trouble = ward.hears()
        assert told is None and "pid 7" in trouble
        assert ward.glass.forgotten == failures
        ward.passes(retry_delay(failures))
    ward.hears()
    ward.glass.put(seen())
    ward.passes(MAX_RETRY_SECONDS)
    assert ward.hears() == (seen(), "")


@given(st.integers(1, 10**6))
def test_pauses_grow_and_have_an_end(failures):
    assert 1.0 <= retry_delay(failures) <= retry_delay(failures + 1) <= MAX_RETRY_SECONDS
    assert [retry_delay(n) for n in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 5.0]


def test_a_look_can_be_asked_for_also_in_trouble():
    ward = Ward(StoreBusy("pid 7", 5.0))
    ward.watcher.start()
    ward.hears()
    ward.glass.seen = seen()
    ward.watcher.look_now()
    assert ward.hears() == (seen(), "")
    ward.watcher.end()
    ward.watcher.join()
    ward.watcher.look_now()
    assert ward.told.empty()


def test_every_error_has_words():
    assert describe_error(HostlerError("A.", safe="B.", remedy="C.")) == "A. B. C."
    assert (
        describe_error(PermissionError(13, "Permission denied"))
        == "System error: Permission denied."
    )
    assert "KeyError" in describe_error(KeyError("x"))


@pytest.fixture
def outlook(tmp_path) -> Iterator[HomeSnapshots]:
    made = HomeSnapshots(tmp_path, Settings)
    yield made
    made.forget()


def test_a_home_without_a_database_and_then_with_one(tmp_path, outlook):
    with pytest.raises(StoreError):
        outlook.mark()
    (tmp_path / "hostler.db").write_bytes(migrated())
    mark = outlook.mark()
    assert outlook.look()["queue"] == []
    assert not outlook.wait(mark, 0.0)
    store = open_store(tmp_path)
    with store.write("x") as tx:
        from hostler.store.operator import pause

        pause(tx, "all", "ann", "")
    store.close()
    assert outlook.wait(mark, 20.0)
    assert [one["by"] for one in outlook.look()["pauses"]] == ["ann"]


def test_a_database_that_is_moved_away_or_replaced_is_noticed(tmp_path, outlook):
    file = tmp_path / "hostler.db"
    file.write_bytes(migrated())
    outlook.look()
    file.rename(tmp_path / "elsewhere.db")
    with pytest.raises(StoreError):
        outlook.look()
    file.write_bytes(migrated())
    assert outlook.look()["queue"] == []


def test_settings_are_read_again_when_it_begins_anew(tmp_path):
    (tmp_path / "hostler.db").write_bytes(migrated())
    names = ["barn"]

    def settings():
        return Settings.model_validate({"repo": {n: {"owner": "o", "name": n} for n in names}})

    outlook = HomeSnapshots(tmp_path, settings)
    assert [one["project"] for one in outlook.look()["repositories"]] == ["barn"]
    names.append("field")
    assert len(outlook.look()["repositories"]) == 1
    outlook.forget()
    assert len(outlook.look()["repositories"]) == 2
    outlook.forget()


def test_looking_writes_nothing(tmp_path, outlook):
    file = tmp_path / "hostler.db"
    file.write_bytes(migrated())
    before = file.read_bytes()
    for _ in range(3):
        outlook.look()
        outlook.wait(outlook.mark(), 0.0)
    outlook.forget()
    assert file.read_bytes() == before
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept <= {"hostler.db", "hostler.db-wal", "hostler.db-shm"}


def test_settings_that_a_service_took_up_are_looked_with(tmp_path):
    (tmp_path / "hostler.db").write_bytes(migrated())
    store = open_store(tmp_path)
    present = [Settings()]
    outlook = ServiceSnapshots(tmp_path, store, lambda: present[0])
    assert outlook.look()["repositories"] == []
    present[0] = Settings.model_validate({"repo": {"barn": {"owner": "octo", "name": "barn"}}})
    assert [one["repo"] for one in outlook.look()["repositories"]] == ["octo/barn"]
    outlook.forget()
    assert not outlook.wait(outlook.mark(), 0.0)
    store.close()
