"""Mirrors: made, updated, and deaf to whatever anybody writes into them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from checkout_stable import Stable

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


def test_a_mirror_lies_under_its_owner_and_has_the_remotes_branches(stable: Stable) -> None:
    assert stable.mirror.path == stable.root / "mirrors" / "octo" / "stable.git"
    assert list_branches(stable.mirror) == ["main"]
    assert read_mirror_ref(stable.mirror, "refs/heads/main") == stable.on_remote("main")


def test_an_update_follows_the_remote_also_where_it_was_rewritten_or_pruned(
    stable: Stable,
) -> None:
    person = stable.person()
    stable.agent("push", "-q", "origin", "main:refs/heads/old", cwd=person)
    fetch_mirror(stable.mirror, stable.remote)
    assert list_branches(stable.mirror) == ["main", "old"]
    stable.agent("push", "-q", "origin", ":old", cwd=person)
    stable.agent("commit", "-q", "--amend", "-m", "other", cwd=person)
    stable.agent("push", "-qf", "origin", "main", cwd=person)
    fetch_mirror(stable.mirror, stable.remote)
    assert list_branches(stable.mirror) == ["main"]
    assert read_mirror_ref(stable.mirror, "refs/heads/main") == stable.agent.head(person)


def test_without_a_name_the_base_is_the_remotes_default_branch(stable: Stable) -> None:
    person = stable.person()
    stable.agent("push", "-q", "origin", "main:refs/heads/trunk", cwd=person)
    stable.agent("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=stable.origin)
    fetch_mirror(stable.mirror, stable.remote)
    assert resolve_base(stable.mirror, stable.remote, "")[0] == "trunk"
    assert resolve_base(stable.mirror, stable.remote, "main")[0] == "main"


def test_a_base_branch_that_is_not_there_is_named_with_those_that_are(stable: Stable) -> None:
    with pytest.raises(BranchMissing) as missing:
        resolve_base(stable.mirror, stable.remote, "master")
    assert (missing.value.branch, missing.value.known) == ("master", ("main",))


def test_a_repository_without_commits_has_no_branch_to_start_from(stable: Stable) -> None:
    empty = stable.root / "empty.git"
    stable.agent("init", "-q", "--bare", str(empty), cwd=stable.root)
    remote = Remote(f"file://{empty}")
    mirror = open_mirror(stable.root / "mirrors", RepoName("octo", "empty"))
    fetch_mirror(mirror, remote)
    with pytest.raises(BranchMissing, match="no commits yet"):
        resolve_base(mirror, remote, "")


def test_a_repository_that_does_not_exist_is_said_so(stable: Stable) -> None:
    with pytest.raises(RemoteMissing):
        fetch_mirror(stable.mirror, Remote(f"file://{stable.root}/nowhere.git"))


def test_what_anybody_writes_into_a_mirror_has_no_effect(stable: Stable, tmp_path: Path) -> None:
    decoy = tmp_path / "decoy"
    stable.agent("clone", "-q", "--bare", str(stable.origin), str(decoy), cwd=tmp_path)
    path, marker = stable.mirror.path, tmp_path / "marker"
    hostile = f'[url "file://{decoy}"]\n\tinsteadOf = "{stable.remote.url}"\n'
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
    new = stable.agent.commit(stable.person(), "new", "1")
    stable.agent("push", "-q", "origin", "main", cwd=stable.person())
    fetch_mirror(stable.mirror, stable.remote)
    assert read_mirror_ref(stable.mirror, "refs/heads/main") == new
    assert not marker.exists()
    assert (path / "config").read_text() == MIRROR_CONFIG
    assert not (path / "objects" / "info").exists()


def test_a_config_that_is_a_link_or_a_folder_is_replaced(stable: Stable, tmp_path: Path) -> None:
    config = stable.mirror.path / "config"
    precious = tmp_path / "precious"
    precious.write_text("mine")
    config.unlink()
    config.symlink_to(precious)
    assert read_mirror_ref(stable.mirror, "refs/heads/main")
    assert precious.read_text() == "mine" and config.read_text() == MIRROR_CONFIG
    config.unlink()
    config.mkdir()
    assert read_mirror_ref(stable.mirror, "refs/heads/main")


def test_lock_files_of_a_killed_git_do_not_hold_up_the_next_one(stable: Stable) -> None:
    stable.agent.commit(stable.person(), "new", "1")
    stable.agent("push", "-q", "origin", "main", cwd=stable.person())
    (stable.mirror.path / "refs" / "heads" / "main.lock").touch()
    (stable.mirror.path / "packed-refs.lock").touch()
    fetch_mirror(stable.mirror, stable.remote)
    assert read_mirror_ref(stable.mirror, "refs/heads/main") == stable.on_remote("main")


def test_one_writes_a_mirror_at_a_time(stable: Stable) -> None:
    seen: list[str] = []

    def second() -> None:
        with lock_mirror(stable.mirror):
            seen.append("second")

    with lock_mirror(stable.mirror):
        thread = threading.Thread(target=second)
        thread.start()
        read_mirror_ref(stable.mirror, "refs/heads/main")
        seen.append("first")
    thread.join(60)
    assert seen == ["first", "second"]


def test_threads_that_open_update_and_read_at_once_do_not_disturb_each_other(
    stable: Stable,
) -> None:
    found: list[Sha | None] = []

    def work() -> None:
        mirror = open_mirror(stable.root / "fresh", RepoName("octo", "stable"))
        fetch_mirror(mirror, stable.remote)
        found.append(read_mirror_ref(mirror, "refs/heads/main"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [stable.on_remote("main")] * 4
