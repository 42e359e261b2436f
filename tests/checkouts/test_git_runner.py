"""The runner: a clean environment, settings that win, bounds, and errors as types."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from checkout_fixture import RepoFixture

from hostler.checkouts import errors, git
from hostler.checkouts.git import Git, RemoteAccess, require_version
from hostler.checkouts.mirror import MIRROR_CONFIG, Mirror, create_bare_repo, read_mirror_ref
from hostler.model import RepoName


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    create_bare_repo(tmp_path / "m.git")
    return Mirror(tmp_path / "m.git", RepoName("a", "b"))


def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program called git before the real one."""
    folder = tmp_path / "fake"
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_nothing_of_our_environment_reaches_git(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "GIT_CONFIG_PARAMETERS", "GIT_SSH_COMMAND", "GIT_TRACE_CURL"):
        monkeypatch.setenv(name, "secret")
    fake_git(tmp_path, monkeypatch, "env")
    seen = dict(line.split("=", 1) for line in mirror.git()("status").lines if "=" in line)
    assert "secret" not in seen.values()
    assert seen["HOME"] == seen["GIT_CONFIG_GLOBAL"] == os.devnull
    assert (seen["GIT_CONFIG_NOSYSTEM"], seen["GIT_TERMINAL_PROMPT"]) == ("1", "0")
    assert seen["GIT_ALLOW_PROTOCOL"] == ""


@pytest.mark.parametrize(("key", "value"), git.CONFIG_OVERRIDES)
def test_no_repository_can_override_what_we_set(mirror: Mirror, key: str, value: str) -> None:
    section, name = key.split(".")
    (mirror.path / "config").write_text(f"{MIRROR_CONFIG}[{section}]\n\t{name} = theirs\n")
    assert Git(mirror.path, mirror.path)("config", key).text == value


def test_a_missing_git_is_said_so(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.GitMissing, match="not installed"):
        require_version()


def test_an_old_git_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert require_version() >= git.MIN_VERSION
    fake_git(tmp_path, monkeypatch, "echo git version 2.20.1")
    with pytest.raises(errors.GitTooOld) as refused:
        require_version()
    assert refused.value.found == "2.20.1"


def test_a_git_that_never_ends_is_ended_with_its_children(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    # The reader sees the end of the FIFO when the last process that holds it is gone.
    reading = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    fake_git(tmp_path, monkeypatch, f"trap '' TERM; exec 3>{alive}; sleep 600 & sleep 600")
    monkeypatch.setattr("hostler.checkouts.process.GRACE_SECONDS", 0.1)
    with pytest.raises(errors.GitTimeout) as late:
        mirror.git()("status", seconds=0.5)
    assert late.value.verb == "status"
    os.set_blocking(reading, True)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_git_that_says_too_much_is_an_error(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "MAX_OUTPUT_BYTES", 1000)
    fake_git(tmp_path, monkeypatch, "head -c 100000 /dev/zero")
    with pytest.raises(errors.GitFailed, match="more than"):
        mirror.git()("status")


def test_only_the_end_of_what_a_failing_git_says_is_kept(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_git(tmp_path, monkeypatch, "yes noise | head -c 1000000 >&2; echo the cause >&2; exit 3")
    with pytest.raises(errors.GitFailed) as failed:
        mirror.git()("status")
    assert (failed.value.verb, failed.value.code) == ("status", 3)
    assert (
        failed.value.output.endswith("the cause")
        and len(failed.value.output) <= git.MAX_STDERR_BYTES
    )


SAYINGS = {
    "fatal: unable to access 'https://x/': The requested URL returned error: 401": "RemoteDenied",
    "fatal: unable to access 'https://x/': The requested URL returned error: 403": "RemoteDenied",
    "fatal: Authentication failed for 'https://x/'": "RemoteDenied",
    "fatal: could not read Username for 'https://x': terminal prompts disabled": "RemoteDenied",
    "remote: Permission to a/b.git denied to c.": "RemoteDenied",
    "remote: Write access to repository not granted.": "RemoteDenied",
    "remote: Repository not found.\nfatal: repository 'https://x/' not found": "RemoteMissing",
    "fatal: unable to access 'https://x/': The requested URL returned error: 404": "RemoteMissing",
    "fatal: '/x' does not appear to be a git repository": "RemoteMissing",
    "fatal: unable to access 'https://x/': The requested URL returned error: 301": "RemoteMoved",
    "fatal: unable to access 'x': Could not resolve host: x": "RemoteUnreachable",
    "fatal: unable to access 'x': Failed to connect to x port 1": "RemoteUnreachable",
    "fatal: unable to access 'x': The requested URL returned error: 502": "RemoteUnreachable",
    "fatal: the remote end hung up unexpectedly": "RemoteUnreachable",
    "fatal: early EOF": "RemoteUnreachable",
    "error: RPC failed; curl 56": "RemoteUnreachable",
    "fatal: write error: No space left on device": "DiskFull",
    "fatal: bad object": "GitFailed",
}


@pytest.mark.parametrize("said", SAYINGS)
def test_what_git_says_becomes_a_type(said: str) -> None:
    found = git.error_from_output("fetch", 128, said, "https://x/", Path("/p"))
    assert type(found).__name__ == SAYINGS[said]
    assert found.lines()


def test_a_host_that_denies_us_is_quoted() -> None:
    said = "remote: Permission to a/b.git denied to c.\nfatal: returned error: 403"
    found = git.error_from_output("push", 128, said, "https://x/", Path("/p"))
    assert found.what.endswith("rejected the credentials: Permission to a/b.git denied to c.")


def test_a_remotes_complaint_is_only_read_from_commands_that_talk_to_one() -> None:
    found = git.error_from_output("read-tree", 128, "fatal: early EOF", "", Path("/p"))
    assert isinstance(found, errors.GitFailed)


def test_secrets_are_cut_from_what_git_says(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_git(tmp_path, monkeypatch, "env >&2; exit 1")
    access = RemoteAccess(
        "https://x/", frozenset({"https"}), (("a.b", "hush-1234"),), ("hush-1234",)
    )
    with pytest.raises(errors.GitFailed) as failed:
        mirror.git().using(access)("fetch")
    assert "hush" not in failed.value.output and "***" in failed.value.output
    assert "hush" not in repr(access) + repr(mirror.git().using(access))


def test_the_drawn_tree_of_errors_is_true() -> None:
    doc = errors.__doc__ or ""
    drawn = [line.strip("│├└─ ").split()[0] for line in doc.splitlines()[2:] if line.strip()]
    defined = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.CheckoutError)
    ]
    assert sorted(drawn) == sorted(defined)


def test_a_protocol_that_was_not_allowed_is_not_spoken(repo_fixture: RepoFixture) -> None:
    git_here = repo_fixture.mirror.git().using(RemoteAccess("x", frozenset({"https"})))
    for url in (repo_fixture.remote.url, "ext::true"):
        with pytest.raises(errors.GitFailed, match="not allowed"):
            git_here("ls-remote", url)
    assert read_mirror_ref(repo_fixture.mirror, "refs/heads/main")
