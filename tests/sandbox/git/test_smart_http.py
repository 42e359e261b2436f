"""The real git against the bridge: clone, fetch, push, and everything that must be refused."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest
from git_host import Client, GitHost, git_host

from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.refs import RefMove
from hostler.shim import processes


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHost]:
    with git_host(tmp_path_factory.mktemp("vault")) as host:
        yield host


@pytest.fixture
def host(shared: GitHost) -> GitHost:
    shared.pushes.clear()
    return shared


@pytest.fixture
def git(tmp_path: Path) -> Client:
    return Client(tmp_path)


@pytest.fixture
def branch(request: pytest.FixtureRequest) -> str:
    return f"b-{request.node.name[:60]}"


@pytest.fixture
def work(host: GitHost, git: Client, branch: str) -> Path:
    """A clone of the open repository on a branch of the test's own."""
    folder = git.clone(host.url("ann/open"))
    git("checkout", "--quiet", "-b", branch, cwd=folder)
    return folder


@pytest.fixture
def big(host: GitHost, git: Client, branch: str) -> Path:
    """A clone of a repository for large files, so that other tests need not fetch them."""
    folder = git.clone(host.url("ann/big"), "big", "--depth=1")
    git("config", "core.compression", "0", cwd=folder)
    git("checkout", "--quiet", "-b", branch, cwd=folder)
    return folder


def add_noise(git: Client, work: Path, size: int) -> None:
    (work / "noise").write_bytes(os.urandom(size))
    git("add", "noise", cwd=work)
    git("commit", "--quiet", "-m", "Noise", cwd=work)


def test_anybody_clones_a_public_repository(host: GitHost, git: Client) -> None:
    work = git.clone(host.url("ann/open", None))
    assert (work / "README.md").read_text() == "# ann/open\n"
    assert git("branch", "--show-current", cwd=work) == "main"


def test_a_shallow_clone_has_one_commit(
    host: GitHost, git: Client, work: Path, branch: str
) -> None:
    for number in range(3):
        git.commit(work, "file", str(number))
    git("push", "--quiet", "origin", branch, cwd=work)
    shallow = git.clone(host.url("ann/open"), "shallow", "--depth=1", f"--branch={branch}")
    assert git("rev-list", "--count", "HEAD", cwd=shallow) == "1"
    git("fetch", "--quiet", "--unshallow", cwd=shallow)
    assert git("rev-list", "--count", "HEAD", cwd=shallow) == "4"


@pytest.mark.parametrize("version", ["0", "1", "2"])
def test_every_protocol_version_is_spoken(host: GitHost, git: Client, version: str) -> None:
    listed = git("-c", f"protocol.version={version}", "ls-remote", host.url("ann/open"))
    assert "refs/heads/main" in listed


def test_a_single_commit_is_fetched_by_its_sha(
    host: GitHost, git: Client, work: Path, branch: str
) -> None:
    first = git.commit(work, "file", "1")
    git.commit(work, "file", "2")
    git("push", "--quiet", "origin", branch, cwd=work)
    git("init", "--quiet", "other")
    git("fetch", "--quiet", host.url("ann/open"), first, cwd=git.folder / "other")
    assert git("rev-parse", "FETCH_HEAD", cwd=git.folder / "other") == first


def test_a_push_tells_which_refs_moved(host: GitHost, git: Client, work: Path, branch: str) -> None:
    first = git.commit(work, "file", "1")
    git("push", "--quiet", "origin", branch, cwd=work)
    second = git.commit(work, "file", "2")
    git("tag", f"v-{branch}", cwd=work)
    git("push", "--quiet", "origin", branch, f"v-{branch}", cwd=work)
    ref, tag = f"refs/heads/{branch}", f"refs/tags/v-{branch}"
    assert [push.moves for push in host.pushes] == [
        (RefMove(ref, ZERO, first),),
        (RefMove(ref, first, second), RefMove(tag, ZERO, second)),
    ]
    assert {push.login for push in host.pushes} == {"ann"}


def test_a_force_push_and_a_deletion_are_told_too(
    host: GitHost, git: Client, work: Path, branch: str
) -> None:
    first = git.commit(work, "file", "1")
    git("push", "--quiet", "origin", branch, cwd=work)
    git("commit", "--quiet", "--amend", "-m", "Other words", cwd=work)
    second = git("rev-parse", "HEAD", cwd=work)
    refused = git.try_("push", "origin", branch, cwd=work)
    assert refused.returncode and "non-fast-forward" in refused.stderr
    git("push", "--quiet", "--force", "origin", branch, cwd=work)
    git("push", "--quiet", "--delete", "origin", branch, cwd=work)
    ref = f"refs/heads/{branch}"
    assert [push.moves[0] for push in host.pushes[1:]] == [
        RefMove(ref, first, second),
        RefMove(ref, second, ZERO),
    ]


