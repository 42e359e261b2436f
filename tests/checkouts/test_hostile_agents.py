"""Agents that want our git to run their code, push elsewhere, or read or write elsewhere."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path

import pytest

from conftest import ANN, BRANCH, Stable
from hostler.checkouts import inspection
from hostler.checkouts.cleaning import checkpoint, keep_and_clean, would_lose
from hostler.checkouts.errors import CheckoutTampered, GitFailed
from hostler.checkouts.mirror import head_of, open_mirror, update
from hostler.checkouts.names import Sha
from hostler.checkouts.place import Checkout
from hostler.checkouts.preparing import Prepared
from hostler.checkouts.pushing import guard, push
from hostler.checkouts.refreshing import refresh
from hostler.checkouts.remote import Remote
from hostler.checkouts.sealing import commit_all
from hostler.checkouts.status import status
from hostler.checkouts.view import take
from hostler.model import RepoName


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that only code of the agent would make."""
    return tmp_path / "marker"


@pytest.fixture
def decoy(stable: Stable) -> Path:
    """Where a redirected push would land."""
    path = stable.root / "decoy.git"
    stable.agent("init", "-q", "--bare", str(path), cwd=stable.root)
    return path


@pytest.fixture
def evil(tmp_path: Path, marker: Path) -> str:
    """A program that leaves the marker, whatever it is called with."""
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\necho $0 $@ >> {marker}\ncat\n")
    program.chmod(0o755)
    return str(program)


def whole_round(stable: Stable, prepared: Prepared) -> Sha:
    """Everything that we ever do with a checkout after its agent has left."""
    checkout = prepared.checkout
    status(checkout, "main")
    refresh(checkout, "main")
    made = commit_all(checkout, "Work", ANN)
    head = take(checkout)
    assert head == made.head
    guard(stable.mirror, head, base=prepared.base, pushed=None)
    push(stable.mirror, stable.remote, BRANCH, head, prepared.pushed)
    checkpoint(checkout, stable.remote, ANN, issue=7, title="Crash")
    would_lose(checkout)
    keep_and_clean(checkout, ANN)
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
    name: str, stable: Stable, prepared: Prepared, marker: Path, decoy: Path, evil: str
) -> None:
    path = prepared.checkout.path
    stable.agent.commit(path, "committed", "x")
    (path / "uncommitted").write_text("x")
    ATTACKS[name](path, evil, decoy)
    marker.unlink(missing_ok=True)
    if name == "a submodule's settings":
        head = commit_all(prepared.checkout, "Work", ANN).head
        assert would_lose(prepared.checkout).submodules == ("inner",)
        push(stable.mirror, stable.remote, BRANCH, take(prepared.checkout), None)
    else:
        head = whole_round(stable, prepared)
    assert not marker.exists(), marker.read_text()
    assert stable.on_remote() == head
    assert stable.agent("for-each-ref", cwd=decoy, check=False) == ""


@pytest.mark.parametrize("name", ["hooks", "hooksPath and fsmonitor", "included", "filters"])
def test_the_same_settings_do_run_code_in_a_git_that_reads_them(
    name: str, stable: Stable, checkout: Checkout, marker: Path, decoy: Path, evil: str
) -> None:
    ATTACKS[name](checkout.path, evil, decoy)
    (checkout.path / "README.md").write_text("changed")
    stable.agent("add", "-A", cwd=checkout.path, check=False)
    stable.agent("commit", "-qm", "x", cwd=checkout.path, check=False)
    assert marker.exists()


def test_replaced_objects_and_grafts_do_not_change_history(
    stable: Stable, prepared: Prepared
) -> None:
    path, git = prepared.checkout.path, stable.agent
    git("checkout", "-q", "--orphan", "alone", cwd=path)
    head = git.commit(path, "alone", "x")
    git("branch", "-qM", "alone", BRANCH, cwd=path)
    git("replace", "--graft", head, prepared.base, cwd=path)
    (path / ".git" / "info").mkdir(exist_ok=True)
    (path / ".git" / "info" / "grafts").write_text(f"{head} {prepared.base}\n")
    git("commit-graph", "write", "--reachable", cwd=path, check=False)
    assert git("merge-base", head, prepared.base, cwd=path) == prepared.base
    taken = take(prepared.checkout)
    with pytest.raises(Exception, match="rewritten"):
        guard(stable.mirror, taken, base=prepared.base, pushed=None)


