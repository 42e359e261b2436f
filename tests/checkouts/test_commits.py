"""What an agent leaves behind: committed, taken into the mirror, looked at, refreshed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from checkout_fixture import ANN, BRANCH, RepoFixture

from hostler.checkouts import commits as changes_module
from hostler.checkouts.checkout import Checkout, fetch_task_head
from hostler.checkouts.commits import CommitDistance, commit_all, read_status, save_snapshot
from hostler.checkouts.errors import (
    BranchDeleted,
    CheckoutMissing,
    DetachedHead,
    FilesTooLarge,
    HistoryRewritten,
    UnfinishedMerge,
    WrongBranch,
)
from hostler.checkouts.mirror import fetch_mirror, read_mirror_ref
from hostler.checkouts.preparation import Freshness, PreparedCheckout, refresh_checkout
from hostler.checkouts.push import check_history, push_commit


def tree(repo_fixture: RepoFixture, commit: str) -> dict[str, str]:
    """The files of a commit in the mirror, with their modes."""
    listed = repo_fixture.agent("ls-tree", "-r", commit, cwd=repo_fixture.mirror.path).splitlines()
    return {line.split("\t")[1]: line.split()[0] for line in listed}


def test_everything_that_git_does_not_ignore_is_committed(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    path = checkout.path
    (path / "src" / "app.py").write_text("changed\n")
    (path / "README.md").unlink()
    (path / "new ünï\ncode").write_text("x")
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o755)
    (path / "debug.log").write_text("ignored")
    (path / "link").symlink_to("/etc/passwd")
    os.mkfifo(path / "fifo")
    made = commit_all(checkout, "Do it\n\nLong text.", ANN)
    repo_fixture.agent("config", "core.quotePath", "false", cwd=repo_fixture.mirror.path)
    assert sorted(made.files) == ["README.md", "link", "new ünï\ncode", "run.sh", "src/app.py"]
    files = tree(repo_fixture, made.head)
    assert files["run.sh"] == "100755" and files["link"] == "120000"
    assert "README.md" not in files and "debug.log" not in files and "fifo" not in files
    shown = repo_fixture.agent(
        "log", "-1", "--format=%an %ae %cn %s", made.head, cwd=repo_fixture.mirror.path
    )
    assert shown == "Ann Operator ann@example.org Ann Operator Do it"
    assert fetch_task_head(checkout) == made.head


def test_the_agent_sees_the_commit_as_its_own_head_with_nothing_left_to_do(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    (checkout.path / "new").write_text("x")
    repo_fixture.agent("add", "new", cwd=checkout.path)
    (checkout.path / ".git" / "index.lock").touch()
    made = commit_all(checkout, "Add new", ANN)
    assert repo_fixture.agent.head(checkout.path) == made.head
    assert repo_fixture.agent("status", "--porcelain", cwd=checkout.path) == ""
    assert repo_fixture.agent("symbolic-ref", "HEAD", cwd=checkout.path) == f"refs/heads/{BRANCH}"
    again = repo_fixture.agent.commit(checkout.path, "more", "y")
    assert fetch_task_head(checkout) == again


def test_with_nothing_to_commit_nothing_is_committed(prepared: PreparedCheckout) -> None:
    (prepared.checkout.path / "README.md").touch()
    made = commit_all(prepared.checkout, "Nothing", ANN)
    assert (made.head, made.files) == (prepared.base, ())


def test_patterns_of_the_caller_are_ignored_too(checkout: Checkout) -> None:
    (checkout.path / ".agent").mkdir()
    (checkout.path / ".agent" / "scratch").write_text("x")
    assert commit_all(checkout, "Nothing", ANN, ignore=["/.agent/"]).files == ()


def test_a_folder_may_become_a_file_and_a_file_a_folder(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    path = checkout.path
    (path / "src" / "app.py").unlink()
    (path / "src").rmdir()
    (path / "src").write_text("a file now")
    (path / "README.md").unlink()
    (path / "README.md").mkdir()
    (path / "README.md" / "inner").write_text("a folder now")
    files = tree(repo_fixture, commit_all(checkout, "Swap", ANN).head)
    assert {"src", "README.md/inner"} <= set(files) and "src/app.py" not in files


def test_a_repository_inside_is_left_out_and_named(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    nested = checkout.path / "vendor" / "lib"
    repo_fixture.agent("init", "-q", str(nested), cwd=checkout.path)
    repo_fixture.agent.commit(nested, "inside", "x")
    (checkout.path / "README.md").unlink()
    repo_fixture.agent("init", "-q", str(checkout.path / "README.md"), cwd=checkout.path)
    repo_fixture.agent.commit(checkout.path / "README.md", "inside", "x")
    (checkout.path / "own").write_text("x")
    made = commit_all(checkout, "Own", ANN)
    assert made.files == ("own",)
    assert made.left_out == ("README.md", "vendor/lib/")
    assert "160000" not in tree(repo_fixture, made.head).values()


def test_a_file_that_no_host_takes_is_refused_before_it_is_read(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "MAX_FILE_BYTES", 1000)
    (checkout.path / "big").write_bytes(b"x" * 1001)
    with pytest.raises(FilesTooLarge) as refused:
        commit_all(checkout, "Big", ANN)
    assert refused.value.files == ("big",)


def test_commits_in_packs_and_packed_refs_are_taken(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    head = repo_fixture.agent.commit(checkout.path, "new", "x")
    repo_fixture.agent("gc", "-q", cwd=checkout.path)
    repo_fixture.agent("pack-refs", "--all", cwd=checkout.path)
    assert not (checkout.path / ".git" / "refs" / "heads" / BRANCH).exists()
    assert fetch_task_head(checkout) == head
    assert read_mirror_ref(repo_fixture.mirror, checkout.ref("heads")) == head
    (checkout.path / "left").write_text("x")
    made = commit_all(checkout, "Left", ANN)
    assert repo_fixture.agent.head(checkout.path, "HEAD^") == head
    assert repo_fixture.agent.head(checkout.path) == made.head


def test_another_branch_no_branch_and_a_deleted_one_are_refused_each(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    git, path = repo_fixture.agent, checkout.path
    git("checkout", "-qb", "mine", cwd=path)
    with pytest.raises(WrongBranch) as wrong:
        fetch_task_head(checkout)
    assert (wrong.value.expected, wrong.value.found) == (BRANCH, "mine")
    git("checkout", "-q", "--detach", cwd=path)
    with pytest.raises(DetachedHead):
        commit_all(checkout, "x", ANN)
    git("checkout", "-q", BRANCH, cwd=path)
    git("update-ref", "-d", f"refs/heads/{BRANCH}", cwd=path)
    with pytest.raises(BranchDeleted):
        fetch_task_head(checkout)


def test_a_merge_left_half_done_is_refused(repo_fixture: RepoFixture, checkout: Checkout) -> None:
    git, path = repo_fixture.agent, checkout.path
    git("checkout", "-qb", "other", cwd=path)
    git.commit(path, "README.md", "theirs")
    git("checkout", "-q", BRANCH, cwd=path)
    git.commit(path, "README.md", "ours")
    git("merge", "-q", "other", cwd=path, check=False)
    with pytest.raises(UnfinishedMerge, match="merge"):
        commit_all(checkout, "x", ANN)
    assert save_snapshot(checkout, "Whatever it is", ANN)


def test_rewritten_history_is_refused_with_what_is_missing(
    repo_fixture: RepoFixture, prepared: PreparedCheckout
) -> None:
    checkout, git = prepared.checkout, repo_fixture.agent
    first = git.commit(checkout.path, "new", "1")
    assert (
        check_history(
            repo_fixture.mirror, fetch_task_head(checkout), base=prepared.base, pushed=None
        )
        == "grown"
    )
    git("commit", "-q", "--amend", "-m", "other", cwd=checkout.path)
    second = fetch_task_head(checkout)
    with pytest.raises(HistoryRewritten) as refused:
        check_history(repo_fixture.mirror, second, base=prepared.base, pushed=first)
    assert (refused.value.missing, refused.value.head) == (first, second)
    git("checkout", "-q", "--orphan", "fresh", cwd=checkout.path)
    git("commit", "-qm", "alone", cwd=checkout.path)
    git("branch", "-qM", "fresh", BRANCH, cwd=checkout.path)
    with pytest.raises(HistoryRewritten, match="base"):
        check_history(
            repo_fixture.mirror, fetch_task_head(checkout), base=prepared.base, pushed=None
        )


def test_no_checkout_is_said_so(repo_fixture: RepoFixture) -> None:
    with pytest.raises(CheckoutMissing):
        fetch_task_head(Checkout(repo_fixture.place, repo_fixture.mirror, BRANCH))


def test_the_status_tells_dirty_files_and_distances(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    person = repo_fixture.person()
    for number in range(2):
        repo_fixture.agent.commit(person, f"theirs{number}", "x")
    repo_fixture.agent("push", "-q", "origin", "main", cwd=person)
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    repo_fixture.agent.commit(checkout.path, "ours", "x")
    (checkout.path / "dirty").write_text("x")
    seen = read_status(checkout, "main")
    assert seen.dirty == ("dirty",)
    assert (seen.from_base, seen.from_remote) == (CommitDistance(1, 2), None)
    push_commit(repo_fixture.mirror, repo_fixture.remote, BRANCH, fetch_task_head(checkout), None)
    assert read_status(checkout, "main").from_remote == CommitDistance(0, 0)


def test_a_status_changes_nothing(checkout: Checkout) -> None:
    (checkout.path / "dirty").write_text("x")
    before = {p: p.lstat().st_mtime_ns for p in sorted(checkout.path.rglob("*"))}
    read_status(checkout, "main")
    assert {p: p.lstat().st_mtime_ns for p in sorted(checkout.path.rglob("*"))} == before


def test_a_persons_commit_on_our_branch_comes_into_a_clean_checkout(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    git, path, person = repo_fixture.agent, checkout.path, repo_fixture.person()
    git.commit(path, "ours", "x")
    push_commit(repo_fixture.mirror, repo_fixture.remote, BRANCH, fetch_task_head(checkout), None)
    assert refresh_checkout(checkout, "main") is Freshness.CURRENT
    git("fetch", "-q", "origin", cwd=person)
    git("checkout", "-q", BRANCH, cwd=person)
    theirs = git.commit(person, "src/app.py", "theirs")
    git("push", "-q", "origin", BRANCH, cwd=person)
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    (path / "dirty").write_text("x")
    assert refresh_checkout(checkout, "main") is Freshness.DIRTY
    assert git.head(path, f"origin/{BRANCH}") == theirs
    (path / "dirty").unlink()
    assert refresh_checkout(checkout, "main") is Freshness.FORWARDED
    assert (path / "src" / "app.py").read_text() == "theirs"
    assert git.head(path) == theirs
    assert git("status", "--porcelain", cwd=path) == ""


def test_diverged_work_is_the_agents_to_merge_without_any_network(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    git, path, person = repo_fixture.agent, checkout.path, repo_fixture.person()
    git.commit(path, "ours", "x")
    push_commit(repo_fixture.mirror, repo_fixture.remote, BRANCH, fetch_task_head(checkout), None)
    git("fetch", "-q", "origin", cwd=person)
    git("checkout", "-q", BRANCH, cwd=person)
    theirs = git.commit(person, "theirs", "x")
    git("push", "-q", "origin", BRANCH, cwd=person)
    git.commit(path, "more", "x")
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    assert refresh_checkout(checkout, "main") is Freshness.DIVERGED
    git("merge", "-q", "--no-edit", f"origin/{BRANCH}", cwd=path)
    push_commit(
        repo_fixture.mirror, repo_fixture.remote, BRANCH, fetch_task_head(checkout), expected=theirs
    )


def test_refreshing_writes_through_no_link(
    repo_fixture: RepoFixture, checkout: Checkout, tmp_path: Path
) -> None:
    git, path, person = repo_fixture.agent, checkout.path, repo_fixture.person()
    git.commit(path, "ours", "x")
    outside = tmp_path / "outside"
    outside.mkdir()
    push_commit(repo_fixture.mirror, repo_fixture.remote, BRANCH, fetch_task_head(checkout), None)
    git("fetch", "-q", "origin", cwd=person)
    git("checkout", "-q", BRANCH, cwd=person)
    git.commit(person, "docs/deep/page", "theirs")
    git("push", "-q", "origin", BRANCH, cwd=person)
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    (path / "docs").symlink_to(outside)
    assert refresh_checkout(checkout, "main") is Freshness.DIRTY
    # Where it is ignored it is met only while writing, and gives way as ignored files do.
    assert refresh_checkout(checkout, "main", ignore=["/docs"]) is Freshness.FORWARDED
    assert list(outside.iterdir()) == []
    assert not (path / "docs").is_symlink() and (path / "docs" / "deep" / "page").is_file()
