"""A real server: it starts before anything else, says where it is, and ends; or says why not."""

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
from web_house import memory_home

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
    with memory_home() as home:
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


def test_it_answers_for_the_length_of_a_block(ground):
    with serve_api(ground, HERE) as served:
        assert ask(served).status_code == 200
        assert ask(served, token="wrong").status_code == 401
        assert read_live_url(ground.home) == served.url
        assert served.token.where in served.sentence() and served.url in served.sentence()
        assert served.token.value not in served.sentence()
    assert read_live_url(ground.home) == "" and not (ground.home / NOTE).exists()
    with pytest.raises(httpx.ConnectError):
        ask(served)
    logged = "".join(path.read_text() for path in (ground.home / "logs").iterdir())
    assert "web_listening" in logged and served.token.value not in logged


def test_two_at_one_address_are_refused_before_anything_starts(ground):
    with serve_api(ground, HERE) as served:
        taken = ListenAddress("127.0.0.1", int(served.url.rpartition(":")[2]))
        with (
            pytest.raises(HostlerError, match="cannot listen") as refused,
            serve_api(ground, taken),
        ):
            pass
        assert "--web-listen" in refused.value.remedy and ask(served).status_code == 200


def test_wider_than_this_machine_needs_leave_and_a_token(ground):
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
        assert "Other machines" in served.sentence() and served.wide
        assert ask(served).status_code == 200


def test_a_proxy_before_this_machine_may_have_a_name(ground):
    settings = Settings(web=Web(port=0, allow_remote=True, hosts=["barn.example"]))
    named = replace(ground, settings=lambda: settings)
    with serve_api(named, HERE) as served:
        bearer = {"Authorization": f"Bearer {served.token.value}", "Host": "barn.example"}
        assert httpx.get(f"{served.url}/api/v1/status", headers=bearer).status_code == 200
        stranger = {**bearer, "Host": "evil.example"}
        assert httpx.get(f"{served.url}/api/v1/status", headers=stranger).status_code == 421


def test_silent_connections_are_bounded_and_do_not_last(ground, monkeypatch):
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
                # Refused for want of room, or hung up on after a while: all come to an end.
                with suppress(ConnectionError):
                    assert one.recv(1) == b""
            assert ask(served).status_code == 200


def test_a_head_that_comes_in_drops_does_not_last(ground, monkeypatch):
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
def test_what_is_no_http_is_refused_in_the_one_shape(ground, said):
    with serve_api(ground, HERE) as served:
        port = int(served.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.settimeout(30)
            line.sendall(said)
            head, _, body = b"".join(iter(lambda: line.recv(4096), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"nosniff" in head
    assert json.loads(body)["error"]["kind"] == "not_understood"


def test_most_descriptors_are_left_to_the_service(monkeypatch):
    for soft, most in ((256, 64), (100_000, 256), (2, 1), (-1, 256)):
        monkeypatch.setattr("resource.getrlimit", lambda _, soft=soft: (soft, soft))
        assert connection_limit() == most


@pytest.mark.parametrize("text", ["8473", "x:y", "localhost:99999", ":-1", "a:b:"])
def test_addresses_that_are_none(text):
    with pytest.raises(HostlerError, match="no address"):
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


def test_an_endless_head_is_cut_off(ground):
    with serve_api(ground, HERE) as served:
        with socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2]))) as line:
            line.settimeout(30)
            line.sendall(b"GET / HTTP/1.1\r\nx: ")
            with pytest.raises(OSError):
                for _ in range(100_000):
                    line.sendall(b"x" * 65_536)
        assert ask(served).status_code == 200


@pytest.fixture
def hasty(monkeypatch):
    """Clients that do not read are cut off soon; rings when one was."""
    dropped = threading.Event()

    def stream(source, **_more):
        return EventStream(source, 0.2, dropped=dropped.set)

    monkeypatch.setattr("hostler.web.routes.live.EventStream", stream)
    return dropped


@pytest.fixture
def hung_up(monkeypatch):
    """Rings when a connection is over on our side, whatever was not sent yet."""
    gone, lost = threading.Event(), LimitedHttpProtocol.connection_lost

    def over(self, exc):
        lost(self, exc)
        gone.set()

    monkeypatch.setattr(LimitedHttpProtocol, "connection_lost", over)
    return gone


def test_one_who_never_reads_is_cut_off_and_delays_nobody(ground, hasty, hung_up):
    # More than the kernel keeps for one who does not read.
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
        # Not merely given up: what waits to be sent would keep the connection for ever.
        assert hung_up.wait(30)
        assert ask(served).status_code == 200


# -- the real program --------------------------------------------------------------------------


@pytest.fixture
def town(tmp_path: Path, environment):
    made = Home(tmp_path, environment)
    yield made
    made.clean()


def test_a_service_with_an_api_and_commands_over_it(town):
    service = town.start("service", "--web-listen", "127.0.0.1:0")
    said = town.heard(service, "The API answers")
    assert str(town.home / "web-token") in said
    url, token = town.ok("web", "url").strip(), town.ok("web", "token").strip()
    assert token == (town.home / "web-token").read_text().strip() and token not in said
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}) as client:
        assert client.get("/api/v1/ready").status_code == 200
        asked = {"prompt": "done()", "cwd": str(town.yard)}
        task = client.post("/api/v1/tasks", json=asked).json()["id"]
        with client.stream("GET", "/api/v1/live/tasks", timeout=60) as live:
            assert next(live.iter_lines()).startswith("id: ")
        town.reach(task, "done")
        (run,) = client.get(f"/api/v1/tasks/{task}").json()["runs"]
        assert client.get(f"/api/v1/runs/{run['run']}").json()["outcome"] == "success"
    assert "Left." in town.end(service)
    assert service.returncode == 0 and not (town.home / "web.json").exists()
    answers = town.call("web", "url", "--json")
    assert '"answers": false' in answers.stdout


def test_an_address_in_use_ends_it_before_any_agent_starts(town):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        town.ok("task", "submit", "done()")
        done = town.call("service", "--web-listen", at)
    assert done.returncode == 1 and "cannot listen" in done.stderr
    assert "Traceback" not in done.stderr
    (task,) = town.tasks()
    assert task.attempt == 0
