"""Tokens over http: sent to the one repository they are for, and to be found nowhere."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psutil
import pytest
from checkout_fixture import ANN, BRANCH, Agent

from hostler.checkouts import git as git_module
from hostler.checkouts import process
from hostler.checkouts.checkout import Checkout, CheckoutLocation, fetch_task_head
from hostler.checkouts.commits import commit_all
from hostler.checkouts.errors import PushRaced, RemoteDenied, RemoteMissing, RemoteMoved
from hostler.checkouts.errors import RemoteUnreachable as Unreachable
from hostler.checkouts.mirror import (
    Mirror,
    Remote,
    fetch_mirror,
    open_mirror,
    read_mirror_ref,
    read_remote_head,
)
from hostler.checkouts.preparation import CheckoutPlan, ensure_checkout
from hostler.checkouts.push import PushMove, push_commit
from hostler.model import RepoName
from hostler.sandbox.auth import token_for
from hostler.sandbox.server import Running, running

_numbers = count(1)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Running]:
    with running({"users": [{"login": "bob"}, {"login": "dave"}]}, git=True) as made:
        yield made


@dataclass(frozen=True)
class Private:
    """A private repository of alice's in the sandbox, to which bob may write."""

    url: str
    name: RepoName
    root: Path

    def remote(self, login: str = "bob") -> Remote:
        return Remote(self.url, lambda: token_for(login))

    def mirror(self) -> Mirror:
        return open_mirror(self.root / "mirrors", self.name)

    def work(self) -> Checkout:
        """A prepared checkout with one uncommitted file."""
        fetch_mirror(self.mirror(), self.remote())
        place = CheckoutLocation(self.root / "checkouts", "stable", "t1")
        checkout = ensure_checkout(
            place, self.mirror(), self.remote(), CheckoutPlan(BRANCH, "", ANN)
        ).checkout
        (checkout.path / "new").write_text("x")
        return checkout


@pytest.fixture
def private(sandbox: Running, tmp_path: Path) -> Private:
    name = f"alice/stable{next(_numbers)}"
    sandbox.seed({"repos": [{"name": name, "private": True, "collaborators": {"bob": "write"}}]})
    return Private(f"{sandbox.url}/{name}.git", RepoName.parse(name), tmp_path)


def secrets_of(login: str) -> tuple[bytes, bytes]:
    token = token_for(login)
    return token.encode(), base64.b64encode(f"x-access-token:{token}".encode())


