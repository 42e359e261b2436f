"""When commands use the service, and what a lost response means."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing, contextmanager, suppress

import pytest
from command_backends import open_backend
from hypothesis import example, given
from hypothesis import strategies as st
from web_fixture import TOKEN, temporary_home

from hostler import __version__
from hostler.cli import context
from hostler.clock import SystemClock
from hostler.config.settings import Settings, Web
from hostler.errors import HostlerError
from hostler.service.context import ONE_TASK_PURPOSE, SERVICE_PURPOSE, Presence
from hostler.store.engine.locks import Holder, home_lock
from hostler.store.operator import ALL, all_pauses
from hostler.web import discovery
from hostler.web.auth import AUTH_FILE_NAME, find_token
from hostler.web.client import connection as lines
from hostler.web.client.commands import RemotePauses, RemoteQueue
from hostler.web.client.connection import NotAnswered, NotExecuted, ServiceConnection, parse_answer
from hostler.web.discovery import (
    ServiceAddress,
    build_fingerprint,
    connect_to_service,
    is_local_url,
    is_usable_service,
    read_live_address,
    write_address_file,
)

URL = "http://127.0.0.1:8473"
HERE = "barn"


def working(**more) -> Presence:
    facts = {
        "pid": 7,
        "program": "hostler",
        "host": HERE,
        "since": "",
        "purpose": SERVICE_PURPOSE,
        **more,
    }
    return Presence(Holder(**facts))


# -- whether a service is used ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("note", "who", "asked"),
    [
        (ServiceAddress(URL, 7, "1"), working(), True),
        (ServiceAddress("http://[::1]:80", 7, "1"), working(), True),
        (ServiceAddress(URL, 8, "1"), working(), False),
        (ServiceAddress(URL, 7, "2"), working(), False),
        (ServiceAddress(URL, 7, "1"), working(host="elsewhere"), False),
        (ServiceAddress(URL, 7, "1"), working(purpose=ONE_TASK_PURPOSE), False),
        (ServiceAddress(URL, 7, "1"), Presence(), False),
        (ServiceAddress("http://10.0.0.1:80", 7, "1"), working(), False),
    ],
)
def test_only_a_local_service_of_the_same_home_and_version_is_used(note, who, asked):
    assert is_usable_service(note, who, HERE, "1") is asked


@given(st.text(max_size=40) | st.from_regex(r"https?://[a-z0-9.@:\[\]/]{0,30}", fullmatch=True))
@example("http://127.0.0.1:80@evil.example:80")
@example("http://evil.example#127.0.0.1")
@example("http://localhost:80")
@example("https://127.0.0.1:80")
@example("http://127.0.0.1")
def test_the_token_is_sent_only_to_this_machine(url):
    if is_local_url(url):
        assert url.startswith(("http://127.", "http://[::1]:", "http://[0:"))
        assert "@" not in url


def test_the_address_file_has_its_documented_name():
    assert context.ADDRESS_FILE == discovery.ADDRESS_FILE_NAME


def test_agents_are_recognised_by_their_environment():
    assert context.is_inside_run({"HOSTLER_RUN": "r"}) and context.is_inside_run(
        {"HOSTLER_TASK": "t"}
    )
    assert not context.is_inside_run({"HOSTLER_RUN": "", "HOSTLER_HOME": "/x"})


def test_finding_a_token_creates_none(tmp_path):
    assert find_token(Web(), tmp_path, {}) is None and not [*tmp_path.iterdir()]
    assert find_token(Web(token_env="T"), tmp_path, {}) is None
    found = find_token(Web(token_env="T"), tmp_path, {"T": TOKEN})
    assert found is not None and found.value == TOKEN
    own = tmp_path / AUTH_FILE_NAME
    own.write_text(TOKEN)
    own.chmod(0o644)
    assert find_token(Web(), tmp_path, {}) is None
    own.chmod(0o600)
    assert find_token(Web(), tmp_path, {}) == find_token(Web(token_file=str(own)), tmp_path, {})


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"url": 1}', '{"url": "x", "pid": "y"}'])
def test_an_invalid_address_file_is_ignored(tmp_path, text):
    (tmp_path / discovery.ADDRESS_FILE_NAME).write_text(text)
    assert read_live_address(tmp_path) is None


def test_the_address_file_of_an_exited_process_is_ignored(tmp_path):
    with write_address_file(tmp_path, URL):
        whole = (tmp_path / discovery.ADDRESS_FILE_NAME).read_text()
        assert read_live_address(tmp_path).version == __version__
    (tmp_path / discovery.ADDRESS_FILE_NAME).write_text(
        json.dumps({**json.loads(whole), "pid": 2**22 + 1})
    )
    assert read_live_address(tmp_path) is None


# -- responses --------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "kind", "exit_code", "what"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(
    st.integers(100, 599), st.binary(max_size=30) | JSON.map(lambda one: json.dumps(one).encode())
)
def test_any_response_is_data_or_one_of_three_errors(status, data):
    try:
        found = parse_answer(status, data, "look")
        assert 200 <= status < 300 and found == json.loads(data)
    except NotExecuted:
        fault = json.loads(data)["error"]
        assert status >= 300 or status < 200
        assert fault["kind"] not in (None, "internal_error") and not isinstance(
            fault.get("exit_code"), int
        )
    except NotAnswered as error:
        assert error.exit_code == 76 and error.remedy == "look"
    except HostlerError as error:
        assert error.exit_code == json.loads(data)["error"]["exit_code"]


# -- unexpected servers -----------------------------------------------------------------------


class OddServer:
    """A server that sends the given responses, and disconnects at None and at the end."""

    def __init__(self, *answers: bytes | None) -> None:
        self.heard: list[bytes] = []
        self._answers = answers
        self._at = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._at.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._at, self._at.accept()[0] as connection, connection.makefile("rb") as file:
            for answer in self._answers:
                request = self._request(file)
                if not request:
                    return
                self.heard.append(request)
                if answer is None:
                    return
                connection.sendall(answer)

    def _request(self, file) -> bytes:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            more = file.readline()
            if not more:
                return b""
            head += more
        size = [
            connection.split(b":")[1]
            for connection in head.lower().splitlines()
            if b"th:" in connection[:16]
        ]
        return head + (file.read(int(size[0])) if size else b"")

    def close(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()


def http(status: int, body: bytes, **headers: str) -> bytes:
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


LIKE = http(200, b'{"fingerprint": "ours"}')


@contextmanager
def odd_server(*answers: bytes | None):
    server = OddServer(*answers)
    with closing(server), closing(ServiceConnection(server.url, TOKEN, "bob")) as connection:
        yield server, connection


def test_a_lost_response_is_reported_and_not_retried():
    with odd_server(LIKE, None) as (server, connection):
        assert connection.fetch_fingerprint() == "ours"
        with pytest.raises(NotAnswered, match="connection was lost") as lost:
            RemotePauses(connection).pause(ALL)
    assert lost.value.exit_code == 76 and "may have been executed" in lost.value.safe
    assert "hostler status" in lost.value.remedy
    assert [one.split(b" ")[1] for one in server.heard] == [
        b"/api/v1/fingerprint",
        b"/api/v1/pause",
    ]
    assert TOKEN not in "".join(lost.value.lines())


def test_a_command_may_take_longer_than_the_fingerprint(monkeypatch):
    waits, real = [], socket.socket.settimeout

    def noted(self, seconds):
        waits.append(seconds)
        real(self, seconds)

    monkeypatch.setattr(socket.socket, "settimeout", noted)
    with odd_server(LIKE) as (_, connection):
        assert connection.fetch_fingerprint() == "ours"
    assert waits == [2.0, 90.0]


def test_a_timeout_means_an_unknown_outcome(monkeypatch):
    monkeypatch.setattr(lines, "ANSWER_TIMEOUT_SECONDS", 0.05)
    with odd_server(LIKE, b"", None) as (_, connection):
        connection.fetch_fingerprint()
        with pytest.raises(NotAnswered, match="did not respond"):
            RemotePauses(connection).pause(ALL)
        connection.close()


@pytest.mark.parametrize(
    "answer",
    [
        http(500, b'{"error": {"what": "x", "kind": "internal_error", "exit_code": null}}'),
        http(503, b"Service Unavailable"),
        http(200, b"{"),
        http(200, b'{"id": 1}'),
        b"HTTP/1.1 200 X\r\nContent-Length: 99\r\n\r\n{",
        b"\0\0\0",
    ],
)
def test_an_unexpected_response_means_an_unknown_outcome(answer):
    with odd_server(LIKE, answer) as (_, connection):
        connection.fetch_fingerprint()
        with pytest.raises(NotAnswered):
            RemotePauses(connection).pause(ALL)


def test_a_disconnect_before_the_command_executes_nothing():
    with odd_server(http(200, b'{"fingerprint": "ours"}', Connection="close")) as (
        server,
        connection,
    ):
        assert connection.fetch_fingerprint() == "ours"
        with pytest.raises(NotExecuted):
            RemotePauses(connection).pause(ALL)
    assert len(server.heard) == 1


def test_a_missing_or_silent_service_executes_nothing(monkeypatch):
    monkeypatch.setattr(lines, "FINGERPRINT_TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            closing(ServiceConnection(url, TOKEN, "bob")) as connection,
            pytest.raises(NotExecuted),
        ):
            connection.fetch_fingerprint()
    with closing(ServiceConnection(url, TOKEN, "bob")) as connection, pytest.raises(NotExecuted):
        connection.fetch_fingerprint()


@pytest.mark.parametrize(
    "answer", [http(401, b"{}"), http(200, b"[]"), http(200, b"\xff"), b"?\r\n\r\n"]
)
def test_another_server_at_the_address_is_not_used(answer):
    with odd_server(answer) as (_, connection), suppress(NotExecuted):
        assert connection.fetch_fingerprint() != "ours"


def test_no_proxy_is_used(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with open_backend("service") as backend:
            assert backend.pauses.pause(ALL).changed
        with pytest.raises(BlockingIOError):
            proxy.accept()


def test_a_too_large_request_is_not_sent():
    from hostler.service.tasks.submission import TaskRequest

    with odd_server(LIKE) as (server, connection):
        connection.fetch_fingerprint()
        with pytest.raises(NotExecuted):
            RemoteQueue(connection).submit(TaskRequest("ü" * 600_000, "bob", "/tmp"), [])
        connection.close()
    assert len(server.heard) == 1


# -- finding a service -------------------------------------------------------------------------


@pytest.fixture
def home():
    with temporary_home() as found:
        found.mkdir()
        (found / AUTH_FILE_NAME).write_text(TOKEN)
        (found / AUTH_FILE_NAME).chmod(0o600)
        yield found


SETTINGS = Settings()


def found_line(home, server, settings=SETTINGS, purpose=SERVICE_PURPOSE):
    with home_lock(home, SystemClock(), purpose), write_address_file(home, server.url):
        connection = connect_to_service(home, settings, {}, "bob")
    if connection is not None:
        connection.close()
    return connection is not None


def like(home) -> bytes:
    return http(200, json.dumps({"fingerprint": build_fingerprint(home, SETTINGS)}).encode())


def test_a_service_with_the_same_fingerprint_is_used(home):
    with odd_server(like(home)) as (server, _):
        assert found_line(home, server)
    assert f"Bearer {TOKEN}".encode() in server.heard[0]


def test_a_service_with_other_settings_is_not_used(home):
    with odd_server(like(home)) as (server, _):
        assert not found_line(home, server, Settings(web=Web(port=9)))


def test_an_api_without_a_service_gets_no_token(home):
    with odd_server(like(home)) as (server, connection):
        assert not found_line(home, server, purpose=ONE_TASK_PURPOSE)
        with write_address_file(home, server.url):
            assert connect_to_service(home, SETTINGS, {}, "bob") is None
        assert server.heard == []
        connection.fetch_fingerprint()  # lets it end


def test_a_real_api_with_another_token_is_not_used(home):
    with open_backend("service") as backend:
        assert backend.connection is not None
        with closing(
            ServiceConnection(backend.connection.url, "another-token-0123456789", "bob")
        ) as stranger:
            assert stranger.fetch_fingerprint() == ""
        with backend.api_home.store.read() as tx:
            assert all_pauses(tx) == {}
