"""A repository is renamed on GitHub, and the settings follow: nothing begins anew."""

from __future__ import annotations

import pytest
from intake_yard import database
from service_town import ALICE, BOB, REPO, US

from hostler.clock import FakeClock
from hostler.config.settings import Repo, Settings
from hostler.errors import StoreConflict
from hostler.model import RepoName
from hostler.service.renaming import SameRepository, know_by_number, move_mirror
from hostler.store.repositories import known_repositories
from hostler.store.tables import tables_with_a_repository
from hostler.store.tasks import TaskState, tasks_in

NEW = "alice/meadow"


def rename(town) -> None:
    town.person(ALICE)("PATCH", "", name="meadow")


def renamed(**more):
    """The section of the settings as we advise it: another name, the same id."""
    return {"stable": {"owner": "alice", "name": "meadow", "allowed_users": [ALICE, BOB], **more}}


def ours(person, number):
    return [one["body"] for one in person.comments(number) if one["user"]["login"] == US]


def test_after_a_rename_nothing_is_done_twice_and_nothing_is_lost(found_town):
    town = found_town()
    alice = town.person(ALICE)
    number = alice.file("Notes", "agent:small-job")
    with town.service() as service:
        task = service.task(number, TaskState.AWAITING_FEEDBACK)
        pull = service.until(lambda: service.task(number).pr_number)
        alice.say(pull, "Please add a line.")
        service.look()
        service.until(lambda: len(ours(alice, pull)) == 1)
        service.task(number, TaskState.AWAITING_FEEDBACK)
    rename(town)
    alice = town.person(ALICE, NEW)
    alice.say(pull, "And another.")
    with town.service(more=renamed()) as service:
        service.until(lambda: len(ours(alice, pull)) == 2)
        service.look()
        with service.house.store.read() as tx:
            (only,) = tasks_in(tx, tuple(TaskState))
            assert (only.id, only.repo_full_name, only.project) == (task.id, NEW, "stable")
            for table in tables_with_a_repository():
                kept = tx.execute(table.select().where(table.c.repo_full_name == REPO))
                assert kept.first() is None, table.name
        assert len(alice.pulls()) == 1
        replies = ours(alice, pull)
        assert ["Please add a line." in replies[0], "And another." in replies[1]] == [True, True]
        alice.merge(pull)
        service.look()
        service.task(number, TaskState.DONE)
    assert (town.home / "mirrors/alice/meadow.git").is_dir()
    assert (town.home / "mirrors/alice/stable.git").is_symlink()


def test_both_names_in_the_settings_are_told_of_and_the_old_one_goes_on(found_town):
    town = found_town()
    number = town.person(ALICE).file("Notes", "agent:small-job")
    with town.service() as service:
        service.task(number, TaskState.AWAITING_FEEDBACK)
    rename(town)
    again = {"meadow": renamed()["stable"]}
    with town.service(more=again) as service:
        service.until(lambda: any("are one repository" in line for line in service.told))
        other = town.person(ALICE, NEW).file("More notes", "agent:small-job")
        service.look()
        assert service.task(other).project == "stable"
        told = [line for line in service.told if "is now" in line]
        assert told == [f"{REPO} is now {NEW}: change its name in [repo.stable], and keep that id."]


class Numbered:
    """A GitHub that knows one number for each name, and counts who asks."""

    def __init__(self, **numbers):
        self.numbers = numbers
        self.asked = []

    def repo(self, name):
        self.asked.append(str(name))
        return self

    def repository(self):
        return self

    @property
    def id(self):
        return self.numbers[self.asked[-1].split("/")[1]]


def named(*names):
    return Settings(repo={name: Repo(owner="a", name=name) for name in names})


@pytest.fixture
def knows(tmp_path):
    with database(FakeClock()) as store:

        def know(hub, settings, name):
            know_by_number(store, hub, settings, RepoName("a", name), tmp_path)
            with store.read() as tx:
                return {one.name.name: one.github_id for one in known_repositories(tx)}

        yield know


def test_github_is_asked_once_for_each_name(knows):
    hub = Numbered(x=1, y=2)
    assert knows(hub, named("x", "y"), "x") == {"x": 1}
    assert knows(hub, named("x", "y"), "x") == {"x": 1}
    assert knows(hub, named("x", "y"), "y") == {"x": 1, "y": 2}
    assert hub.asked == ["a/x", "a/y"]


def test_rows_follow_there_and_back(knows):
    hub = Numbered(x=1, y=1)
    knows(hub, named("x"), "x")
    assert knows(hub, named("y"), "y") == {"y": 1}
    assert knows(hub, named("x"), "x") == {"x": 1}
    with pytest.raises(SameRepository, match="a/x and a/y are one repository"):
        knows(hub, named("x", "y"), "y")
    assert knows(hub, named("x"), "x") == {"x": 1}


def test_another_repository_under_a_name_of_ours_gets_none_of_its_rows(knows):
    knows(Numbered(x=1), named("x"), "x")
    with pytest.raises(StoreConflict, match="was repository 1 and is now 2"):
        knows(Numbered(X=2), named("X"), "X")


def test_a_mirror_that_was_moved_by_half_is_found(tmp_path):
    old, new = RepoName("a", "x"), RepoName("b", "y")
    (tmp_path / "a/x.git").mkdir(parents=True)
    (tmp_path / "a/x.git/HEAD").write_text("ref")
    for _ in range(2):
        move_mirror(tmp_path, old, new)
        assert (tmp_path / "b/y.git/HEAD").read_text() == "ref"
        assert (tmp_path / "a/x.git").is_symlink() and (tmp_path / "a/x.git/HEAD").exists()
    (tmp_path / "a/x.git").unlink()
    move_mirror(tmp_path, old, new)
    assert (tmp_path / "a/x.git/HEAD").read_text() == "ref"
    move_mirror(tmp_path, new, old)
    assert (tmp_path / "b/y.git").is_symlink() and not (tmp_path / "a/x.git").is_symlink()
    assert (tmp_path / "b/y.git/HEAD").read_text() == "ref"
