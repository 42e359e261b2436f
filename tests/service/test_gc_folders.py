"""Real folders and real git: no work is lost, no link is followed, nothing in use is taken."""

from __future__ import annotations

import fcntl
from datetime import timedelta
from pathlib import Path

import pytest
from gc_yard import HERE, git

from hostler.bus.message import id_from_time
from hostler.checkouts.checkout import CommitIdentity, fetch_task_head
from hostler.checkouts.cleanup import save_and_remove
from hostler.checkouts.mirror import fetch_mirror
from hostler.checkouts.push import push_commit
from hostler.clock import SystemClock
from hostler.config.settings import Settings
from hostler.model import RepoName
from hostler.service.gc import files as checkouts_module
from hostler.service.gc.context import GcKind
from hostler.service.gc.folders import is_inside_home, measure_size
from hostler.service.gc.rules import KeepReason
from hostler.store.engine.locks import home_lock
from hostler.store.runs import RunState
from hostler.store.tasks import TaskState

ANN = CommitIdentity("Ann", "ann@example.org")
STATES = [TaskState.DONE, TaskState.FAILED, TaskState.STOPPED]


def names(swept):
    return [one.name for one in swept.gone]


def reasons(swept):
    return {one.name: one.why for one in swept.kept}


def of_repo(yard, name="t1", state=TaskState.DONE):
    return yard.task(name, state, repo_full_name=str(HERE))


def commit(path, name="work"):
    (path / name).write_text("x")
    git("add", "-A", cwd=path)
    git("commit", "-qm", "Work", cwd=path)


# Checkouts


@pytest.mark.parametrize("state", STATES)
def test_a_checkout_whose_work_is_pushed_goes_and_its_task_with_it(yard, fields, state):
    checkout = fields.checkout(of_repo(yard, state=state))
    commit(checkout.path)
    push_commit(checkout.mirror, fields.remote, checkout.branch, fetch_task_head(checkout), None)
    yard.age()
    said = yard.gc(dry_run=True)
    assert names(said[GcKind.CHECKOUTS]) == ["stable/t1"] and names(said[GcKind.TASKS]) == ["t1"]
    assert checkout.path.exists()
    found = yard.gc()
    assert names(found[GcKind.CHECKOUTS]) == ["stable/t1"] and names(found[GcKind.TASKS]) == ["t1"]
    assert found[GcKind.CHECKOUTS].size > 1000
    assert list(checkout.path.parent.iterdir()) == []


@pytest.mark.parametrize(
    "leave",
    [
        lambda path: (path / "half").write_text("x"),
        lambda path: (path / "README.md").write_text("changed"),
        commit,
        lambda path: ((path / "README.md").write_text("y"), git("stash", "-q", cwd=path)),
        lambda path: git("init", "-q", str(path / "inner"), cwd=path),
    ],
    ids=["new file", "changed file", "unpushed commit", "stash", "another repository"],
)
def test_a_dirty_checkout_stays_as_it_is_and_keeps_its_task(yard, fields, leave):
    checkout = fields.checkout(of_repo(yard))
    leave(checkout.path)
    before = git("status", "--porcelain", cwd=checkout.path)
    yard.age()
    found = yard.gc()
    (kept,) = found[GcKind.CHECKOUTS].kept
    assert kept.why is KeepReason.DIRTY and kept.detail
    assert reasons(found[GcKind.TASKS]) == {"t1": KeepReason.CHECKOUT}
    assert git("status", "--porcelain", cwd=checkout.path) == before


@pytest.mark.parametrize("state", [state for state in TaskState if state not in STATES])
def test_the_checkout_of_a_task_that_is_not_over_stays(yard, fields, state):
    checkout = fields.checkout(of_repo(yard, state=state))
    yard.age()
    assert reasons(yard.gc()[GcKind.CHECKOUTS]) == {"stable/t1": KeepReason.UNFINISHED}
    assert checkout.path.exists()


def test_a_checkout_with_an_open_run_stays(yard, fields):
    task = of_repo(yard, state=TaskState.STOPPED)
    fields.checkout(task)
    yard.run(task, "r1", RunState.FINISHING)
    yard.age()
    assert reasons(yard.gc()[GcKind.CHECKOUTS]) == {"stable/t1": KeepReason.LIVE}


