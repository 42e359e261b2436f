"""`hostler sandbox` as a program: what it prints, saves, and says when it cannot start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from hostler_program import HOSTLER, run_hostler

PATIENCE = 60


@contextmanager
def program(*options: str) -> Iterator[tuple[subprocess.Popen, dict]]:
    child = subprocess.Popen(
        [HOSTLER, "sandbox", "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        text = ""
        while not text.endswith("}\n") or text.count("{") != text.count("}"):
            line = child.stdout.readline()
            assert line, child.stderr.read()
            text += line
        yield child, json.loads(text)
    finally:
        leave(child)


def leave(child: subprocess.Popen) -> None:
    """End it the way that lets it tidy up."""
    child.terminate()
    try:
        child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()


def stop(child: subprocess.Popen, number: int = signal.SIGINT) -> int:
    child.send_signal(number)
    return child.wait(PATIENCE)


def refused(*options: str) -> str:
    done = run_hostler(["sandbox", *options], cwd=Path.cwd(), env=os.environ)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def issues(told: dict) -> str:
    return f"{told['url']}/repos/alice/demo/issues"


def bearer(told: dict) -> dict[str, str]:
    return {"Authorization": f"Bearer {told['tokens']['alice']}"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_was_written_is_there_again_after_a_restart(tmp_path, number):
    state = tmp_path / "state.json"
    with program("--state", str(state)) as (child, told):
        assert told["url"].startswith("http://127.0.0.1:")
        made = httpx.post(issues(told), json={"title": "kept"}, headers=bearer(told))
        assert made.status_code == 201
        assert stop(child, number) == 0
    with program("--state", str(state)) as (child, told):
        found = httpx.get(issues(told), headers=bearer(told)).json()
        assert [issue["title"] for issue in found] == ["kept", "Say hello in the README"]
        clone = (
            told["url"].replace("://", f"://alice:{told['tokens']['alice']}@") + "/alice/demo.git"
        )
        subprocess.run(["git", "clone", "-q", clone, str(tmp_path / "copy")], check=True)
        assert (tmp_path / "copy" / "README.md").exists()
        assert stop(child) == 0


def test_a_seed_file_fills_the_sandbox(tmp_path):
    seed = tmp_path / "seed.json"
    seed.write_text(json.dumps({"users": [{"login": "zoe"}], "repos": [{"name": "zoe/app"}]}))
    with program("--seed", str(seed)) as (_, told):
        assert list(told["tokens"]) == ["zoe"]
        assert told["repos"] == ["zoe/app"]


def test_people_are_told_how_to_begin():
    child = subprocess.Popen(
        [HOSTLER, "sandbox"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        lines = []
        while not lines or "curl" not in lines[-1]:
            line = child.stdout.readline()
            assert line, child.stderr.read()
            lines.append(line)
        text = "".join(lines)
        assert "alice" in text
        assert "git clone http://alice:ghp_" in text
    finally:
        leave(child)


def test_a_port_in_use_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = refused("--port", str(taken.getsockname()[1]))
    assert "cannot listen" in said
    assert "--port" in said


@pytest.mark.parametrize("option", ["--seed", "--state"])
@pytest.mark.parametrize("content", ["garbage", "[]", '{"users": 7}'])
def test_garbage_files_are_told_and_left_alone(tmp_path, option, content):
    path = tmp_path / "file.json"
    path.write_text(content)
    assert "error:" in refused(option, str(path))
    assert path.read_text() == content


def test_absent_files_are_told(tmp_path):
    assert "no seed file" in refused("--seed", str(tmp_path / "none.json"))
    assert "no folder" in refused("--state", str(tmp_path / "none" / "state.json"))


def test_a_place_that_cannot_be_written_is_told_at_the_start():
    said = refused("--state", "/proc/state.json")
    assert "could not be saved" in said
    assert "--state" in said


def test_two_sandboxes_do_not_share_a_state(tmp_path):
    state = tmp_path / "state.json"
    (tmp_path / "link.json").symlink_to(state)
    with program("--state", str(state)) as (child, _):
        assert "Another sandbox" in refused("--state", str(state))
        assert "Another sandbox" in refused("--state", str(tmp_path / "link.json"))
        assert stop(child) == 0
    with program("--state", str(tmp_path / "link.json")) as (child, _):
        assert stop(child) == 0
    assert (tmp_path / "link.json").is_symlink()
