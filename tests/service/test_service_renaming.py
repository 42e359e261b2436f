"""A repository is renamed on GitHub, and the settings follow: nothing begins anew."""

from __future__ import annotations

import pytest
from intake_yard import database
from rough_town import Gate
from service_town import ALICE, BOB, REPO, US

from hostler.checkouts.mirror import move_mirror
from hostler.clock import FakeClock
from hostler.config.loader import merge_settings
from hostler.config.settings import Repo, Settings
from hostler.model import RepoName
from hostler.service.repositories import RepositoryNames, SameRepository
from hostler.store.repositories import known_repositories
from hostler.store.schema import tables_with_a_repository
from hostler.store.tasks import TaskState, require_task, tasks_in
from hostler.workflows.manual_tasks import TaskSubmission, submit_task

NEW = "alice/meadow"


def rename(town) -> None:
    town.person(ALICE)("PATCH", "", name="meadow")


def renamed(**more):
    """The section of the settings as we advise it: another name, the same id."""
    return {"stable": {"owner": "alice", "name": "meadow", "allowed_users": [ALICE, BOB], **more}}


def ours(person, number):
    return [one["body"] for one in person.comments(number) if one["user"]["login"] == US]


@pytest.mark.long
def test_after_a_rename_nothing_is_done_twice_and_nothing_is_lost(found_town):
    town = found_town()
    alice = town.person(ALICE)
    number = alice.file("Notes", "agent:small-job")
    with town.service() as service:
        task = service.task(number, TaskState.AWAITING_FEEDBACK)
        pull = service.until(lambda: service.task(number).pr_number)
        alice.say(pull, "Please add a line.")
        service.poll()
        service.until(lambda: len(ours(alice, pull)) == 1)
        service.task(number, TaskState.AWAITING_FEEDBACK)
    rename(town)
    alice = town.person(ALICE, NEW)
    alice.say(pull, "And another.")
    with town.service(more=renamed()) as service:
        service.until(lambda: len(ours(alice, pull)) == 2)
        service.poll()
        with service.app.store.read() as tx:
            (only,) = tasks_in(tx, tuple(TaskState))
            assert (only.id, only.repo_full_name, only.project) == (task.id, NEW, "stable")
            for table in tables_with_a_repository():
                kept = tx.execute(table.select().where(table.c.repo_full_name == REPO))
                assert kept.first() is None, table.name
        assert len(alice.pulls()) == 1
        replies = ours(alice, pull)
        assert ["Please add a line." in replies[0], "And another." in replies[1]] == [True, True]
        alice.merge(pull)
        service.poll()
        service.task(number, TaskState.DONE)
    assert (town.home / "mirrors/alice/meadow.git").is_dir()
    assert not (town.home / "mirrors/alice/stable.git").exists()


def test_a_new_repository_under_the_old_name_is_a_stranger(found_town):
    """Both are in the settings: each has its own tasks and its own mirror."""
    town = found_town()
    number = town.person(ALICE).file("Notes", "agent:small-job")
    with town.service() as service:
        service.task(number, TaskState.AWAITING_FEEDBACK)
    rename(town)
    made = town.hub.client(ALICE).post("/user/repos", json={"name": "stable", "auto_init": True})
    assert made.is_success
    invited = town.hub.client(ALICE).put(f"/repos/{REPO}/collaborators/{US}", json={})
    assert invited.is_success, invited.text
    again = {"meadow": renamed()["stable"], "stable": town_section()}
    places = [town.home / "mirrors" / f"alice/{name}.git" for name in ("stable", "meadow")]
    with town.service(more=again) as service:
        # Its section means the stranger now, and nothing of it is done there.
        task = service.task(number, TaskState.STOPPED)
        assert task.repo_full_name == NEW
        assert "does not mean alice/meadow any more" in task.reason
        service.until(lambda: len(known(service)) == 2)
        service.until(lambda: all(place.is_dir() for place in places))
    assert not any(place.is_symlink() for place in places)


def town_section():
    owner, name = REPO.split("/")
    return {"owner": owner, "name": name, "allowed_users": [ALICE, BOB]}


def known(service):
    with service.app.store.read() as tx:
        return known_repositories(tx)


def test_a_rename_is_taken_up_while_an_agent_works(found_town, tmp_path):
    gate = Gate(tmp_path, "stable")
    town = found_town(agent=gate.agent())
    number = town.person(ALICE).file("Notes", "agent:small-job")
    with town.service() as service:
        with gate.held():
            service.task(number, TaskState.RUNNING)
            rename(town)
            new = merge_settings(service.app.settings, town.settings(renamed()))
            service.runner._changes.append(new)
            service.poll()
            service.until(lambda: [str(one.name) for one in known(service)] == [NEW])
        assert service.task(number, TaskState.AWAITING_FEEDBACK).repo_full_name == NEW
        service.until(lambda: town.person(ALICE, NEW).pulls())


def test_a_section_that_means_another_repository_when_an_agent_is_done(found_town, tmp_path):
    """Its work is brought nowhere, and its run comes to an end all the same."""
    gate = Gate(tmp_path, "stable")
    town = found_town(agent=gate.agent())
    number = town.person(ALICE).file("Notes", "agent:small-job")
    barn = {"stable": {"owner": "alice", "name": "barn", "allowed_users": [ALICE]}}
    with town.service() as service:
        with gate.held():
            service.task(number, TaskState.RUNNING)
            new = merge_settings(service.app.settings, town.settings(barn))
            service.runner._changes.append(new)
            service.poll()
            service.until(lambda: len(known(service)) == 2)
        task = service.task(number, TaskState.STOPPED)
        assert task.reason == f"[repo.stable] now names alice/barn instead of {REPO}."
        service.rested()
    assert town.person(ALICE, "alice/barn").pulls() == town.person(ALICE).pulls() == []


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
        service.poll()
        assert service.task(other).project == "stable"
        told = [line for line in service.told if "is now" in line]
        assert told == [f"{REPO} is now {NEW}: change its name in [repo.stable], and keep that id."]