def test_a_lease_on_an_old_sha_is_refused(
    host: GitHost, git: Client, work: Path, branch: str
) -> None:
    first = git.commit(work, "file", "1")
    git("push", "--quiet", "origin", branch, cwd=work)
    git.commit(work, "file", "2")
    git("push", "--quiet", "origin", branch, cwd=work)
    git("commit", "--quiet", "--amend", "-m", "Other words", cwd=work)
    refused = git.try_("push", f"--force-with-lease={branch}:{first}", "origin", branch, cwd=work)
    assert refused.returncode and "stale info" in refused.stderr


def test_of_two_pushes_at_once_one_wins_and_the_other_is_refused(
    host: GitHost, git: Client, branch: str
) -> None:
    works = [git.clone(host.url("ann/open"), f"work{n}") for n in range(4)]
    for n, work in enumerate(works):
        git("checkout", "--quiet", "-b", branch, cwd=work)
        git.commit(work, f"file{n}", "x")
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda w: git.try_("push", "origin", branch, cwd=w), works))
    assert sorted(push.returncode for push in done) == [0, 1, 1, 1]
    assert len(host.pushes) == 1
    assert fsck(host, "ann/open") == ""


def test_pushes_to_different_branches_at_once_all_land(
    host: GitHost, git: Client, branch: str
) -> None:
    works = [git.clone(host.url("ann/open"), f"work{n}") for n in range(4)]
    for n, work in enumerate(works):
        git("checkout", "--quiet", "-b", f"{branch}-{n}", cwd=work)
        git.commit(work, f"file{n}", "x")
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda w: git.try_("push", "origin", "HEAD", cwd=w), works))
    assert [push.returncode for push in done] == [0, 0, 0, 0]
    assert sorted(len(push.moves) for push in host.pushes) == [1, 1, 1, 1]


def test_a_client_killed_in_the_middle_of_a_push_harms_nothing(
    host: GitHost, git: Client, big: Path, branch: str
) -> None:
    add_noise(git, big, 20_000_000)
    pushing = git.start("push", "--progress", "origin", branch, cwd=big)
    assert pushing.stderr is not None
    while b"Writing objects" not in pushing.stderr.readline(400):
        assert pushing.poll() is None
    os.killpg(pushing.pid, signal.SIGKILL)
    pushing.communicate()
    git("checkout", "--quiet", "-b", f"after-{branch}", "origin/main", cwd=big)
    git.commit(big, "other", "small")
    git("push", "--quiet", "origin", f"after-{branch}", cwd=big)
    assert fsck(host, "ann/big") == ""
    check_no_children(host)


def test_a_client_killed_in_the_middle_of_a_clone_leaves_no_child_behind(
    host: GitHost, git: Client, big: Path, branch: str
) -> None:
    add_noise(git, big, 20_000_000)
    git("push", "--quiet", "origin", branch, cwd=big)
    cloning = git.start("clone", "--progress", "--bare", host.url("ann/big"), "x", cwd=git.folder)
    assert cloning.stderr is not None
    while b"Receiving objects" not in cloning.stderr.readline(400):
        assert cloning.poll() is None
    os.killpg(cloning.pid, signal.SIGKILL)
    cloning.communicate()
    check_no_children(host)


def test_a_hand_cut_upload_leaves_no_child_behind(host: GitHost) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"0094" + b"0" * 40
        raise RuntimeError("cut")

    host.asked.clear()
    with pytest.raises(RuntimeError, match="cut"):
        httpx.post(
            f"http://127.0.0.1:{host.port}/ann/open.git/git-receive-pack",
            content=pieces(),
            auth=("x", "ann-token"),
            headers={"content-type": "application/x-git-receive-pack-request"},
        )
    # The server may hear of it only now; from then on it is not idle until it has cleaned up.
    assert host.asked.wait(20)
    check_no_children(host)
    assert host.pushes == []


@pytest.mark.long
def test_fifty_megabytes_are_pushed_without_holding_them_in_memory(
    host: GitHost, git: Client, big: Path, branch: str
) -> None:
    add_noise(git, big, 50_000_000)
    before = psutil.Process().memory_info().rss
    git("push", "--quiet", "origin", branch, cwd=big)
    assert psutil.Process().memory_info().rss - before < 40_000_000
    size = host.do(host.repo_store.get(3).git("cat-file", "-s", f"{branch}:noise"))
    assert int(size.text) == 50_000_000


