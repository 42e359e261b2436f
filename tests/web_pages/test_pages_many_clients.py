"""Many live clients during many tasks, and one that never reads."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from task_program import Home

from hostler.bus.bus import Bus
from hostler.bus.message import MessageSender, MessageType

LISTENERS = 19
TIMEOUT_MS = 120.0
# An agent that prints a line and finishes.
SETTINGS = """
[runtime]
worker_count = 8
memory_floor_mb = 0

[agent.helper]
kind = "command"
command = ["sh", "-c", 'echo working; : > "$HOSTLER_DONE"']
"""


@pytest.fixture
def home_fixture(tmp_path: Path, environment: dict[str, str]) -> Iterator[Home]:
    made = Home(tmp_path, environment)
    (made.home / "hostler.toml").write_text(SETTINGS)
    yield made
    made.clean()


class Listener(threading.Thread):
    """Follows tasks until the wanted number of them is done."""

    def __init__(self, client: httpx.Client, wanted: int) -> None:
        super().__init__(daemon=True)
        self._client, self._wanted = client, wanted
        self.ready = threading.Event()
        self.done: list[str] = []
        self.ids: list[str] = []
        self.start()

    def run(self) -> None:
        with self._client.stream("GET", "/live/tasks") as answer:
            name = ""
            for line in answer.iter_lines():
                key, _, value = line.partition(": ")
                if key == "event":
                    name = value
                    self.ready.set()
                elif key == "id":
                    self.ids.append(value)
                elif key == "data" and name == "task" and json.loads(value)["state"] == "done":
                    self.done.append(json.loads(value)["id"])
                if len(self.done) >= self._wanted:
                    return


def fill_bus(home: Path) -> None:
    """Fill a bus with more than the kernel buffers for a client that does not read."""
    bus = Bus(home / "projects" / "yard" / "bus.jsonl").create()
    for _ in range(200):
        bus.post(MessageType.USER, "x" * 50_000, MessageSender.person("ann"))


def open_unread_stream(url: str, token: str) -> socket.socket:
    """Open a stream of the bus and read nothing."""
    host, port = url.removeprefix("http://").split(":")
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    line.connect((host, int(port)))
    head = f"GET /api/v1/live/projects/yard/bus HTTP/1.1\r\nHost: {host}:{port}\r\n"
    line.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
    return line


def log_in(browser: Browser, url: str, token: str, screen: str) -> Page:
    page = browser.new_context().new_page()
    page.goto(f"{url}/#/{screen}")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator(".connection")).to_have_text("live")
    return page


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("tasks", [15, pytest.param(500, marks=pytest.mark.soak)])
def test_two_browsers_and_twenty_clients_stay_live_while_tasks_run(
    tasks: int, home_fixture: Home, browser: Browser
) -> None:
    fill_bus(home_fixture.home)
    service = home_fixture.start("service", "--web-listen", "127.0.0.1:0")
    said = home_fixture.heard(service, "Dashboard: ")
    url = said.rpartition("Dashboard: ")[2].partition(" ")[0]
    token = home_fixture.ok("web", "token").strip()
    pages = [log_in(browser, url, token, screen) for screen in ("overview", "work")]
    with (
        open_unread_stream(url, token),
        httpx.Client(
            base_url=f"{url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT_MS,
        ) as client,
    ):
        # One client for all listeners, so that TLS is set up once; each has its own connection.
        listeners = [Listener(client, tasks) for _ in range(LISTENERS)]
        assert all(one.ready.wait(TIMEOUT_MS) for one in listeners)
        requests = {"prompt": "work", "cwd": str(home_fixture.yard)}
        made = [
            client.post("/tasks", json=requests).raise_for_status().json()["id"]
            for _ in range(tasks)
        ]
        for one in listeners:
            one.join(TIMEOUT_MS)
            # Every event once.
            assert sorted(one.done) == sorted(made)
            assert len(set(one.ids)) == len(one.ids)
        assert client.get("/status").json()["tasks"] == {"done": tasks}
        requests = {"event": "live_client_dropped"}
        (cut,) = home_fixture.until(lambda: client.get("/events", params=requests).json()["events"])
        assert cut["path"] == "/api/v1/live/projects/yard/bus"
    stable, work = pages
    expect(stable.get_by_text("The queue is empty.")).to_be_visible()
    expect(stable.get_by_text("No agent is running.")).to_be_visible()
    over = work.get_by_role("region", name="Done", exact=True)
    expect(over.locator(".count")).to_have_text(str(tasks))
    for page in pages:
        expect(page.locator(".connection")).to_have_text("live")
        page.context.close()
    assert "Stopped." in home_fixture.end(service)