def test_a_young_checkout_stays(yard, fields):
    checkout = fields.checkout(of_repo(yard))
    yard.age(29)
    swept = yard.gc()[GcKind.CHECKOUTS]
    assert not swept.gone and not swept.kept and checkout.path.exists()


def test_what_belongs_to_nobody_is_named_and_left_alone(yard, fields, tmp_path):
    checkout = fields.checkout(of_repo(yard))
    checkout.path.rename(checkout.path.with_name("t0"))
    (checkout.path.parent / "file").write_text("x")
    (checkout.path.parent / "t1").symlink_to(tmp_path)
    yard.age()
    swept = yard.gc(GcKind.CHECKOUTS)[GcKind.CHECKOUTS]
    assert reasons(swept) == dict.fromkeys(
        ["stable/file", "stable/t0", "stable/t1"], KeepReason.STRANGE
    )
    assert len(list(checkout.path.parent.iterdir())) == 3


def test_a_checkout_without_its_mirror_stays(yard, fields):
    checkout = fields.checkout(of_repo(yard))
    checkout.mirror.path.rename(checkout.mirror.path.with_name("elsewhere"))
    yard.age()
    (kept,) = yard.gc()[GcKind.CHECKOUTS].kept
    assert kept.why is KeepReason.STRANGE and "mirror" in kept.detail
    assert not checkout.mirror.path.exists()


def test_a_checkout_that_somebody_takes_up_while_we_look_stays(yard, fields, monkeypatch):
    task = of_repo(yard, state=TaskState.STOPPED)
    checkout = fields.checkout(task)
    yard.age()
    look = checkouts_module.find_loss

    def look_and_be_late(*words):
        found = look(*words)
        # Taken up, and stopped again: over as before, but somebody may have worked there.
        yard.move("t1", TaskState.QUEUED)
        yard.move("t1", TaskState.STOPPED)
        return found

    monkeypatch.setattr(checkouts_module, "find_loss", look_and_be_late)
    assert reasons(yard.gc(GcKind.CHECKOUTS)[GcKind.CHECKOUTS]) == {"stable/t1": KeepReason.BUSY}
    assert checkout.path.exists()


# Mirrors


def unwatched(yard):
    yard.settings = Settings()


def test_the_mirror_of_a_repository_that_nobody_watches_goes(yard, fields):
    mirror = fields.mirror()
    unwatched(yard)
    yard.age()
    swept = yard.gc()[GcKind.MIRRORS]
    assert names(swept) == ["octo/stable"] and swept.size > 100
    assert list(mirror.path.parent.iterdir()) == []
    # Made again when it is wanted again.
    fetch_mirror(fields.mirror(), fields.remote)


def test_a_watched_mirror_stays_whatever_the_case_of_its_name(yard, fields):
    fetch_mirror(fields.mirror(RepoName("Octo", "Stable")), fields.remote)
    yard.age()
    assert reasons(yard.gc()[GcKind.MIRRORS]) == {
        "Octo/Stable": KeepReason.WATCHED,
        "octo/stable": KeepReason.WATCHED,
    }


def test_a_mirror_that_keeps_work_stays_for_ever(yard, fields):
    checkout = fields.checkout(of_repo(yard))
    commit(checkout.path)
    save_and_remove(checkout, ANN)
    assert not checkout.path.exists()
    unwatched(yard)
    yard.age()
    found = yard.gc()
    assert names(found[GcKind.TASKS]) == ["t1"]
    assert reasons(found[GcKind.MIRRORS]) == {"octo/stable": KeepReason.KEPT_WORK}
    assert "work" in git(
        "rev-list", "--objects", "--glob=refs/hostler/kept", cwd=checkout.mirror.path
    )