def test_a_bad_token_is_asked_to_log_in(host: GitHost, git: Client) -> None:
    url = f"http://x:wrong@127.0.0.1:{host.port}/ann/closed.git"
    refused = git.try_("ls-remote", url)
    assert refused.returncode and "Authentication failed" in refused.stderr
    answer = httpx.get(f"{url}/info/refs?service=git-upload-pack")
    assert answer.status_code == 401
    assert httpx.get(f"{url}/info/refs?service=git-upload-pack".replace("closed", "open")).is_error
    assert answer.headers["www-authenticate"].startswith("Basic")


def test_a_private_repository_is_invisible_to_strangers(host: GitHost, git: Client) -> None:
    assert "not found" in git.try_("ls-remote", host.url("ann/closed", "bob")).stderr
    anonymous = git.try_("ls-remote", host.url("ann/closed", None))
    assert "could not read Username" in anonymous.stderr
    assert "not found" in git.try_("ls-remote", host.url("ann/nothing", "bob")).stderr
    assert "main" in git("ls-remote", host.url("ann/closed"))


def test_reading_is_not_writing(host: GitHost, git: Client, work: Path, branch: str) -> None:
    git.commit(work, "file", "1")
    refused = git.try_("push", host.url("ann/open", "bob"), branch, cwd=work)
    assert "403" in refused.stderr
    anonymous = git.try_("push", host.url("ann/open", None), branch, cwd=work)
    assert "could not read Username" in anonymous.stderr
    assert host.pushes == []


@pytest.mark.parametrize("header", ["Bearer ann-token", "token ann-token"])
def test_a_bearer_token_serves_as_well(host: GitHost, git: Client, header: str) -> None:
    extra = f"http.extraHeader=Authorization: {header}"
    assert "main" in git("-c", extra, "ls-remote", host.url("ann/closed", None))


def test_git_follows_a_renamed_repository(host: GitHost, git: Client, branch: str) -> None:
    work = git.clone(host.url("ann/former"))
    git("checkout", "--quiet", "-b", branch, cwd=work)
    git.commit(work, "file", "1")
    git("push", "--quiet", "origin", branch, cwd=work)
    assert [push.number for push in host.pushes] == [1]
    moved = httpx.get(host.url("ann/former") + "/info/refs?service=git-upload-pack")
    assert (moved.status_code, moved.headers["location"]) == (
        301,
        "/ann/open.git/info/refs?service=git-upload-pack",
    )


def test_pull_refs_are_read_only_to_clients(
    host: GitHost, git: Client, work: Path, branch: str
) -> None:
    sha = git.commit(work, "file", "1")
    git("push", "--quiet", "origin", branch, cwd=work)
    host.do(host.repo_store.get(1).git("update-ref", "refs/pull/7/head", sha))
    git("fetch", "--quiet", "origin", "refs/pull/7/head", cwd=work)
    assert git("rev-parse", "FETCH_HEAD", cwd=work) == sha
    git.commit(work, "file", "2")
    refused = git.try_("push", "origin", "HEAD:refs/pull/7/head", cwd=work)
    assert refused.returncode and "hidden ref" in refused.stderr


def test_the_default_branch_is_not_deleted_by_a_push(
    host: GitHost, git: Client, work: Path
) -> None:
    refused = git.try_("push", "--delete", "origin", "main", cwd=work)
    assert "refusing to delete the current branch" in refused.stderr


@pytest.mark.parametrize(
    "path",
    [
        "/ann/open.git/HEAD",
        "/ann/open.git/config",
        "/ann/open.git/objects/info/packs",
        "/ann/open.git/info/refs",
        "/ann/open.git/info/refs?service=git-upload-archive",
        "/ann/../../etc/passwd/info/refs?service=git-upload-pack",
        "/ann/%2e%2e/info/refs?service=git-upload-pack",
    ],
)
def test_nothing_but_the_smart_protocol_is_served(host: GitHost, path: str) -> None:
    answer = httpx.get(f"http://127.0.0.1:{host.port}{path}", auth=("x", "ann-token"))
    assert answer.status_code == 404


def fsck(host: GitHost, name: str) -> str:
    """What git finds wrong with a repository; nothing when it is healthy."""
    done = subprocess.run(
        ["git", "fsck", "--full", "--strict", "--no-dangling", "--no-progress"],
        cwd=host.path(name),
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def check_no_children(host: GitHost) -> None:
    """Once the bridge is idle, the server, which lives in this process, has no git child left.

    All pipes of its children are closed by then, but the kernel may still be at work on the exit
    of one of them. Such a process runs no instruction any more.
    """
    host.do(host.bridge.idle())
    left = [
        process
        for process in processes.list_living_descendants(os.getpid())
        if "git" in process.name
    ]
    assert [process.name for process in left if not process.leaving] == []
