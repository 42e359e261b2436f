"""`kill -9` between every two steps of a poll: nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from itertools import count

import pytest
from feeds_children import poll_until
from feeds_yard import Yard
from forge_children import Child
from sqlalchemy import select

from hostler.store import open_store
from hostler.store.repositories import pulls_moved, threads_in_step
from hostler.store.schema import inbox

PLAN = {"runs": True}
# What differs by when it was asked for: whether a pull request can be merged.
EVENTS = ("issue", "issue_comment", "review_comment", "review", "workflow_run", "pull")


def busy_day(house, yard, first, second):
    """Everything that a poll can meet, in one."""
    house.pass_time(600)
    number = house.issue(body="a new issue")
    house.say(number, "on it")
    house.say(first, "on the pull request")
    house.remark(first, "on a line", name="first")
    house.do("POST", f"pulls/{first}/reviews", "bob", body="Not yet.", event="COMMENT")
    sha = house.do("GET", f"pulls/{first}")["head"]["sha"]
    house.control("POST", "/actions/runs", repo=str(house.name), sha=sha)
    house.say(second, "on one that begins")
    yard.follow(second)
    # Farther apart than a reading reaches back: a cursor without its events would lose some.
    house.pass_time(400)
    house.say(number, "more")
    house.say(first, "more")
    house.remark(first, "more lines", name="first")


def found(store, name):
    with store.read() as tx:
        rows = tx.execute(select(inbox.c.kind, inbox.c.object_id, inbox.c.payload)).all()
        bodies = sorted((kind, key, json.loads(text).get("body") or "") for kind, key, text in rows)
        return bodies, pulls_moved(tx, name), threads_in_step(tx, name)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [6, pytest.param(1, marks=pytest.mark.soak)])
def test_every_step_can_be_the_last(git_house, house, store, database, tmp_path, stride):
    yard = Yard(house, store, **PLAN)
    first, second = house.pull("first"), house.pull("second")
    yard.follow(first)
    yard.settle()
    busy_day(house, yard, first, second)
    with store.write() as tx:
        tx.constant("SELECT 1")
    for path in database.glob("hostler.db*"):
        shutil.copy(path, tmp_path)
    snapshot = sorted(tmp_path.glob("hostler.db*"))
    yard.wake()
    yard.settle()
    wanted = found(store, house.name)
    assert wanted[1:] == ([], {first, second})
    reached = []
    for step in count(1, stride):
        home = tmp_path / f"home{step}"
        home.mkdir()
        for path in snapshot:
            shutil.copy(path, home)
        at = house.clock.now()
        child = Child(poll_until, home, house.sandbox.url, str(house.name), at, step)
        reached.append(child.hear())
        child.kill()
        with closing(open_store(home, clock=house.clock)) as after:
            Yard(house, after, **PLAN).settle()
            assert found(after, house.name) == wanted, reached[-1]
        if reached[-1] == "reached the end":
            break
    assert len(reached) > 20 // stride
    if stride == 1:
        assert {"read repo_issues", "stored pull", "stored thread"} <= set(reached)
