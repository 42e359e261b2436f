"""Agents that change their `.git`, its objects and links so that we read or write elsewhere."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path

import pytest
from checkout_fixture import ANN, BRANCH, RepoFixture

from file_rights import holds_without_rights
from hostler.checkouts import agent_folder
from hostler.checkouts.checkout import Checkout, fetch_task_head
from hostler.checkouts.cleanup import save_and_remove
from hostler.checkouts.commits import commit_all, read_status
from hostler.checkouts.errors import CheckoutTampered, GitFailed
from hostler.checkouts.mirror import Remote, open_mirror, read_mirror_ref
from hostler.checkouts.preparation import PreparedCheckout, refresh_checkout
from hostler.checkouts.push import push_commit
from hostler.model import RepoName


def test_objects_of_another_repository_cannot_be_borrowed(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    secret = repo_fixture.root / "secret.git"
    repo_fixture.agent(
        "clone", "-q", "--bare", str(repo_fixture.origin), str(secret), cwd=repo_fixture.root
    )
    alternates = checkout.path / ".git" / "objects" / "info" / "alternates"
    alternates.write_text(alternates.read_text() + f"{secret}/objects\n")
    with pytest.raises(CheckoutTampered, match="borrowed from elsewhere"):
        fetch_task_head(checkout)


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
    name: str, repo_fixture: RepoFixture, checkout: Checkout, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (checkout.path / "work").write_text("x")
    TAMPERING[name](checkout.path / ".git", elsewhere)
    with pytest.raises(CheckoutTampered) as refused:
        commit_all(checkout, "x", ANN)
        read_status(checkout, "main")
        save_and_remove(checkout, ANN)
    assert refused.value.remedy
    assert (checkout.path / "work").exists()
    assert repo_fixture.on_remote() == ""


@pytest.mark.parametrize("part", [".git", ".git/HEAD", ".git/objects", ".git/packed-refs"])
def test_a_git_folder_that_was_closed_to_us_is_refused(checkout: Checkout, part: str) -> None:
    git = checkout.path / ".git"
    (git / "packed-refs").touch()
    (checkout.path / part).chmod(0)

    def is_refused() -> bool:
        try:
            agent_folder.require_checkout(checkout.path)
            agent_folder.read_head(checkout.path)
            agent_folder.read_local_refs(checkout.path)
            agent_folder.require_objects(checkout.path, checkout.mirror.objects)
        except CheckoutTampered as refused:
            return "may not open" in refused.what
        return False

    assert holds_without_rights(is_refused)


def test_a_branch_that_is_not_an_object_is_refused(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    (checkout.path / ".git").joinpath(*BRANCH_REF).write_text("f" * 40 + "\n")
    with pytest.raises(GitFailed):
        fetch_task_head(checkout)


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


def test_a_tree_with_a_git_folder_inside_is_refused(
    repo_fixture: RepoFixture, prepared: PreparedCheckout
) -> None:
    checkout = prepared.checkout
    blob = put_object(checkout, b"blob", b"[core]\n")
    inner = put_object(checkout, b"tree", b"100644 config\0" + bytes.fromhex(blob))
    tree = put_object(checkout, b"tree", b"40000 .git\0" + bytes.fromhex(inner))
    head = put_object(checkout, b"commit", commit_of(tree, prepared.base))
    (checkout.path / ".git").joinpath(*BRANCH_REF).write_text(head + "\n")
    with pytest.raises(GitFailed):
        fetch_task_head(checkout)
    assert read_mirror_ref(repo_fixture.mirror, checkout.ref("heads")) is None


def test_an_object_under_a_false_name_is_not_believed(
    repo_fixture: RepoFixture, prepared: PreparedCheckout
) -> None:
    checkout = prepared.checkout
    tree = repo_fixture.agent("rev-parse", "HEAD^{tree}", cwd=checkout.path)
    false = put_object(checkout, b"commit", commit_of(tree, prepared.base), name="ab" * 20)
    (checkout.path / ".git").joinpath(*BRANCH_REF).write_text(false + "\n")
    with pytest.raises(GitFailed):
        fetch_task_head(checkout)
    assert read_mirror_ref(repo_fixture.mirror, checkout.ref("heads")) is None


def test_more_objects_than_a_task_needs_are_refused_unread(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_folder, "MAX_OBJECTS_BYTES", 1_000_000)
    with (checkout.path / ".git" / "objects" / "huge").open("wb") as file:
        file.truncate(2_000_000)
    with pytest.raises(CheckoutTampered, match="2000"):
        fetch_task_head(checkout)


def test_links_in_the_checkout_are_committed_as_links_and_never_written_through(
    repo_fixture: RepoFixture, checkout: Checkout, tmp_path: Path
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
    listed = repo_fixture.agent("ls-tree", "-r", head, cwd=repo_fixture.mirror.path)
    assert "120000" in listed and "src/app.py" not in listed
    assert (precious / "app.py").read_text() == "mine"
    push_commit(repo_fixture.mirror, repo_fixture.remote, BRANCH, fetch_task_head(checkout), None)
    save_and_remove(checkout, ANN)
    assert (precious / "app.py").read_text() == "mine"


def test_a_linked_folder_of_refs_is_not_written_through(
    repo_fixture: RepoFixture, checkout: Checkout, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    remotes = checkout.path / ".git" / "refs" / "remotes"
    shutil.rmtree(remotes, ignore_errors=True)
    remotes.symlink_to(precious)
    with pytest.raises(CheckoutTampered):
        refresh_checkout(checkout, "main")
    assert list(precious.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["ext::sh -c touch% /x", "ssh://host/x", "git@host:x", "--upload-pack=x", "/tmp/x"]
)
def test_no_address_but_http_and_file_is_accepted(url: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        Remote(url)


def test_a_task_of_one_repository_does_not_reach_another_mirror(repo_fixture: RepoFixture) -> None:
    other = open_mirror(repo_fixture.root / "mirrors", RepoName("octo", "other"))
    checkout = repo_fixture.prepare().checkout
    with pytest.raises(CheckoutTampered):
        fetch_task_head(Checkout(checkout.place, other, BRANCH))
