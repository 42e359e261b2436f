"""`kill -9` before every step from the commit to the verified push; then once more."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkout_fixture import ANN, BRANCH, RepoFixture

from hostler.checkouts import agent_folder
from hostler.checkouts import git as git_module
from hostler.checkouts.checkout import fetch_task_head
from hostler.checkouts.commits import commit_all
from hostler.checkouts.names import Sha
from hostler.checkouts.preparation import PreparedCheckout
from hostler.checkouts.push import check_history, push_commit

# As many as there are; a test below counts them.
STEPS = 18


def finish(repo_fixture: RepoFixture, prepared: PreparedCheckout) -> Sha:
    """From an agent's leftovers to a pushed branch, as after a restart: nothing is remembered."""
    checkout = prepared.checkout
    commit_all(checkout, "Work", ANN)
    head = fetch_task_head(checkout)
    check_history(repo_fixture.mirror, head, base=prepared.base, pushed=None)
    push_commit(repo_fixture.mirror, repo_fixture.remote, BRANCH, head, expected=None)
    return head


def counting(act: Callable[[int], None]) -> None:
    """Call `act` with its number before every git command and every write into a checkout."""
    steps = 0

    def before(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            act(steps)
            return real(*args, **options)

        return wrapped

    git_module.run_git = before(git_module.run_git)
    agent_folder.write_file = before(agent_folder.write_file)


def in_a_process(work: Callable[[], object]) -> int:
    """Run in a process of its own; how it ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(number: int) -> Callable[[int], None]:
    def act(step: int) -> None:
        if step == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return act


@pytest.fixture
def worked(repo_fixture: RepoFixture, prepared: PreparedCheckout) -> PreparedCheckout:
    repo_fixture.agent.commit(prepared.checkout.path, "committed", "x")
    (prepared.checkout.path / "left").write_text("x")
    return prepared


def pushed_commits(repo_fixture: RepoFixture, prepared: PreparedCheckout) -> list[str]:
    asked = ("log", "--reverse", "--format=%s", f"{prepared.base}..refs/heads/{BRANCH}")
    return repo_fixture.agent(*asked, cwd=repo_fixture.origin).splitlines()


@pytest.mark.parametrize("number", range(1, STEPS + 1))
def test_killed_before_any_step_the_next_try_pushes_the_work_once(
    number: int, repo_fixture: RepoFixture, worked: PreparedCheckout
) -> None:
    def work() -> None:
        counting(die_at(number))
        finish(repo_fixture, worked)

    assert in_a_process(work) == -signal.SIGKILL
    head = finish(repo_fixture, worked)
    assert repo_fixture.on_remote() == head
    assert pushed_commits(repo_fixture, worked) == ["Change committed", "Work"]
    assert repo_fixture.agent("status", "--porcelain", cwd=worked.checkout.path) == ""
    assert list(repo_fixture.mirror.views.iterdir()) == []


def test_every_step_is_killed_by_the_test_above(
    repo_fixture: RepoFixture, worked: PreparedCheckout, tmp_path: Path
) -> None:
    note = tmp_path / "steps"

    def work() -> None:
        counting(lambda step: note.write_text(str(step)) and None)
        finish(repo_fixture, worked)

    assert in_a_process(work) == 0
    assert int(note.read_text()) == STEPS


def test_a_push_that_outlives_its_killed_service_is_found_by_the_next(
    repo_fixture: RepoFixture, worked: PreparedCheckout, tmp_path: Path
) -> None:
    started, go = tmp_path / "started", tmp_path / "go"
    os.mkfifo(started)
    os.mkfifo(go)
    hook = repo_fixture.origin / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho now > {started}\nread answer < {go}\n")
    hook.chmod(0o755)
    service = os.fork()
    if service == 0:
        finish(repo_fixture, worked)
        os._exit(0)
    assert started.read_text() == "now\n"
    os.kill(service, signal.SIGKILL)
    os.waitpid(service, 0)
    hook.unlink()
    go.write_text("go\n")
    head = finish(repo_fixture, worked)
    assert repo_fixture.on_remote() == head
    assert pushed_commits(repo_fixture, worked) == ["Change committed", "Work"]