class Watch:
    """Collects the command lines of every process while something runs."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.is_set():
            for other in psutil.process_iter(["cmdline"]):
                self.seen.add(" ".join(other.info["cmdline"] or ()))


def test_a_token_fetches_and_pushes_and_is_to_be_found_nowhere(
    private: Private, monkeypatch: pytest.MonkeyPatch
) -> None:
    argvs: list[str] = []
    real = git_module.run_git

    def noting(child: process.ChildProcess) -> git_module.GitOutput:
        argvs.append(" ".join(child.argv))
        return real(child)

    monkeypatch.setattr(git_module, "run_git", noting)
    with Watch() as watch:
        checkout = private.work()
        head = commit_all(checkout, "Work", ANN).head
        assert (
            push_commit(
                private.mirror(), private.remote(), BRANCH, fetch_task_head(checkout), None
            ).commit
            == head
        )
    assert read_remote_head(private.mirror().git(), private.remote(), BRANCH) == head
    assert any("ls-remote" in line for line in argvs)
    said = "\n".join((*watch.seen, *argvs, repr(private.remote())))
    for secret in secrets_of("bob"):
        assert secret.decode() not in said
        assert files_with(private.root, secret) == []


def files_with(root: Path, secret: bytes) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and secret in path.read_bytes()]


def test_the_header_is_bound_to_one_repository(private: Private) -> None:
    (header,) = private.remote().access().config
    assert header[0] == f"http.{private.url}.extraHeader"
    git = private.mirror().git().using(private.remote().access())
    other = private.url.replace("stable", "else")
    asked = ("config", "--get-urlmatch", "http.extraHeader")
    assert git(*asked, f"{private.url}/info/refs").text.startswith("Authorization")
    for url in (other, "https://example.org/alice/stable.git", private.url.rsplit("/", 1)[0]):
        assert git(*asked, url, accept=(0, 1)).text == ""


def test_a_token_is_asked_for_anew_for_each_command(private: Private) -> None:
    asked: list[int] = []

    def provider() -> str:
        asked.append(1)
        return token_for("bob")

    remote = Remote(private.url, provider)
    fetch_mirror(private.mirror(), remote)
    before = len(asked)
    read_remote_head(private.mirror().git(), remote, "main")
    assert len(asked) == before + 1


def test_a_wrong_token_and_none_at_all_are_refused(private: Private) -> None:
    for remote in (Remote(private.url, lambda: "wrong-token-0815"), Remote(private.url)):
        with pytest.raises((RemoteDenied, RemoteMissing)) as refused:
            fetch_mirror(private.mirror(), remote)
        told = f"{refused.value.lines()} {refused.value.output} {refused.value!r}"
        assert "wrong-token" not in told
        assert base64.b64encode(b"x-access-token:wrong-token-0815").decode() not in told


def test_a_token_without_the_right_to_write_is_refused(private: Private, sandbox: Running) -> None:
    checkout = private.work()
    commit_all(checkout, "Work", ANN)
    head = fetch_task_head(checkout)
    name = "alice/readable"
    sandbox.seed({"repos": [{"name": name, "collaborators": {"dave": "read"}}]})
    remote = Remote(f"{sandbox.url}/{name}.git", lambda: token_for("dave"))
    with pytest.raises(RemoteDenied) as refused:
        push_commit(private.mirror(), remote, BRANCH, head, None)
    assert token_for("dave") not in str(refused.value.lines()) + refused.value.output


def test_a_repository_that_does_not_exist_is_missing(private: Private, sandbox: Running) -> None:
    remote = Remote(f"{sandbox.url}/alice/nothing.git", lambda: token_for("bob"))
    with pytest.raises(RemoteMissing):
        fetch_mirror(private.mirror(), remote)


def test_a_renamed_repository_has_moved_and_is_not_followed(
    private: Private, sandbox: Running
) -> None:
    with sandbox.client("alice") as alice:
        renamed = alice.patch(f"/repos/{private.name}", json={"name": f"{private.name.name}-new"})
        assert renamed.is_success, renamed.text
    with pytest.raises(RemoteMoved):
        fetch_mirror(private.mirror(), private.remote())


def test_a_host_that_does_not_answer_is_unreachable(private: Private) -> None:
    with pytest.raises(Unreachable):
        fetch_mirror(private.mirror(), Remote("http://127.0.0.1:1/a/b.git"))


def test_somebody_else_pushes_between_our_look_and_our_push(
    private: Private, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checkout = private.work()
    commit_all(checkout, "Work", ANN)
    head = fetch_task_head(checkout)
    rival = rival_push(private, tmp_path)
    meddle_before(monkeypatch, "push", rival)
    with pytest.raises(PushRaced) as raced:
        push_commit(private.mirror(), private.remote(), BRANCH, head, None)
    assert raced.value.expected is None
    assert raced.value.found == read_remote_head(private.mirror().git(), private.remote(), BRANCH)
    assert raced.value.found != head


def rival_push(private: Private, tmp_path: Path) -> Callable[[], None]:
    """A person's push of a commit of their own to our branch, to be made when called."""
    home = tmp_path / "person-home"
    home.mkdir()
    agent, folder = Agent(home), tmp_path / "person"
    url = private.url.replace("://", f"://x-access-token:{token_for('bob')}@")
    agent("clone", "-q", url, str(folder), cwd=tmp_path)
    agent.commit(folder, "theirs", "x")

    def act() -> None:
        agent("push", "-q", "origin", f"HEAD:refs/heads/{BRANCH}", cwd=folder)

    return act


def meddle_before(monkeypatch: pytest.MonkeyPatch, verb: str, act: Callable[[], None]) -> None:
    real = git_module.run_git

    def meddling(child: process.ChildProcess) -> git_module.GitOutput:
        if child.argv[1] == verb:
            act()
        return real(child)

    monkeypatch.setattr(git_module, "run_git", meddling)


def test_an_answer_that_is_lost_after_the_push_is_a_success(
    private: Private, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = private.work()
    commit_all(checkout, "Work", ANN)
    head = fetch_task_head(checkout)
    real = git_module.run_git

    def losing(child: process.ChildProcess) -> git_module.GitOutput:
        done = real(child)
        if child.argv[1] == "push":
            return git_module.GitOutput(128, b"", "fatal: the remote end hung up unexpectedly")
        return done

    monkeypatch.setattr(git_module, "run_git", losing)
    assert (
        push_commit(private.mirror(), private.remote(), BRANCH, head, None).move is PushMove.CREATE
    )
    assert read_mirror_ref(private.mirror(), f"refs/hostler/pushed/{BRANCH}") == head


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://user@host/a/b", "credentials"),
        ("https://user:pass@host/a/b", "credentials"),
        ("http://example.org/a/b", "plain http"),
        ("https://host/a b", "not an address"),
        ("https://host/a\nb", "not an address"),
    ],
)
def test_an_address_that_would_give_a_token_away_is_refused(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        Remote(url, lambda: "token")
    assert "pass" not in str(refused.value)


def test_a_token_in_our_own_environment_does_not_reach_git(
    private: Private, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "hush-hush")
    assert "hush-hush" not in git_module.build_base_environment().values()
    assert os.environ["GITHUB_TOKEN"] == "hush-hush"


def test_no_proxy_is_asked_for_what_is_on_this_machine(
    private: Private, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    fetch_mirror(private.mirror(), private.remote())


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ({}, "localhost,127.0.0.1,::1"),
        ({"NO_PROXY": "a,b"}, "a,b,localhost,127.0.0.1,::1"),
        ({"NO_PROXY": "a", "no_proxy": "b"}, "b,localhost,127.0.0.1,::1"),
        ({"no_proxy": "*"}, "*"),
    ],
    ids=str,
)
def test_the_operators_hosts_without_a_proxy_stay_so(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], passed: str
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert git_module.build_base_environment()["no_proxy"] == passed