def test_a_mirror_with_a_head_that_was_never_pushed_stays(yard, fields):
    checkout = fields.checkout(of_repo(yard))
    commit(checkout.path)
    head = fetch_task_head(checkout)
    yard.age()
    unwatched(yard)
    git("push", "-q", str(fields.origin), f"{head}:refs/heads/elsewhere", cwd=checkout.mirror.path)
    fetch_mirror(checkout.mirror, fields.remote)
    yard.age()
    assert names(yard.gc(GcKind.CHECKOUTS)[GcKind.CHECKOUTS]) == ["stable/t1"]
    git("update-ref", "-d", "refs/heads/elsewhere", cwd=fields.origin)
    fetch_mirror(checkout.mirror, fields.remote)
    yard.age()
    assert reasons(yard.gc()[GcKind.MIRRORS]) == {"octo/stable": KeepReason.KEPT_WORK}


def test_a_mirror_stays_while_a_checkout_borrows_from_it(yard, fields):
    checkout = fields.checkout(of_repo(yard))
    (checkout.path / "half").write_text("x")
    unwatched(yard)
    yard.age()
    assert reasons(yard.gc()[GcKind.MIRRORS]) == {"octo/stable": KeepReason.BORROWED}
    (checkout.path / "half").unlink()
    assert names(yard.gc(dry_run=True)[GcKind.MIRRORS]) == ["octo/stable"]
    assert names(yard.gc()[GcKind.MIRRORS]) == ["octo/stable"]


def test_a_mirror_stays_while_a_task_of_its_repository_is_not_over(yard, fields):
    yard.task("t1", TaskState.QUEUED, repo_full_name="Octo/stable")
    unwatched(yard)
    yard.age()
    assert reasons(yard.gc()[GcKind.MIRRORS]) == {"octo/stable": KeepReason.UNFINISHED}


def test_a_mirror_stays_while_a_service_works_on_the_home(yard, fields):
    unwatched(yard)
    yard.age()
    with home_lock(yard.home, SystemClock()):
        assert reasons(yard.gc()[GcKind.MIRRORS]) == {"octo/stable": KeepReason.SERVICE}
    assert names(yard.gc()[GcKind.MIRRORS]) == ["octo/stable"]


