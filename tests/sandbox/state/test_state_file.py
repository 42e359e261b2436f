"""Saving and loading: the same world comes back, and a crash keeps the old file."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_sandbox import START, Local

from example_counts import examples
from hostler.errors import SandboxError
from hostler.sandbox.git.repository import RepoStore
from hostler.sandbox.server import running
from hostler.sandbox.state import state_file
from hostler.sandbox.state.seed import Seeder
from hostler.sandbox.state.state_file import dump_state, load_state
from hostler.sandbox.state.world import World
from hostler.sandbox.webhooks import HookDelivery


def busy(local: Local) -> None:
    local.issue("one", labels=("bug",), assignees=("bob",))
    local.comment(1, "hello")
    local.post("/repos/alice/demo/issues/comments/1/reactions", {"content": "eyes"})
    local.patch("/repos/alice/demo/issues/1", {"state": "closed"})
    local.put("/repos/alice/demo/collaborators/bob", {"permission": "push"})
    local.post("/repos/alice/demo/hooks", {"config": {"url": "http://127.0.0.1:9/"}})
    local.patch("/repos/alice/demo", {"name": "other"})
    local.world.settings.change({"visibility_delay": 5})
    local.post("/repos/alice/other/issues", {"title": "still hidden"})
    local.run(local.app.webhook_sender.idle())


def test_a_saved_world_comes_back_equal(local):
    busy(local)
    state = json.loads(json.dumps(dump_state(local.world)))
    other = World()
    load_state(other, state)
    assert json.loads(json.dumps(dump_state(other))) == state
    assert other.truth.everything() == [
        item for item in local.world.truth.everything() if not isinstance(item, HookDelivery)
    ]
    assert other.clock.now() == START


def test_answers_are_the_same_after_loading(local):
    busy(local)
    state = local.get("/_sandbox/state").json()
    local.world.show_all()
    paths = [
        "/repos/alice/other/issues?state=all",
        "/repositories/1/issues/comments",
        "/user/repos",
    ]
    before = [local.get(path).json() for path in paths]
    fresh = Local()
    try:
        assert fresh.put("/_sandbox/state", state).status == 200
        assert [fresh.get(path).json() for path in paths] == before
        assert fresh.get("/repos/alice/demo").status == 301
        made = fresh.post("/repos/alice/other/issues", {"title": "next"}).json()
        assert (made["number"], made["id"]) == (3, 3)
    finally:
        fresh.close()


def test_a_state_on_disk_brings_its_repositories_along(tmp_path):
    path = tmp_path / "state.json"
    seed = {"repos": [{"name": "alice/demo", "issues": [{"title": "x"}]}]}
    with running(seed, git=True) as sandbox:
        sandbox.wait(state_file.save_to_file(sandbox.app.world, path))
        sandbox.wait(state_file.save_to_file(sandbox.app.world, path))
        head = sandbox.app.world.repo_store.get(1).path.joinpath("refs/heads/main").read_text()
    assert len(list(tmp_path.iterdir())) == 2
    assert path.stat().st_mode & 0o077 == 0
    world = World()
    world.repo_store = RepoStore.temporary()
    try:
        asyncio.run(state_file.load_from_file(world, path))
        assert world.repo_store.get(1).path.joinpath("refs/heads/main").read_text() == head
        assert world.repo("alice/demo") is not None
    finally:
        world.repo_store.close()


KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from hostler.sandbox.state import state_file
real = os.fsync
def fsync(descriptor):
    real(descriptor)
    os.kill(os.getpid(), signal.SIGKILL)
os.fsync = fsync
state_file.write_atomically(Path(sys.argv[1]), b"new")
"""