class Numbered:
    """A GitHub that knows one number for each name, and counts who asks."""

    def __init__(self, **numbers):
        self.numbers = numbers
        self.asked = []
        self._name = ""

    def repo(self, name):
        self._name = name.name
        return self

    def repository(self):
        self.asked.append(self._name)
        return self

    @property
    def id(self):
        return self.numbers[self._name]

    def find_repository_name(self, number):
        found = [name for name, one in self.numbers.items() if one == number]
        return RepoName("a", found[0]) if found else None


def named(**names):
    """Settings: sections and the names they give."""
    return Settings(repo={id: Repo(owner="a", name=name) for id, name in names.items()})


@pytest.fixture
def knows(tmp_path):
    with database(FakeClock()) as store:

        def know(hub, settings, *projects):
            for project in projects:
                RepositoryNames(store, hub, settings, tmp_path).know(project)
            with store.read() as tx:
                return {one.name.name: one.github_id for one in known_repositories(tx)}

        know.store = store
        yield know


def test_rows_follow_there_and_back(knows):
    assert knows(Numbered(x=1), named(p="x"), "p", "p") == {"x": 1}
    hub = Numbered(x=1, y=1)
    assert knows(hub, named(p="y"), "p") == {"y": 1}
    assert knows(hub, named(p="x"), "p") == {"x": 1}
    with pytest.raises(SameRepository, match="a/x and a/y are one repository"):
        knows(hub, named(p="x", q="y"), "q")
    assert knows(hub, named(p="x"), "p") == {"x": 1}


def test_a_name_that_was_watched_before_and_is_another_repository_now(knows):
    assert knows(Numbered(x=1, y=2), named(p="x", q="y"), "p", "q") == {"x": 1, "y": 2}
    # The second was deleted, and the first has its name.
    assert knows(Numbered(y=1), named(p="y"), "p") == {"y": 1, "y.former-2": 2}


@pytest.mark.parametrize("order", [("p", "q"), ("q", "p")])
def test_one_is_renamed_and_a_new_one_has_its_name(knows, order):
    knows(Numbered(x=1), named(p="x"), "p")
    found = knows(Numbered(y=1, x=3), named(p="y", q="x"), *order)
    assert found == {"y": 1, "x": 3}


@pytest.mark.parametrize("order", [("p", "q"), ("q", "p")])
def test_two_that_change_names_keep_their_rows(knows, order):
    knows(Numbered(x=1, y=2), named(p="x", q="y"), "p", "q")
    found = knows(Numbered(x=2, y=1), named(p="x", q="y"), *order)
    assert found == {"x": 2, "y": 1}


def test_tasks_of_another_repository_are_stopped_when_a_section_changes_its_meaning(knows):
    knows(Numbered(x=1), named(p="x"), "p")
    with knows.store.write("tasks", "outbox", "admission") as tx:
        theirs = submit_task(tx, TaskSubmission("p", "job", "ann", repo_full_name="a/x"))
        folder = submit_task(tx, TaskSubmission("p", "job", "ann", cwd="/x"))
    knows(Numbered(z=9), named(p="z"), "p")
    with knows.store.read() as tx:
        states = [require_task(tx, task.id).state for task in (theirs, folder)]
    assert states == [TaskState.STOPPED, TaskState.QUEUED]


def borrow(root, project, name):
    """A checkout that takes its objects from a mirror."""
    file = root / "checkouts" / project / "t" / ".git/objects/info/alternates"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{root / 'mirrors' / name / 'objects'}\n")
    return file


def mirror(root, name, text):
    (root / "mirrors" / name).mkdir(parents=True)
    (root / "mirrors" / name / "HEAD").write_text(text)


def test_a_mirror_moves_and_its_checkouts_follow(tmp_path):
    old, new = RepoName("a", "x"), RepoName("b", "y")
    mirror(tmp_path, "a/x.git", "ours")
    mirror(tmp_path, "b/y.git", "an old one")
    ours, other = borrow(tmp_path, "p", "a/x.git"), borrow(tmp_path, "q", "b/y.git")
    for _ in range(2):
        move_mirror(tmp_path / "mirrors", tmp_path / "checkouts", old, new)
        assert (tmp_path / "mirrors/b/y.git/HEAD").read_text() == "ours"
        assert not (tmp_path / "mirrors/a/x.git").exists()
        assert ours.read_text() == f"{tmp_path / 'mirrors/b/y.git/objects'}\n"
        assert other.read_text() == f"{tmp_path / 'mirrors/b/y.former-1.git/objects'}\n"
        assert (tmp_path / "mirrors/b/y.former-1.git/HEAD").read_text() == "an old one"


def test_a_mirror_that_was_moved_by_half_is_found(tmp_path):
    """Cut off after the folder has moved, and before its checkouts were told."""
    old, new = RepoName("a", "x"), RepoName("b", "y")
    mirror(tmp_path, "b/y.git", "ours")
    file = borrow(tmp_path, "p", "a/x.git")
    file.write_text(file.read_text() + f"{tmp_path / 'mirrors/b/y.git/objects'}\n")
    move_mirror(tmp_path / "mirrors", tmp_path / "checkouts", old, new)
    assert file.read_text() == f"{tmp_path / 'mirrors/b/y.git/objects'}\n"