def test_objects_of_another_repository_cannot_be_borrowed(
    stable: Stable, checkout: Checkout
) -> None:
    secret = stable.root / "secret.git"
    stable.agent("clone", "-q", "--bare", str(stable.origin), str(secret), cwd=stable.root)
    alternates = checkout.path / ".git" / "objects" / "info" / "alternates"
    alternates.write_text(alternates.read_text() + f"{secret}/objects\n")
    with pytest.raises(CheckoutTampered, match="borrowed from elsewhere"):
        take(checkout)


def as_a_file(git: Path, elsewhere: Path) -> None:
    git.rename(elsewhere / "real")
    git.write_text(f"gitdir: {elsewhere}/real\n")


def as_a_link(git: Path, elsewhere: Path) -> None:
    git.rename(elsewhere / "real")
    git.symlink_to(elsewhere / "real")


def linked(*parts: str) -> Callable[[Path, Path], None]:
    def attack(git: Path, elsewhere: Path) -> None:
        target = git.joinpath(*parts)
        if target.exists():
            target.rename(elsewhere / "real")
        target.symlink_to(elsewhere / "real")

    return attack


def fifo(*parts: str) -> Callable[[Path, Path], None]:
    def attack(git: Path, elsewhere: Path) -> None:
        target = git.joinpath(*parts)
        target.unlink(missing_ok=True)
        os.mkfifo(target)

    return attack


def holding(text: str, *parts: str) -> Callable[[Path, Path], None]:
    def attack(git: Path, elsewhere: Path) -> None:
        git.joinpath(*parts).write_text(text)

    return attack


