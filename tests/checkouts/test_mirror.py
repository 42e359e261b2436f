"""Mirrors: made, updated, and deaf to whatever anybody writes into them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from checkout_fixture import RepoFixture

from hostler.checkouts.errors import BranchMissing, RemoteMissing
from hostler.checkouts.mirror import (
    MIRROR_CONFIG,
    Remote,
    fetch_mirror,
    list_branches,
    lock_mirror,
    open_mirror,
    read_mirror_ref,
    resolve_base,
)
from hostler.checkouts.names import Sha
from hostler.model import RepoName


def test_a_mirror_lies_under_its_owner_and_has_the_remotes_branches(
    repo_fixture: RepoFixture,
) -> None:
    assert repo_fixture.mirror.path == repo_fixture.root / "mirrors" / "octo" / "stable.git"
    assert list_branches(repo_fixture.mirror) == ["main"]
    assert read_mirror_ref(repo_fixture.mirror, "refs/heads/main") == repo_fixture.on_remote("main")


def test_an_update_follows_the_remote_also_where_it_was_rewritten_or_pruned(
    repo_fixture: RepoFixture,
) -> None:
    person = repo_fixture.person()
    repo_fixture.agent("push", "-q", "origin", "main:refs/heads/old", cwd=person)
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    assert list_branches(repo_fixture.mirror) == ["main", "old"]
    repo_fixture.agent("push", "-q", "origin", ":old", cwd=person)
    repo_fixture.agent("commit", "-q", "--amend", "-m", "other", cwd=person)
    repo_fixture.agent("push", "-qf", "origin", "main", cwd=person)
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    assert list_branches(repo_fixture.mirror) == ["main"]
    assert read_mirror_ref(repo_fixture.mirror, "refs/heads/main") == repo_fixture.agent.head(
        person
    )


def test_without_a_name_the_base_is_the_remotes_default_branch(repo_fixture: RepoFixture) -> None:
    person = repo_fixture.person()
    repo_fixture.agent("push", "-q", "origin", "main:refs/heads/trunk", cwd=person)
    repo_fixture.agent("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=repo_fixture.origin)
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    assert resolve_base(repo_fixture.mirror, repo_fixture.remote, "")[0] == "trunk"
    assert resolve_base(repo_fixture.mirror, repo_fixture.remote, "main")[0] == "main"


def test_a_base_branch_that_is_not_there_is_named_with_those_that_are(
    repo_fixture: RepoFixture,
) -> None:
    with pytest.raises(BranchMissing) as missing:
        resolve_base(repo_fixture.mirror, repo_fixture.remote, "master")
    assert (missing.value.branch, missing.value.known) == ("master", ("main",))


def test_a_repository_without_commits_has_no_branch_to_start_from(
    repo_fixture: RepoFixture,
) -> None:
    empty = repo_fixture.root / "empty.git"
    repo_fixture.agent("init", "-q", "--bare", str(empty), cwd=repo_fixture.root)
    remote = Remote(f"file://{empty}")
    mirror = open_mirror(repo_fixture.root / "mirrors", RepoName("octo", "empty"))
    fetch_mirror(mirror, remote)
    with pytest.raises(BranchMissing, match="no commits yet"):
        resolve_base(mirror, remote, "")


def test_a_repository_that_does_not_exist_is_said_so(repo_fixture: RepoFixture) -> None:
    with pytest.raises(RemoteMissing):
        fetch_mirror(repo_fixture.mirror, Remote(f"file://{repo_fixture.root}/nowhere.git"))


def test_what_anybody_writes_into_a_mirror_has_no_effect(
    repo_fixture: RepoFixture, tmp_path: Path
) -> None:
    decoy = tmp_path / "decoy"
    repo_fixture.agent("clone", "-q", "--bare", str(repo_fixture.origin), str(decoy), cwd=tmp_path)
    path, marker = repo_fixture.mirror.path, tmp_path / "marker"
    hostile = f'[url "file://{decoy}"]\n\tinsteadOf = "{repo_fixture.remote.url}"\n'
    (path / "config").write_text(
        MIRROR_CONFIG + hostile + f'[core]\n\tfsmonitor = "touch {marker}"\n'
    )
    (path / "commondir").write_text(str(decoy))
    (path / "hooks").mkdir()
    hook = path / "hooks" / "reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    (path / "objects" / "info").mkdir(exist_ok=True)
    (path / "objects" / "info" / "alternates").write_text(f"{decoy}/objects\n")
    new = repo_fixture.agent.commit(repo_fixture.person(), "new", "1")
    repo_fixture.agent("push", "-q", "origin", "main", cwd=repo_fixture.person())
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    assert read_mirror_ref(repo_fixture.mirror, "refs/heads/main") == new
    assert not marker.exists()
    assert (path / "config").read_text() == MIRROR_CONFIG
    assert not (path / "objects" / "info").exists()


def test_a_config_that_is_a_link_or_a_folder_is_replaced(
    repo_fixture: RepoFixture, tmp_path: Path
) -> None:
    config = repo_fixture.mirror.path / "config"
    precious = tmp_path / "precious"
    precious.write_text("mine")
    config.unlink()
    config.symlink_to(precious)
    assert read_mirror_ref(repo_fixture.mirror, "refs/heads/main")
    assert precious.read_text() == "mine" and config.read_text() == MIRROR_CONFIG
    config.unlink()
    config.mkdir()
    assert read_mirror_ref(repo_fixture.mirror, "refs/heads/main")


def test_lock_files_of_a_killed_git_do_not_hold_up_the_next_one(repo_fixture: RepoFixture) -> None:
    repo_fixture.agent.commit(repo_fixture.person(), "new", "1")
    repo_fixture.agent("push", "-q", "origin", "main", cwd=repo_fixture.person())
    (repo_fixture.mirror.path / "refs" / "heads" / "main.lock").touch()
    (repo_fixture.mirror.path / "packed-refs.lock").touch()
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    assert read_mirror_ref(repo_fixture.mirror, "refs/heads/main") == repo_fixture.on_remote("main")


def test_one_writes_a_mirror_at_a_time(repo_fixture: RepoFixture) -> None:
    seen: list[str] = []

    def second() -> None:
        with lock_mirror(repo_fixture.mirror):
            seen.append("second")

    with lock_mirror(repo_fixture.mirror):
        thread = threading.Thread(target=second)
        thread.start()
        read_mirror_ref(repo_fixture.mirror, "refs/heads/main")
        seen.append("first")
    thread.join(60)
    assert seen == ["first", "second"]


def test_threads_that_open_update_and_read_at_once_do_not_disturb_each_other(
    repo_fixture: RepoFixture,
) -> None:
    found: list[Sha | None] = []

    def work() -> None:
        mirror = open_mirror(repo_fixture.root / "fresh", RepoName("octo", "stable"))
        fetch_mirror(mirror, repo_fixture.remote)
        found.append(read_mirror_ref(mirror, "refs/heads/main"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [repo_fixture.on_remote("main")] * 4
