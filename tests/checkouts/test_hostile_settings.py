"""Agents whose settings, hooks and filters would run code as us or push elsewhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from checkout_fixture import ANN, BRANCH, RepoFixture

from hostler.checkouts.checkout import Checkout, fetch_task_head
from hostler.checkouts.cleanup import find_loss, push_checkpoint, save_and_remove
from hostler.checkouts.commits import commit_all, read_status
from hostler.checkouts.mirror import fetch_mirror
from hostler.checkouts.names import Sha
from hostler.checkouts.preparation import PreparedCheckout, refresh_checkout
from hostler.checkouts.push import check_history, push_commit


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that only code of the agent would make."""
    return tmp_path / "marker"


@pytest.fixture
def decoy(repo_fixture: RepoFixture) -> Path:
    """Where a redirected push would land."""
    path = repo_fixture.root / "decoy.git"
    repo_fixture.agent("init", "-q", "--bare", str(path), cwd=repo_fixture.root)
    return path


@pytest.fixture
def evil(tmp_path: Path, marker: Path) -> str:
    """A program that leaves the marker, whatever it is called with."""
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\necho $0 $@ >> {marker}\ncat\n")
    program.chmod(0o755)
    return str(program)


def whole_round(repo_fixture: RepoFixture, prepared: PreparedCheckout) -> Sha:
    """Everything that we ever do with a checkout after its agent has left."""
    checkout = prepared.checkout
    read_status(checkout, "main")
    refresh_checkout(checkout, "main")
    made = commit_all(checkout, "Work", ANN)
    head = fetch_task_head(checkout)
    assert head == made.head
    check_history(repo_fixture.mirror, head, base=prepared.base, pushed=None)
    push_commit(repo_fixture.mirror, repo_fixture.remote, BRANCH, head, prepared.pushed)
    push_checkpoint(checkout, repo_fixture.remote, ANN, issue=7, title="Crash")
    find_loss(checkout)
    save_and_remove(checkout, ANN)
    return head


def in_config(text: str) -> Callable[[Path, str, Path], None]:
    def attack(path: Path, evil: str, decoy: Path) -> None:
        with (path / ".git" / "config").open("a") as config:
            config.write(text.format(evil=evil, decoy=decoy, root=decoy.parent))

    return attack


def included(path: Path, evil: str, decoy: Path) -> None:
    hidden = path / ".git" / "more"
    hidden.write_text(f'[core]\n\tfsmonitor = "{evil}"\n')
    in_config(f"[include]\n\tpath = {hidden}\n")(path, evil, decoy)


def with_hooks(path: Path, evil: str, decoy: Path) -> None:
    hooks = path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in (
        *("pre-push", "post-checkout", "pre-commit", "post-commit", "reference-transaction"),
        *("fsmonitor-watchman", "post-index-change", "commit-msg", "post-merge", "pre-auto-gc"),
        *("proc-receive", "update", "post-rewrite", "prepare-commit-msg", "post-receive"),
    ):
        shutil.copy(evil, hooks / name)