def test_a_mirror_in_which_git_works_stays(yard, fields):
    mirror = fields.mirror()
    unwatched(yard)
    yard.age()
    with (mirror.path / "hostler.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert reasons(yard.gc()[GcKind.MIRRORS]) == {"octo/stable": KeepReason.BUSY}
        assert mirror.path.exists()
    assert names(yard.gc()[GcKind.MIRRORS]) == ["octo/stable"]


def test_a_mirror_that_was_fetched_lately_stays(yard, fields):
    unwatched(yard)
    yard.age(20)
    swept = yard.gc()[GcKind.MIRRORS]
    assert not swept.gone and not swept.kept


# Buses and logs


def aside(yard, folder, days_ago):
    name = id_from_time(yard.clock.now() - timedelta(days=days_ago))
    return yard.write(folder / f"bus.{name}.jsonl", "{}\n" * 100)


def test_files_of_buses_go_but_for_the_newest_and_those_of_unfinished_tasks(yard):
    over, going = yard.of_issue("t1", 7), yard.task("t2", TaskState.QUEUED)
    project = yard.home / "projects" / "stable"
    yard.age()
    kept, gone = [], []
    for folder in (project, yard.folder(over)):
        gone += [aside(yard, folder, 60), aside(yard, folder, 50)]
        kept += [aside(yard, folder, 20), aside(yard, folder, 10)]
        kept.append(yard.write(folder / "bus.jsonl", "{}\n"))
    kept += [aside(yard, yard.folder(going), days) for days in (60, 50, 10)]
    lone = yard.of_issue("t3", 8)
    kept.append(aside(yard, yard.folder(lone), 60))
    said = yard.gc(GcKind.BUS, dry_run=True)[GcKind.BUS]
    assert all(path.exists() for path in gone)
    swept = yard.gc(GcKind.BUS)[GcKind.BUS]
    assert names(swept) == names(said) == ["stable", "stable/t1"]
    assert swept.size == said.size == 4 * 300
    assert reasons(swept) == {"stable/t2": KeepReason.UNFINISHED}
    assert not any(path.exists() for path in gone) and all(path.exists() for path in kept)


def test_logs_go_beyond_the_retention_and_nothing_else_in_their_folder(yard):
    logs = yard.home / "logs"
    today = yard.clock.now().date()
    days = {ago: today - timedelta(days=ago) for ago in (0, 14, 30, 31, 100)}
    files = {ago: yard.write(logs / f"{day}.jsonl", "{}\n") for ago, day in days.items()}
    other = [
        yard.write(logs / name, "x") for name in ("notes.jsonl", "2020-01-01.txt", "2020.jsonl")
    ]
    swept = yard.gc(GcKind.LOGS)[GcKind.LOGS]
    assert names(swept) == [files[100].name, files[31].name] and swept.size == 6
    assert all(files[ago].exists() for ago in (0, 14, 30)) and all(path.exists() for path in other)
    runtime = yard.settings.runtime.model_copy(update={"log_retention_days": 20})
    yard.settings = yard.settings.model_copy(update={"runtime": runtime})
    assert not yard.gc(GcKind.LOGS, days=1)[GcKind.LOGS].kept
    assert files[14].exists() and not files[30].exists()


# Trash, links, refusals


def test_trash_of_a_round_that_was_killed_is_deleted(yard, fields):
    task = yard.of_issue("t1", 7)
    places = [
        yard.run(task, "r1").parent,
        yard.folder(task).parent,
        yard.home / "checkouts" / "stable",
        fields.mirror().path.parent,
    ]
    trash = [yard.write(place / ".x.0123.trash" / "deep" / "file", "x") for place in places]
    yard.gc(dry_run=True)
    assert all(path.exists() for path in trash)
    yard.gc()
    assert not any(path.parents[1].exists() for path in trash)
    assert (yard.folder(task) / "runs" / "r1").exists()


def test_what_the_system_refuses_stays_and_says_so(yard, monkeypatch):
    task, by_hand = yard.of_issue("t1", 7), yard.task("t2")
    old = yard.run(task, "r1")
    yard.run(task, "r2")
    yard.age()

    def refuse(self, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    found = yard.gc()
    assert found[GcKind.RUNS].refused and reasons(found[GcKind.RUNS])["r1"] is KeepReason.REFUSED
    assert found[GcKind.TASKS].refused and reasons(found[GcKind.TASKS])["t2"] is KeepReason.REFUSED
    assert old.exists() and yard.folder(by_hand).exists() and yard.has("t2")


def test_folders_that_nobody_may_write_are_deleted_all_the_same(yard):
    task = yard.of_issue("t1", 7)
    old = yard.run(task, "r1")
    yard.write(old / "cache" / "file", "x").parent.chmod(0o500)
    yard.run(task, "r2")
    yard.age()
    assert names(yard.gc(GcKind.RUNS)[GcKind.RUNS]) == ["r1"]
    assert [path.name for path in old.parent.iterdir()] == ["r2"]


def test_a_link_on_the_way_is_seen(tmp_path):
    (tmp_path / "home" / "a").mkdir(parents=True)
    (tmp_path / "elsewhere" / "b").mkdir(parents=True)
    (tmp_path / "home" / "link").symlink_to(tmp_path / "elsewhere")
    home = tmp_path / "home"
    assert is_inside_home(home, home / "a" / "b")
    assert not is_inside_home(home, home / "link" / "b")
    assert not is_inside_home(home, home / "missing" / "b")
    assert not is_inside_home(home, home / ".." / "elsewhere" / "b")
    assert not is_inside_home(home, tmp_path / "elsewhere" / "b")
    # A home that is itself reached by a link is a home.
    (tmp_path / "way").symlink_to(home)
    assert is_inside_home(tmp_path / "way", tmp_path / "way" / "a" / "b")


def test_sizes_follow_no_link(tmp_path):
    (tmp_path / "big").write_text("x" * 10_000)
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_text("x" * 100)
    (folder / "link").symlink_to(tmp_path / "big")
    assert 100 <= measure_size(folder) < 1000
    assert measure_size(tmp_path / "big") == 10_000 and measure_size(tmp_path / "none") == 0
