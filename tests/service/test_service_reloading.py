"""Settings that change under a service at work: one swap between two turns, or nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduler_fleet import Fleet, MakeFleet, settings_of

from hostler.clock import FakeClock
from hostler.config.loader import merge_settings, read_settings
from hostler.config.settings import PLAIN_TABLES, Runtime, Settings, needs_restart
from hostler.errors import ConfigError, StoreError
from hostler.service.change_detection import FILE_CHECK_SECONDS, SettingsFile
from hostler.service.context import AppContext
from hostler.service.repositories import RepoContexts, RepositoryNames
from hostler.service.runner import ServiceRunner
from hostler.store.tasks import TaskState

numbers = st.fixed_dictionaries(
    {},
    optional={
        "worker_count": st.integers(1, 9),
        "poll_interval_seconds": st.integers(5, 60),
        "log_retention_days": st.integers(1, 30),
        "action_token_unobserved_seconds": st.integers(1, 60),
    },
)
repos = st.sets(st.sampled_from("abc"))


@given(numbers, numbers, repos, repos)
def test_what_needs_no_restart_is_taken_and_the_rest_is_named(old, new, were, are):
    present, wanted = settings_of(*were, **old), settings_of(*are, **new)
    found = merge_settings(present, wanted)
    for key in Runtime.model_fields:
        a, b = getattr(present.runtime, key), getattr(wanted.runtime, key)
        kept = a != b and needs_restart(Runtime.model_fields[key])
        assert (f"runtime.{key}" in found.waiting) == kept
        assert (f"runtime.{key}" in found.taken) == (a != b and not kept)
        assert getattr(found.settings.runtime, key) == (a if kept else b)
    assert found.settings.repo == wanted.repo
    assert {f"repo.{name}" for name in were ^ are} <= set(found.taken)
    # Once more, and nothing is new but what waits.
    again = merge_settings(found.settings, wanted)
    assert (again.taken, again.waiting) == ((), found.waiting)


def test_every_table_is_compared():
    assert merge_settings(Settings(), Settings()).settings == Settings()
    assert set(PLAIN_TABLES) | {"repo", "agent"} == set(Settings.model_fields)


class File:
    """A settings file, and how often it was read."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hostler.toml"
        self.clock = FakeClock()
        self.reads = 0
        self.write(4)
        self.watched = SettingsFile(
            self.path, read_settings(self.path).settings, self.load, self.clock
        )

    def write(self, workers: object) -> None:
        self.path.write_text(f"[runtime]\nworker_count = {workers}\n")

    def load(self) -> Settings:
        self.reads += 1
        return read_settings(self.path).settings

    def look(self, seconds: float = FILE_CHECK_SECONDS):
        self.clock.advance(seconds)
        return self.watched.read_change()


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


def test_a_file_that_stays_is_read_once(file):
    assert [file.look() for _ in range(5)] == [None] * 5 and file.reads == 1


def test_what_was_written_before_anybody_looked_is_noticed(file):
    """As after a restart that failed: other settings are in force than the file says."""
    in_force = read_settings(file.path).settings
    file.write(12)
    watched = SettingsFile(file.path, in_force, file.load, file.clock)
    file.clock.advance(FILE_CHECK_SECONDS)
    found = watched.read_change()
    assert found is not None and found.taken == ("runtime.worker_count",)


def test_a_file_that_changes_is_read_once_and_at_most_every_two_seconds(file):
    file.write(12)
    assert file.look(FILE_CHECK_SECONDS / 2) is None and file.reads == 0
    found = file.look(FILE_CHECK_SECONDS / 2)
    assert found.taken == ("runtime.worker_count",) and found.settings.runtime.worker_count == 12
    assert file.look() is None and file.reads == 1


def test_a_file_that_was_replaced_by_one_of_the_same_size_is_noticed(file, tmp_path):
    other = tmp_path / "new"
    other.write_text("[runtime]\nworker_count = 7\n")
    other.rename(file.path)
    assert file.look().settings.runtime.worker_count == 7


def test_whoever_asks_has_it_read_at_once(file):
    file.watched.request_reload()
    found = file.look(0.0)
    assert (found.taken, found.waiting, file.reads) == ((), (), 1)


def test_mistakes_change_nothing_and_are_raised_once_for_each_change(file):
    file.write("'many'")
    with pytest.raises(ConfigError):
        file.look()
    assert file.look() is None
    file.path.unlink()
    with pytest.raises(ConfigError):
        file.look()
    file.write(5)
    assert file.look().settings.runtime.worker_count == 5


def swap(town: Fleet, service: ServiceRunner, settings: Settings) -> None:
    """The settings are now these, and the watcher has seen it."""
    service._changes.append(merge_settings(service.app.settings, settings))
    town.turn(service)


def test_repositories_come_and_go(fleet: MakeFleet):
    town = fleet("barn", "stable", poll_interval_seconds=10)
    service = town.service()
    town.turn(service)
    town.looks.clear()
    swap(town, service, settings_of("stable", "field", poll_interval_seconds=10))
    # The new one at once, the one that stays in its time, the one that went never.
    assert town.looks == ["field"]
    town.clock.advance(10)
    town.turn(service)
    assert sorted(town.looks) == ["field", "field", "stable"]
    assert any("repo.barn" in line and "repo.field" in line for line in town.told)


def test_a_look_under_way_is_not_begun_a_second_time(fleet: MakeFleet):
    town = fleet("barn", poll_interval_seconds=10)
    service = town.service()
    town.hanging["barn"] = threading.Event()
    town.turn(service)
    town.until_looks(1)
    swap(town, service, settings_of("barn", poll_interval_seconds=20))
    town.clock.advance(60)
    town.turn(service)
    assert town.looks == ["barn"]
    town.hanging.pop("barn").set()
    town.turn(service)
    assert not service.unreached_repositories() and town.logged("service_repo_polled") == 1