def test_kill_9_during_a_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    child = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, str(path)], check=False)
    assert child.returncode == -9
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"product": "hostler-sandbox", "format": 99}',
        b'{"product": "hostler-sandbox", "format": 1}',
        b'{"product": "hostler-sandbox", "format": 2}',
    ],
)
def test_garbage_is_refused_with_a_sentence(tmp_path, content):
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(SandboxError) as caught:
        asyncio.run(state_file.load_from_file(World(), path))
    assert caught.value.remedy
    assert path.read_bytes() == content


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(
    max_examples=examples(30, 100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(data=st.data())
def test_a_damaged_state_is_refused_and_changes_nothing(data):
    local = Local()
    try:
        local.issue(labels=("bug",))
        state = dump_state(local.world)
        before = dump_state(local.world)
        target, junk = state, data.draw(JSON)
        for _ in range(data.draw(st.integers(0, 4))):
            keys = list(target) if isinstance(target, dict) else list(range(len(target)))
            key = data.draw(st.sampled_from(keys)) if keys else None
            if key is None or not isinstance(target[key], dict | list) or not target[key]:
                break
            target = target[key]
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        target[data.draw(st.sampled_from(keys))] = junk
        try:
            load_state(local.world, state)
        except SandboxError:
            assert dump_state(local.world) == before
    finally:
        local.close()


def test_a_missing_git_folder_is_told(tmp_path):
    path = tmp_path / "state.json"
    world = World()
    world.repo_store = RepoStore.temporary()
    try:
        asyncio.run(state_file.save_to_file(world, path))
        for folder in tmp_path.glob("state.json.git-*"):
            folder.rename(tmp_path / "elsewhere")
        with pytest.raises(SandboxError, match="repositories of this state are missing"):
            asyncio.run(state_file.load_from_file(world, path))
    finally:
        world.repo_store.close()


def save_empty(path) -> None:
    world = World()
    world.repo_store = RepoStore.temporary()
    try:
        asyncio.run(state_file.save_to_file(world, path))
    finally:
        world.repo_store.close()


@pytest.mark.parametrize("name", ["a.json", "a[bc].json", "*.json"])
def test_a_save_removes_its_own_older_repositories_and_nothing_else(tmp_path, name):
    others = ["ab.json.git-keepme", "a.json.git-mybackup", "ab.json.git-12345678", ".x.part"]
    for other in others:
        (tmp_path / other).mkdir()
    path = tmp_path / name
    (tmp_path / f"{name}.git-0123abcd").mkdir()
    (tmp_path / f".{name}.git-0123abcd.part").mkdir()
    (tmp_path / f".{name}.77.part").touch()
    save_empty(path)
    kept = {entry.name for entry in tmp_path.iterdir()}
    assert kept == {*others, name, json.loads(path.read_bytes())["git"]}


def test_a_state_behind_a_link_stays_behind_it(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "state.json"
    link.symlink_to(tmp_path / "real" / "kept.json")
    save_empty(link)
    assert link.is_symlink()
    assert json.loads(link.read_bytes())["git"].startswith("kept.json.git-")
    assert (tmp_path / "real" / json.loads(link.read_bytes())["git"]).is_dir()


def test_repositories_are_on_the_disk_before_the_file_that_names_them(tmp_path, monkeypatch):
    flushed = []
    real = os.fsync
    monkeypatch.setattr(
        os,
        "fsync",
        lambda fd: (flushed.append(str(Path(f"/proc/self/fd/{fd}").readlink())), real(fd)),
    )
    with running({"repos": [{"name": "alice/demo"}]}, git=True) as sandbox:
        sandbox.wait(state_file.save_to_file(sandbox.app.world, tmp_path / "s.json"))
    head = next(i for i, name in enumerate(flushed) if name.endswith("/1.git/HEAD"))
    part = next(i for i, name in enumerate(flushed) if name.endswith(".part"))
    assert head < part
    assert flushed[-1] == str(tmp_path)


KILLED_WITH_A_VAULT = """
import os, signal
from hostler.sandbox.git.repository import RepoStore
print(RepoStore.temporary().root, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_repositories_of_a_killed_sandbox_are_swept_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    done = subprocess.run(
        [sys.executable, "-c", KILLED_WITH_A_VAULT], capture_output=True, text=True, check=False
    )
    left = Path(done.stdout.strip())
    assert left.is_dir()
    alive = RepoStore.temporary()
    assert not left.exists()
    other = RepoStore.temporary()
    assert alive.root.is_dir()
    alive.close()
    other.close()
    assert list(tmp_path.iterdir()) == []


def test_a_clock_that_runs_goes_on_while_the_sandbox_is_away(monkeypatch):
    now = 2_000_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    world = World()
    world.clock.advance(100)
    state = dump_state(world)
    now += 5_000
    other = World()
    load_state(other, state)
    assert other.clock.now() == now + 100
    other.clock.freeze()
    state = dump_state(other)
    now += 5_000
    load_state(world, state)
    assert (world.clock.frozen, world.clock.now()) == (True, now - 5_000 + 100)


def test_lost_counters_give_no_number_a_second_time(local):
    for title in ("one", "two", "three"):
        local.issue(title)
    local.comment(1)
    local.post("/_sandbox/issues/delete", {"repo": "alice/demo", "number": 3})
    for counters in ({}, {"id:issue": -9, "number:1": -1}):
        state = dump_state(local.world) | {"counters": counters}
        assert local.put("/_sandbox/state", state).status == 200
        made = local.post("/repos/alice/demo/issues", {"title": "next"}).json()
        assert made["number"] >= 4
        assert local.get("/repos/alice/demo/issues/1").json()["title"] == "one"
        assert local.comment(1, "new").json()["id"] > 1
        assert local.get("/repos/alice/demo/issues/comments/1").json()["body"] == "hello"


def test_what_hangs_on_nothing_is_left_out(local):
    local.issue("one", labels=("bug",))
    local.comment(1)
    state = json.loads(json.dumps(dump_state(local.world)))
    entities = state["entities"]
    entities["issue"][0]["labels"].append(77)
    entities["issue"].append({**entities["issue"][0], "id": 50, "repo_id": 99})
    entities["label"].append({**entities["label"][0], "id": 50, "repo_id": 99})
    for number, issue in ((50, 99), (51, 50)):
        entities["comment"].append({**entities["comment"][0], "id": number, "issue_id": issue})
    assert local.put("/_sandbox/state", state).status == 200
    kept = dump_state(local.world)["entities"]
    assert [len(kept[kind]) for kind in ("issue", "comment", "label")] == [1, 1, 1]
    assert kept["issue"][0]["labels"] == (1,)


@pytest.mark.parametrize("change", [{"id": 2}, {"number": 2}])
def test_two_under_one_name_are_refused_with_a_sentence(local, change):
    local.issue("one")
    state = json.loads(json.dumps(dump_state(local.world)))
    issue = state["entities"]["issue"][0]
    state["entities"]["issue"].append(issue | change)
    answer = local.put("/_sandbox/state", state)
    assert answer.status == 400
    assert "entities.issue: two have the" in answer.json()["message"]


def test_a_large_state_can_be_put_back():
    with running({"repos": [{"name": "alice/demo"}]}) as sandbox:
        demo = sandbox.do(lambda world: world.repo("alice/demo"))
        body = "x" * 60_000

        def fill(world: World) -> None:
            for number in range(160):
                Seeder(world).issue(demo, f"large {number}", "alice", body=body)

        sandbox.do(fill)
        state = sandbox.control.get("/state").content
        assert len(state) > 9_000_000
        assert sandbox.control.put("/state", content=state).status_code == 200
