"""`kill -9` between every two steps of a poll: nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from itertools import count

import pytest
from killed_pollers import poll_until
from killed_senders import Child
from polling_fixture import PolledRepo
from sqlalchemy import select

from hostler.store import open_store
from hostler.store.repositories import list_changed_pull_requests, threads_in_step
from hostler.store.schema import inbox

PLAN = {"runs": True}
# What differs by when it was asked for: whether a pull request can be merged.
EVENTS = ("issue", "issue_comment", "review_comment", "review", "workflow_run", "pull")


def busy_day(sandbox_repo, polled_repo, first, second):
    """Everything that a poll can meet, in one."""
    sandbox_repo.pass_time(600)
    number = sandbox_repo.issue(body="a new issue")
    sandbox_repo.say(number, "on it")
    sandbox_repo.say(first, "on the pull request")
    sandbox_repo.remark(first, "on a line", name="first")
    sandbox_repo.do("POST", f"pulls/{first}/reviews", "bob", body="Not yet.", event="COMMENT")
    sha = sandbox_repo.do("GET", f"pulls/{first}")["head"]["sha"]
    sandbox_repo.control("POST", "/actions/runs", repo=str(sandbox_repo.name), sha=sha)
    sandbox_repo.say(second, "on one that begins")
    polled_repo.follow(second)
    # Farther apart than a reading reaches back: a cursor without its events would lose some.
    sandbox_repo.pass_time(400)
    sandbox_repo.say(number, "more")
    sandbox_repo.say(first, "more")
    sandbox_repo.remark(first, "more lines", name="first")


def found(store, name):
    with store.read() as tx:
        rows = tx.execute(select(inbox.c.kind, inbox.c.object_id, inbox.c.payload)).all()
        bodies = sorted((kind, key, json.loads(text).get("body") or "") for kind, key, text in rows)
        return bodies, list_changed_pull_requests(tx, name), threads_in_step(tx, name)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [6, pytest.param(1, marks=pytest.mark.soak)])
def test_every_step_can_be_the_last(
    sandbox_git_repo, sandbox_repo, store, database, tmp_path, stride
):
    polled_repo = PolledRepo(sandbox_repo, store, **PLAN)
    first, second = sandbox_repo.pull("first"), sandbox_repo.pull("second")
    polled_repo.follow(first)
    polled_repo.settle()
    busy_day(sandbox_repo, polled_repo, first, second)
    with store.write() as tx:
        tx.constant("SELECT 1")
    for path in database.glob("hostler.db*"):
        shutil.copy(path, tmp_path)
    snapshot = sorted(tmp_path.glob("hostler.db*"))
    polled_repo.wake()
    polled_repo.settle()
    wanted = found(store, sandbox_repo.name)
    assert wanted[1:] == ([], {first, second})
    reached = []
    for step in count(1, stride):
        home = tmp_path / f"home{step}"
        home.mkdir()
        for path in snapshot:
            shutil.copy(path, home)
        at = sandbox_repo.clock.now()
        child = Child(poll_until, home, sandbox_repo.sandbox.url, str(sandbox_repo.name), at, step)
        reached.append(child.hear())
        child.kill()
        with closing(open_store(home, clock=sandbox_repo.clock)) as after:
            PolledRepo(sandbox_repo, after, **PLAN).settle()
            assert found(after, sandbox_repo.name) == wanted, reached[-1]
        if reached[-1] == "reached the end":
            break
    assert len(reached) > 20 // stride
    if stride == 1:
        assert {"read repo_issues", "stored pull", "stored thread"} <= set(reached)