def test_more_and_fewer_workers(fleet: MakeFleet):
    town = fleet(worker_count=1)
    service = town.service()
    tasks = [town.put("barn") for _ in range(4)]
    town.turn(service)
    town.started(1)
    swap(town, service, settings_of("barn", "stable", worker_count=3))
    town.started(2)
    assert service._static_parts.limiter.capacity() == 3
    # Fewer: nobody is interrupted, and nobody begins until below.
    swap(town, service, settings_of("barn", "stable", worker_count=1))
    assert len(town.at_work) == 3
    town.let_go(service, tasks[0], tasks[1])
    town.turn(service)
    assert town.state(tasks[3]) is TaskState.QUEUED
    town.let_go(service, tasks[2])
    town.turn(service)
    town.started(1)
    assert town.at_work == {tasks[3].id}


def test_keys_that_need_a_restart_are_named_and_keep_their_value(fleet: MakeFleet):
    town = fleet("barn", log_retention_days=14)
    service = town.service()
    swap(town, service, settings_of("barn", log_retention_days=3))
    assert service.app.settings.runtime.log_retention_days == 14
    assert "Effective after a restart: runtime.log_retention_days." in town.told


def test_a_swap_that_cannot_be_made_leaves_everything_as_it_was(fleet: MakeFleet):
    """A damaged file of caps: the service works on by the settings it has."""
    town = fleet("barn", worker_count=1)
    service = town.service()
    town.turn(service)
    caps = town.home / "governor.json"
    caps.write_text("{ nonsense")
    before = service._parts
    swap(town, service, settings_of("field", worker_count=5))
    assert service._parts is before and service._static_parts.limiter.capacity() == 1
    # It works on meanwhile.
    task = town.put("barn")
    town.turn(service)
    town.started(1)
    assert town.state(task) is TaskState.RUNNING
    caps.unlink()
    town.turn(service)
    assert list(service.app.settings.repo) == ["field"]


def test_a_change_outlasts_a_busy_database(fleet: MakeFleet, monkeypatch):
    town = fleet("barn", worker_count=1)
    service = town.service()
    town.turn(service)
    busy = StoreError("The database is busy.")

    def refuse() -> None:
        raise busy

    with monkeypatch.context() as patch:
        patch.setattr(service._parts.demand_reporter, "withdraw", refuse)
        swap(town, service, settings_of("barn", worker_count=5))
        assert service._static_parts.limiter.capacity() == 1
    town.turn(service)
    assert service._static_parts.limiter.capacity() == 5


def test_wrong_settings_are_told_once_and_end_nothing(fleet: MakeFleet, tmp_path: Path):
    town = fleet("barn")
    path = tmp_path / "hostler.toml"
    path.write_text("[runtime]\nworker_count = 3\n")
    file = SettingsFile(path, town.settings, lambda: read_settings(path).settings, town.clock)
    service = town.service(None, file)
    path.write_text("nonsense = 1\n")
    for _ in range(3):
        service.reload()
        service._watch_settings()
    town.turn(service)
    assert len([line for line in town.told if "not reloaded" in line]) == 1
    assert list(service.app.settings.repo) == ["barn"]
    path.write_text("[runtime]\nworker_count = 3\n")
    service.reload()
    service._watch_settings()
    town.turn(service)
    assert service._static_parts.limiter.capacity() == 3 and not service.app.settings.repo


class Credentials:
    def login(self) -> str:
        return "bot"


class Hub:
    credentials = Credentials()


def test_desks_are_renewed_without_asking_github_where_the_name_stays(tmp_path, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(RepositoryNames, "know", lambda names, project: asked.append(project))

    def app(settings: Settings) -> AppContext:
        return AppContext(tmp_path, settings, store=None, hub=Hub(), environment={"PATH": "/bin"})

    repo_contexts = RepoContexts(app(settings_of("barn", "stable", "field")))
    made = {name: repo_contexts.of(name) for name in ("barn", "stable", "field")}
    repos = settings_of("barn", "stable").repo
    wanted = {
        "barn": repos["barn"].model_copy(update={"required_tests": ["make test"]}),
        "stable": repos["stable"].model_copy(update={"name": "renamed"}),
    }
    after = repo_contexts.renewed(app(settings_of("barn").model_copy(update={"repo": wanted})))
    # A renamed one is asked about before anything of it is done; one that went is gone.
    assert after.ready() == {"barn"} and len(asked) == 3
    barn = after.of("barn")
    assert barn.settings.required_tests == ["make test"] and barn.mirror is made["barn"].mirror
    # Whoever is at work goes on with the desk it has.
    assert made["barn"].settings.required_tests == [] and repo_contexts.of("barn") is made["barn"]
    assert len(asked) == 3


class Late(threading.Event):
    """Somebody asks just after it was looked whether anybody did."""

    def __init__(self) -> None:
        super().__init__()
        self.late = True

    def is_set(self) -> bool:
        found = super().is_set()
        if self.late:
            self.late = False
            self.set()
        return found


def test_whoever_asks_while_it_is_looked_is_heard_at_the_next_look(tmp_path):
    path, clock = tmp_path / "hostler.toml", FakeClock()
    path.write_text("")
    file = SettingsFile(path, Settings(), Settings, clock)
    file._asked = Late()
    clock.advance(FILE_CHECK_SECONDS)
    assert file.read_change() is None
    assert file.read_change() is not None