def with_filters(path: Path, evil: str, decoy: Path) -> None:
    (path / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    in_config(
        '[filter "evil"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n'
        "\trequired = true\n"
        '[diff "evil"]\n\ttextconv = {evil}\n\tcommand = {evil}\n'
        '[merge "evil"]\n\tdriver = {evil}\n[diff]\n\texternal = {evil}\n'
    )(path, evil, decoy)
    (path / ".git" / "info").mkdir(exist_ok=True)
    (path / ".git" / "info" / "attributes").write_text("* filter=evil\n")


def in_a_worktree_config(path: Path, evil: str, decoy: Path) -> None:
    in_config("[extensions]\n\tworktreeConfig = true\n")(path, evil, decoy)
    (path / ".git" / "config.worktree").write_text(f'[core]\n\tfsmonitor = "{evil}"\n')


def by_commondir(path: Path, evil: str, decoy: Path) -> None:
    (decoy / "config").write_text(f'[core]\n\tfsmonitor = "{evil}"\n\thooksPath = {decoy}\n')
    (path / ".git" / "commondir").write_text(f"{decoy}\n")


def in_a_submodule(path: Path, evil: str, decoy: Path) -> None:
    """A gitlink with a repository behind it, whose settings a nested git would read."""
    inner = path / "inner"
    inner.mkdir()
    for command in ("git init -q", "git -c user.name=a -c user.email=b commit -qm x --allow-empty"):
        assert os.system(f"cd {inner} && {command}") == 0
    os.system(f"cd {path} && git add inner 2>/dev/null && git commit -qm link")
    with_filters(inner, evil, decoy)
    (inner / "file").write_text("x")
    in_config('[core]\n\tfsmonitor = "{evil}"\n')(inner, evil, decoy)


# Settings that could hide one another's effect stand in different attacks.
ATTACKS: dict[str, Callable[[Path, str, Path], None]] = {
    "insteadOf": in_config(
        '[url "file://{decoy}"]\n\tinsteadOf = "file://{root}/origin.git"\n'
        '\tpushInsteadOf = "file://{root}/origin.git"\n'
    ),
    "everything rewritten": in_config('[url "file://{decoy}"]\n\tinsteadOf = "file://"\n'),
    "other remotes": in_config(
        '[remote "origin"]\n\tpushurl = "file://{decoy}"\n\tmirror = true\n'
        "[push]\n\tdefault = matching\n"
    ),
    "hooks": with_hooks,
    "hooksPath and fsmonitor": in_config(
        '[core]\n\thooksPath = {root}\n\tfsmonitor = "{evil}"\n\tuntrackedCache = true\n'
    ),
    "programs": in_config(
        '[core]\n\tsshCommand = "{evil}"\n\tgitProxy = "{evil}"\n\taskPass = "{evil}"\n'
        '\teditor = "{evil}"\n\tpager = "{evil}"\n\talternateRefsCommand = "{evil}"\n'
        '[sequence]\n\teditor = "{evil}"\n[credential]\n\thelper = "!{evil}"\n'
        '[gpg]\n\tprogram = "{evil}"\n[commit]\n\tgpgSign = true\n[push]\n\tgpgSign = true\n'
        '[uploadpack]\n\tpackObjectsHook = "{evil}"\n'
        '[alias]\n\tfetch = "!{evil}"\n\tupload-pack = "!{evil}"\n'
    ),
    "another work tree": in_config("[core]\n\tworktree = /etc\n"),
    "a broken config": in_config("[core\n\x00\n"),
    "included": included,
    "config.worktree": in_a_worktree_config,
    "commondir": by_commondir,
    "filters": with_filters,
    "a submodule's settings": in_a_submodule,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_setting_of_an_agent_runs_code_or_redirects_a_push(
    name: str,
    repo_fixture: RepoFixture,
    prepared: PreparedCheckout,
    marker: Path,
    decoy: Path,
    evil: str,
) -> None:
    path = prepared.checkout.path
    repo_fixture.agent.commit(path, "committed", "x")
    (path / "uncommitted").write_text("x")
    ATTACKS[name](path, evil, decoy)
    marker.unlink(missing_ok=True)
    if name == "a submodule's settings":
        head = commit_all(prepared.checkout, "Work", ANN).head
        assert find_loss(prepared.checkout).submodules == ("inner",)
        push_commit(
            repo_fixture.mirror,
            repo_fixture.remote,
            BRANCH,
            fetch_task_head(prepared.checkout),
            None,
        )
    else:
        head = whole_round(repo_fixture, prepared)
    assert not marker.exists(), marker.read_text()
    assert repo_fixture.on_remote() == head
    assert repo_fixture.agent("for-each-ref", cwd=decoy, check=False) == ""


@pytest.mark.parametrize("name", ["hooks", "hooksPath and fsmonitor", "included", "filters"])
def test_the_same_settings_do_run_code_in_a_git_that_reads_them(
    name: str, repo_fixture: RepoFixture, checkout: Checkout, marker: Path, decoy: Path, evil: str
) -> None:
    ATTACKS[name](checkout.path, evil, decoy)
    (checkout.path / "README.md").write_text("changed")
    repo_fixture.agent("add", "-A", cwd=checkout.path, check=False)
    repo_fixture.agent("commit", "-qm", "x", cwd=checkout.path, check=False)
    assert marker.exists()


def test_replaced_objects_and_grafts_do_not_change_history(
    repo_fixture: RepoFixture, prepared: PreparedCheckout
) -> None:
    path, git = prepared.checkout.path, repo_fixture.agent
    git("checkout", "-q", "--orphan", "alone", cwd=path)
    head = git.commit(path, "alone", "x")
    git("branch", "-qM", "alone", BRANCH, cwd=path)
    git("replace", "--graft", head, prepared.base, cwd=path)
    (path / ".git" / "info").mkdir(exist_ok=True)
    (path / ".git" / "info" / "grafts").write_text(f"{head} {prepared.base}\n")
    git("commit-graph", "write", "--reachable", cwd=path, check=False)
    assert git("merge-base", head, prepared.base, cwd=path) == prepared.base
    taken = fetch_task_head(prepared.checkout)
    with pytest.raises(Exception, match="rewritten"):
        check_history(repo_fixture.mirror, taken, base=prepared.base, pushed=None)


def test_submodules_speak_no_protocol_that_runs_programs(
    repo_fixture: RepoFixture, marker: Path, evil: str
) -> None:
    person = repo_fixture.person()
    inner = repo_fixture.agent.head(person)
    (person / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = x\n\turl = ext::{evil}\n\tupdate = !{evil}\n'
        f'[submodule "y"]\n\tpath = y\n\turl = ssh://-oProxyCommand={evil}/y\n'
    )
    for name in ("x", "y"):
        repo_fixture.agent(
            "update-index", "--add", "--cacheinfo", f"160000,{inner},{name}", cwd=person
        )
    repo_fixture.agent("add", ".gitmodules", cwd=person)
    repo_fixture.agent("commit", "-qm", "Add submodules", cwd=person)
    repo_fixture.agent("push", "-q", "origin", "main", cwd=person)
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    prepared = repo_fixture.prepare()
    assert prepared.missing_submodules == ("x", "y")
    assert not marker.exists()
