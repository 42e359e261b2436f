"""A real server: start, address file, limits, shutdown, and errors at start."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from intake_yard import migrated
from task_program import Home
from web_fixture import temporary_home

from hostler.bus.bus import Bus
from hostler.bus.message import MessageSender, MessageType
from hostler.clock import SystemClock
from hostler.config.settings import Settings, Web
from hostler.errors import HostlerError
from hostler.store import open_store
from hostler.telemetry.logs import LogDestinations
from hostler.web.auth import NoToken
from hostler.web.discovery import ADDRESS_FILE_NAME as NOTE
from hostler.web.discovery import read_live_url
from hostler.web.live.streams import EventStream
from hostler.web.server import (
    ApiDeps,
    LimitedHttpProtocol,
    ListenAddress,
    build_local_url,
    choose_address,
    connection_limit,
    is_loopback,
    open_listener,
    serve_api,
)


@pytest.fixture
def ground():
    with temporary_home() as home:
        home.mkdir()
        (home / "hostler.db").write_bytes(migrated())
        store = open_store(home)
        logging = LogDestinations(SystemClock(), home / "logs")
        settings = Settings(web=Web(port=0))
        yield ApiDeps(home, store, SystemClock(), lambda: settings, "ann", logging.log, {})
        logging.close()
        store.close()


def ask(served, path="/api/v1/status", token=None):
    bearer = {"Authorization": f"Bearer {token or served.token.value}"}
    return httpx.get(f"{served.url}{path}", headers=bearer)


HERE = ListenAddress("127.0.0.1", 0)


def test_the_api_serves_during_the_block(ground):
    with serve_api(ground, HERE) as served:
        assert ask(served).status_code == 200
        assert ask(served, token="wrong").status_code == 401
        assert read_live_url(ground.home) == served.url
        assert f"Dashboard: {served.url} (token: hostler web token)" == served.describe()
        assert served.token.value not in served.describe()
    assert read_live_url(ground.home) == "" and not (ground.home / NOTE).exists()
    with pytest.raises(httpx.ConnectError):
        ask(served)
    logged = "".join(path.read_text() for path in (ground.home / "logs").iterdir())
    assert "web_listening" in logged and served.token.value not in logged


def test_an_address_in_use_is_refused_before_anything_starts(ground):
    with serve_api(ground, HERE) as served:
        taken = ListenAddress("127.0.0.1", int(served.url.rpartition(":")[2]))
        with (
            pytest.raises(HostlerError, match="cannot listen") as refused,
            serve_api(ground, taken),
        ):
            pass
        assert "--web-listen" in refused.value.remedy and ask(served).status_code == 200


def test_remote_access_needs_a_setting_and_a_token(ground):
    with pytest.raises(HostlerError, match="Other machines") as refused:
        choose_address(Web(), "0.0.0.0:8473")
    assert "allow_remote" in refused.value.remedy
    wide = choose_address(Web(allow_remote=True), "0.0.0.0:0")
    with pytest.raises(NoToken), serve_api(ground, wide):
        pass
    settings = Settings(web=Web(allow_remote=True, token_env="T"))
    environment = {"T": "a-token-of-their-own"}
    remote = ApiDeps(
        ground.home, ground.store, ground.clock, lambda: settings, "ann", ground.log, environment
    )
    with serve_api(remote, wide) as served:
        assert "Other machines" in served.describe() and served.is_remote
        assert ask(served).status_code == 200


def test_a_proxy_may_forward_another_host_name(ground):
    settings = Settings(web=Web(port=0, allow_remote=True, hosts=["barn.example"]))
    named = replace(ground, settings=lambda: settings)
    with serve_api(named, HERE) as served:
        bearer = {"Authorization": f"Bearer {served.token.value}", "Host": "barn.example"}
        assert httpx.get(f"{served.url}/api/v1/status", headers=bearer).status_code == 200
        stranger = {**bearer, "Host": "evil.example"}
        assert httpx.get(f"{served.url}/api/v1/status", headers=stranger).status_code == 421


def test_idle_connections_are_limited_and_time_out(ground, monkeypatch):
    monkeypatch.setattr("hostler.web.server.MAX_CONNECTIONS", 8)
    monkeypatch.setattr("hostler.web.server.HEAD_TIMEOUT_SECONDS", 0.2)
    with serve_api(ground, HERE) as served:
        port = int(served.url.rpartition(":")[2])
        with ExitStack() as stack:
            silent = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                for _ in range(40)
            ]
            for one in silent:
                one.settimeout(30)
                # Refused above the limit, or disconnected after a timeout: all end.
                with suppress(ConnectionError):
                    assert one.recv(1) == b""
            assert ask(served).status_code == 200


def test_a_slow_request_head_times_out(ground, monkeypatch):
    monkeypatch.setattr("hostler.web.server.HEAD_TIMEOUT_SECONDS", 0.2)
    with serve_api(ground, HERE) as served:
        port = int(served.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.settimeout(30)
            slow.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n")
            with suppress(ConnectionError):
                assert slow.recv(1) == b""


@pytest.mark.parametrize(
    "said",
    [b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n"],
)
def test_invalid_http_gets_the_usual_error_body(ground, said):
    with serve_api(ground, HERE) as served:
        port = int(served.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.settimeout(30)
            connection.sendall(said)
            head, _, body = b"".join(iter(lambda: connection.recv(4096), b"")).partition(
                b"\r\n\r\n"
            )
    assert head.startswith(b"HTTP/1.1 400 ") and b"nosniff" in head
    assert json.loads(body)["error"]["kind"] == "bad_request"


def test_the_connection_limit_leaves_most_descriptors_to_the_service(monkeypatch):
    for soft, most in ((256, 64), (100_000, 256), (2, 1), (-1, 256)):
        monkeypatch.setattr("resource.getrlimit", lambda _, soft=soft: (soft, soft))
        assert connection_limit() == most


@pytest.mark.parametrize("text", ["8473", "x:y", "localhost:99999", ":-1", "a:b:"])
def test_invalid_addresses_are_refused(text):
    with pytest.raises(HostlerError, match="Invalid address"):
        choose_address(Web(), text)


def test_addresses():
    assert choose_address(Web(), "[::1]:5") == ListenAddress("::1", 5)
    assert choose_address(Web(), ":5") == ListenAddress("127.0.0.1", 5)
    assert choose_address(Web(port=9), "") == ListenAddress("127.0.0.1", 9)
    assert [is_loopback(host) for host in ("localhost", "::1", "0.0.0.0", "x.example")] == [
        True,
        True,
        False,
        False,
    ]
    with pytest.raises(HostlerError, match="cannot listen"):
        open_listener("no-such-host.invalid", 0)
    with open_listener("127.0.0.1", 0) as at:
        assert build_local_url(at).startswith("http://127.0.0.1:")


def test_an_endless_request_head_is_aborted(ground):
    with serve_api(ground, HERE) as served:
        with socket.create_connection(
            ("127.0.0.1", int(served.url.rpartition(":")[2]))
        ) as connection:
            connection.settimeout(30)
            connection.sendall(b"GET / HTTP/1.1\r\nx: ")
            with pytest.raises(OSError):
                for _ in range(100_000):
                    connection.sendall(b"x" * 65_536)
        assert ask(served).status_code == 200


@pytest.fixture
def hasty(monkeypatch):
    """Disconnect clients that do not read after a short time; the event is set when one was."""
    dropped = threading.Event()

    def stream(source, **_more):
        return EventStream(source, 0.2, on_dropped=dropped.set)

    monkeypatch.setattr("hostler.web.routes.live.EventStream", stream)
    return dropped


@pytest.fixture
def was_disconnected(monkeypatch):
    """An event that is set when the server has closed a connection."""
    gone, lost = threading.Event(), LimitedHttpProtocol.connection_lost

    def over(self, exc):
        lost(self, exc)
        gone.set()

    monkeypatch.setattr(LimitedHttpProtocol, "connection_lost", over)
    return gone


def test_a_client_that_never_reads_is_disconnected_and_delays_no_others(
    ground, hasty, was_disconnected
):
    # More than the kernel buffers for a client that does not read.
    bus = Bus(ground.home / "projects" / "barn" / "bus.jsonl").create()
    for _ in range(200):
        bus.post(MessageType.USER, "x" * 50_000, MessageSender.person("ann"))
    with serve_api(ground, HERE) as served, socket.socket() as never:
        never.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        port = int(served.url.rpartition(":")[2])
        never.connect(("127.0.0.1", port))
        head = f"GET /api/v1/live/projects/barn/bus HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        never.sendall(f"{head}Authorization: Bearer {served.token.value}\r\n\r\n".encode())
        assert hasty.wait(30)
        # The connection must be closed, or unsent data would keep it open.
        assert was_disconnected.wait(30)
        assert ask(served).status_code == 200


# -- the real program --------------------------------------------------------------------------


@pytest.fixture
def home_fixture(tmp_path: Path, environment):
    made = Home(tmp_path, environment)
    yield made
    made.clean()


def test_a_service_with_an_api_and_commands_over_it(home_fixture):
    service = home_fixture.start("service", "--web-listen", "127.0.0.1:0")
    said = home_fixture.heard(service, "Dashboard: ")
    assert "hostler web token" in said
    url, token = home_fixture.ok("web", "url").strip(), home_fixture.ok("web", "token").strip()
    assert token == (home_fixture.home / "web-token").read_text().strip() and token not in said
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}) as client:
        assert client.get("/api/v1/ready").status_code == 200
        asked = {"prompt": "done()", "cwd": str(home_fixture.yard)}
        task = client.post("/api/v1/tasks", json=asked).json()["id"]
        with client.stream("GET", "/api/v1/live/tasks", timeout=60) as live:
            assert next(live.iter_lines()).startswith("id: ")
        home_fixture.reach(task, "done")
        (run,) = client.get(f"/api/v1/tasks/{task}").json()["runs"]
        assert client.get(f"/api/v1/runs/{run['run']}").json()["outcome"] == "success"
    assert "Stopped." in home_fixture.end(service)
    assert service.returncode == 0 and not (home_fixture.home / "web.json").exists()
    answers = home_fixture.call("web", "url", "--json")
    assert '"answers": false' in answers.stdout


def test_an_address_in_use_ends_it_before_any_agent_starts(home_fixture):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        home_fixture.ok("task", "submit", "done()")
        done = home_fixture.call("service", "--web-listen", at)
    assert done.returncode == 1 and "cannot listen" in done.stderr
    assert "Traceback" not in done.stderr
    (task,) = home_fixture.tasks()
    assert task.attempt == 0
