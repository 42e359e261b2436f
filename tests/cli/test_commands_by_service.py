"""Commands beside a real service go through its API; without it, or in doubt, to the database."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from task_program import Home

from hostler.clock import SystemClock
from hostler.config.loader import load_settings
from hostler.service.context import SERVICE_PURPOSE
from hostler.store import open_store
from hostler.store.engine.locks import home_lock
from hostler.store.operator import all_pauses
from hostler.web.auth import AUTH_FILE_NAME
from hostler.web.discovery import build_fingerprint, write_address_file

ASK = "hostler('ask', 'Which colour?')"
HOLD = "tell('at-work'); hold('gate')"
TOKEN = "a-token-of-the-tests-0123456789"


@pytest.fixture
def stead(tmp_path: Path, environment: dict[str, str]) -> Iterator[Home]:
    made = Home(tmp_path, environment)
    yield made
    made.clean()


class Counter:
    """How many changes came over the API of a service with its token."""

    def __init__(self, home: Path) -> None:
        note = json.loads((home / "web.json").read_text())
        bearer = {"Authorization": f"Bearer {(home / AUTH_FILE_NAME).read_text().strip()}"}
        self._http = httpx.Client(base_url=note["url"], headers=bearer, trust_env=False)
        self._before = self._all()

    def _all(self) -> int:
        found = re.findall(
            r'^\w*api_changes_total\{auth="token",status="\d+"\} ([\d.]+)$',
            self._http.get("/metrics").text,
            re.MULTILINE,
        )
        return sum(int(float(one)) for one in found)

    def new(self) -> int:
        """How many since the last look."""
        now = self._all()
        since, self._before = now - self._before, now
        return since


def paused(home: Path) -> dict[str, str]:
    store = open_store(home)
    try:
        with store.read() as tx:
            return {scope: one.by for scope, one in all_pauses(tx).items()}
    finally:
        store.close()


def test_commands_go_through_the_api_of_a_service_and_on_without_it(stead):
    service = stead.start("service", "--web-listen", "127.0.0.1:0")
    stead.heard(service, "Dashboard: ")
    count, me = Counter(stead.home), getpass.getuser()

    stead.pipe("gate")
    task = stead.submit(HOLD)
    stead.told("at-work")
    assert stead.task(task).author == me and count.new() == 1

    # A proxy that nobody listens at is not asked.
    (stopped,) = stead.json("task", "stop", task[:-2], "--why", "enough", http_proxy="http://x:1")
    assert stopped == {
        "id": task,
        "project": "yard",
        "reason": f"Stopped by {me}: enough",
        "state": "stopped",
    }
    assert stead.task(task).reason == stopped["reason"] and count.new() == 1

    asks = stead.submit(ASK)
    stead.reach(asks, "needs_input")
    told = stead.json("task", "answer", asks, "Red")
    assert (told["id"], told["state"]) == (asks, "queued") and count.new() == 2

    posted = stead.json("bus", "post", "--task", task, "Hello")
    assert posted["body"] == "Hello" and count.new() == 1
    assert stead.json("governor", "set", "--max-global", "3")["max_global_agents"] == 3
    assert count.new() == 1

    held = stead.json("pause", "--why", "lunch")
    assert (held["changed"], held["by"], held["why"]) == (True, me, "lunch") and count.new() == 1
    assert paused(stead.home) == {"all": me}

    # A refusal is the same error.
    refused = stead.call("task", "retry", "nobody")
    assert refused.returncode == 2 and "There is no task 'nobody'." in refused.stderr
    assert count.new() == 1

    # Not with other settings, and not by an agent: then the database, with the same words.
    other = stead.root / "other.toml"
    other.write_text((stead.home / "hostler.toml").read_text() + "\n[web]\nport = 9\n")
    assert stead.json("--config", other, "pause")["changed"] is False
    said = stead.call("pause", "--json", HOSTLER_RUN="r", HOSTLER_TASK="t")
    assert json.loads(said.stdout)["by"] == me
    assert stead.call("task", "retry", "nobody", HOSTLER_TASK="t").stderr == refused.stderr

    # Nor with a token that is not the service's.
    kept = (stead.home / AUTH_FILE_NAME).read_text()
    (stead.home / AUTH_FILE_NAME).write_text(TOKEN)
    assert stead.json("unpause") == {"changed": True, "still_paused": []}
    (stead.home / AUTH_FILE_NAME).write_text(kept)
    assert count.new() == 0

    # What a killed service left behind leads nobody astray.
    stead.kill(service)
    assert (stead.home / "web.json").exists()
    assert stead.json("pause")["changed"] is True and paused(stead.home) == {"all": me}


@contextmanager
def liar(home: Path) -> Iterator[list[bytes]]:
    """A service by all signs, which takes a command and hangs up; what it heard."""
    (home / AUTH_FILE_NAME).write_text(TOKEN)
    (home / AUTH_FILE_NAME).chmod(0o600)
    said = json.dumps(
        {"fingerprint": build_fingerprint(home, load_settings(home, None).settings)}
    ).encode()
    heard: list[bytes] = []
    at = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with at, at.accept()[0] as line:
            heard.append(line.recv(65_536))
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(said)}\r\n\r\n"
            line.sendall(head.encode() + said)
            heard.append(b"")
            while not heard[1].endswith(b"}"):
                heard[1] += line.recv(65_536)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{at.getsockname()[1]}"
    with home_lock(home, SystemClock(), SERVICE_PURPOSE), write_address_file(home, url):
        yield heard
    thread.join(30)
    assert not thread.is_alive()


def test_what_was_sent_and_not_answered_is_told_and_never_done_again(stead):
    stead.ok("pause")  # makes the database
    with liar(stead.home) as heard:
        lost = stead.call("task", "submit", "done()")
    assert lost.returncode == 76 and lost.stdout == ""
    assert "may have been executed" in lost.stderr and "hostler task list" in lost.stderr
    assert heard[1].startswith(b"POST /api/v1/tasks ") and b"done()" in heard[1]
    assert stead.tasks() == [] and "Traceback" not in lost.stderr and TOKEN not in lost.stderr


def test_another_version_is_not_asked(stead, monkeypatch):
    stead.ok("pause")  # makes the database
    monkeypatch.setattr("hostler.web.discovery.__version__", "0.0.1")
    with (
        socket.create_server(("127.0.0.1", 0)) as at,
        home_lock(stead.home, SystemClock(), SERVICE_PURPOSE),
    ):
        at.setblocking(False)
        with write_address_file(stead.home, f"http://127.0.0.1:{at.getsockname()[1]}"):
            assert json.loads((stead.home / "web.json").read_text())["pid"] == os.getpid()
            assert stead.json("unpause")["changed"] is True
        with pytest.raises(BlockingIOError):
            at.accept()