BRANCH_REF = ("refs", "heads", *BRANCH.split("/"))
TAMPERING: dict[str, Callable[[Path, Path], None]] = {
    ".git as a file": as_a_file,
    ".git as a link": as_a_link,
    "HEAD as a link": linked("HEAD"),
    "HEAD as a FIFO": fifo("HEAD"),
    "HEAD without sense": holding("ref: ../../elsewhere\n", "HEAD"),
    "HEAD too long": holding("x" * 100_000, "HEAD"),
    "the branch as a link": linked(*BRANCH_REF),
    "a folder of refs as a link": linked("refs", "heads", "agent"),
    "the branch as a FIFO": fifo(*BRANCH_REF),
    "the branch as another's name": holding("ref: refs/heads/main\n", *BRANCH_REF),
    "the objects as a link": linked("objects"),
    "some objects as a link": linked("objects", "pack"),
    "an object as a link": linked("objects", "aa"),
    "an object as a FIFO": fifo("objects", "fifo"),
    "packed refs without sense": holding("nonsense refs/heads/x\n", "packed-refs"),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_a_git_folder_that_is_not_as_we_made_it_is_refused(
    name: str, stable: Stable, checkout: Checkout, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (checkout.path / "work").write_text("x")
    TAMPERING[name](checkout.path / ".git", elsewhere)
    with pytest.raises(CheckoutTampered) as refused:
        commit_all(checkout, "x", ANN)
        status(checkout, "main")
        keep_and_clean(checkout, ANN)
    assert refused.value.todo
    assert (checkout.path / "work").exists()
    assert stable.on_remote() == ""


def test_a_branch_that_is_not_an_object_is_refused(stable: Stable, checkout: Checkout) -> None:
    (checkout.path / ".git").joinpath(*BRANCH_REF).write_text("f" * 40 + "\n")
    with pytest.raises(GitFailed):
        take(checkout)


def put_object(checkout: Checkout, kind: bytes, body: bytes, name: str = "") -> str:
    """Write an object by hand, as git never would."""
    data = kind + b" %d\0" % len(body) + body
    name = name or sha1(data).hexdigest()
    folder = checkout.path / ".git" / "objects" / name[:2]
    folder.mkdir(exist_ok=True)
    (folder / name[2:]).write_bytes(zlib.compress(data))
    return name


def commit_of(tree: str, parent: str) -> bytes:
    person = "A <a@b> 1 +0000"
    return f"tree {tree}\nparent {parent}\nauthor {person}\ncommitter {person}\n\nx\n".encode()


def test_a_tree_with_a_git_folder_inside_is_refused(stable: Stable, prepared: Prepared) -> None:
    checkout = prepared.checkout
    blob = put_object(checkout, b"blob", b"[core]\n")
    inner = put_object(checkout, b"tree", b"100644 config\0" + bytes.fromhex(blob))
    tree = put_object(checkout, b"tree", b"40000 .git\0" + bytes.fromhex(inner))
    head = put_object(checkout, b"commit", commit_of(tree, prepared.base))
    (checkout.path / ".git").joinpath(*BRANCH_REF).write_text(head + "\n")
    with pytest.raises(GitFailed):
        take(checkout)
    assert head_of(stable.mirror, checkout.ref("heads")) is None


def test_an_object_under_a_false_name_is_not_believed(stable: Stable, prepared: Prepared) -> None:
    checkout = prepared.checkout
    tree = stable.agent("rev-parse", "HEAD^{tree}", cwd=checkout.path)
    false = put_object(checkout, b"commit", commit_of(tree, prepared.base), name="ab" * 20)
    (checkout.path / ".git").joinpath(*BRANCH_REF).write_text(false + "\n")
    with pytest.raises(GitFailed):
        take(checkout)
    assert head_of(stable.mirror, checkout.ref("heads")) is None


def test_more_objects_than_a_task_needs_are_refused_unread(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "OBJECTS_LIMIT", 1_000_000)
    with (checkout.path / ".git" / "objects" / "huge").open("wb") as file:
        file.truncate(2_000_000)
    with pytest.raises(CheckoutTampered, match="2000"):
        take(checkout)


def test_links_in_the_checkout_are_committed_as_links_and_never_written_through(
    stable: Stable, checkout: Checkout, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "app.py").write_text("mine")
    shutil.rmtree(checkout.path / "src")
    (checkout.path / "src").symlink_to(precious)
    (checkout.path / "README.md").unlink()
    (checkout.path / "README.md").symlink_to(precious / "app.py")
    (checkout.path / ".git" / "index").unlink()
    (checkout.path / ".git" / "index").symlink_to(precious / "app.py")
    head = commit_all(checkout, "Links", ANN).head
    listed = stable.agent("ls-tree", "-r", head, cwd=stable.mirror.path)
    assert "120000" in listed and "src/app.py" not in listed
    assert (precious / "app.py").read_text() == "mine"
    push(stable.mirror, stable.remote, BRANCH, take(checkout), None)
    keep_and_clean(checkout, ANN)
    assert (precious / "app.py").read_text() == "mine"


def test_a_linked_folder_of_refs_is_not_written_through(
    stable: Stable, checkout: Checkout, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    remotes = checkout.path / ".git" / "refs" / "remotes"
    shutil.rmtree(remotes, ignore_errors=True)
    remotes.symlink_to(precious)
    with pytest.raises(CheckoutTampered):
        refresh(checkout, "main")
    assert list(precious.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["ext::sh -c touch% /x", "ssh://host/x", "git@host:x", "--upload-pack=x", "/tmp/x"]
)
def test_no_address_but_http_and_file_is_accepted(url: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        Remote(url)


def test_submodules_speak_no_protocol_that_runs_programs(
    stable: Stable, marker: Path, evil: str
) -> None:
    person = stable.person()
    inner = stable.agent.head(person)
    (person / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = x\n\turl = ext::{evil}\n\tupdate = !{evil}\n'
        f'[submodule "y"]\n\tpath = y\n\turl = ssh://-oProxyCommand={evil}/y\n'
    )
    for name in ("x", "y"):
        stable.agent("update-index", "--add", "--cacheinfo", f"160000,{inner},{name}", cwd=person)
    stable.agent("add", ".gitmodules", cwd=person)
    stable.agent("commit", "-qm", "Add submodules", cwd=person)
    stable.agent("push", "-q", "origin", "main", cwd=person)
    update(stable.mirror, stable.remote)
    prepared = stable.prepare()
    assert prepared.missing_submodules == ("x", "y")
    assert not marker.exists()


def test_a_task_of_one_repository_does_not_reach_another_mirror(stable: Stable) -> None:
    other = open_mirror(stable.root / "mirrors", RepoName("octo", "other"))
    checkout = stable.prepare().checkout
    with pytest.raises(CheckoutTampered):
        take(Checkout(checkout.place, other, BRANCH))
