"""The socket: on this machine only, and without delay."""

from __future__ import annotations

import contextlib
import socket

import httpx
import pytest

from hostler.sandbox.auth import token_for
from hostler.sandbox.http.server import HttpProtocol, listen_on


def test_the_sandbox_listens_on_this_machine_only():
    with listen_on(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_the_socket_is_named_as_tcp_so_that_small_answers_are_not_held_back():
    with listen_on(0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_no_answer_waits_for_an_acknowledgement(sandbox, monkeypatch):
    """The end of a large answer would wait 40 ms for it."""
    options = []
    real = HttpProtocol.connection_made

    def connection_made(self, transport):
        connection = transport.get_extra_info("socket")
        options.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        real(self, transport)

    monkeypatch.setattr(HttpProtocol, "connection_made", connection_made)
    with sandbox.client("alice") as alice:
        assert alice.get("/repos/alice/demo/issues/1").is_success
    assert options == [1]


def test_both_roots_serve_the_api(sandbox):
    for root in ("", "/api/v3"):
        found = httpx.get(f"{sandbox.url}{root}/repos/alice/demo").json()
        assert found["url"] == f"{sandbox.url}{root}/repos/alice/demo"
        assert found["clone_url"] == f"{sandbox.url}/alice/demo.git"
    assert httpx.get(f"{sandbox.url}/api/v3").json()["current_user_url"].endswith("/api/v3/user")


def test_urls_follow_the_name_by_which_we_are_called(sandbox):
    other = sandbox.url.replace("127.0.0.1", "localhost")
    found = httpx.get(f"{sandbox.url}/repos/alice/demo", headers={"Host": other[7:]}).json()
    assert found["url"].startswith(other)


@pytest.mark.parametrize("path", ["/zen", "/alice/demo.git/info/refs", "/_sandbox/clock"])
def test_only_the_names_of_this_machine_are_answered_to(sandbox, path):
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost:80:80", ""):
        answer = httpx.get(sandbox.url + path, headers={"Host": host})
        assert (answer.status_code, "localhost" in answer.json()["message"]) == (403, True), host
    for host in ("LOCALHOST", "localhost:1", "[::1]:80"):
        assert httpx.get(sandbox.url + path, headers={"Host": host}).status_code != 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:8480"])
def test_a_web_page_cannot_steer_the_sandbox(sandbox, origin):
    answer = sandbox.control.post("/clock", content=b'{"advance": 9}', headers={"Origin": origin})
    assert answer.status_code == 403
    assert "Web pages" in answer.json()["message"]


@pytest.mark.parametrize("framing", ["Content-Length: 500", "Transfer-Encoding: chunked"])
def test_a_request_whose_body_was_cut_off_is_not_carried_out(sandbox, framing):
    text = b'{"title": "half"}'
    chunk = text if "500" in framing else b"%x\r\n%s\r\n" % (len(text), text)
    head = (
        "POST /repos/alice/demo/issues HTTP/1.1\r\nHost: localhost\r\nUser-Agent: tests\r\n"
        f"Authorization: Bearer {token_for('alice')}\r\n{framing}\r\n\r\n"
    )
    with socket.create_connection(sandbox_address(sandbox), 10) as raw:
        raw.sendall(head.encode() + chunk)
        raw.shutdown(socket.SHUT_WR)
        # The other side hangs up once it has seen that no more comes.
        assert raw.recv(1000) == b""
    sandbox.do(lambda world: None)
    with sandbox.client("alice") as alice:
        assert len(alice.get("/repos/alice/demo/issues").json()) == 1
    assert sandbox.control.get("/ledger", params={"method": "POST"}).json()["entries"] == []


def sandbox_address(sandbox) -> tuple[str, int]:
    return "127.0.0.1", int(sandbox.url.rsplit(":", 1)[1])


def exchange(sandbox, *pieces: bytes) -> bytes:
    """Say something; what comes back before the other side hangs up."""
    said = b""
    with socket.create_connection(sandbox_address(sandbox), 10) as raw:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                raw.sendall(piece)
        with contextlib.suppress(ConnectionError):
            while piece := raw.recv(65_536):
                said += piece
    return said


START = b"GET /zen HTTP/1.1\r\nHost: localhost\r\nUser-Agent: x\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"X-Long: " + b"x" * 70_000 + b"\r\n\r\n",
        b"X-Endless: " + b"x" * 70_000,
        b"".join(b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(70)) + b"\r\n",
    ],
    ids=["one long", "without an end", "many"],
)
def test_headers_beyond_64_kilobytes_are_refused(sandbox, head):
    assert exchange(sandbox, START, head).startswith(b"HTTP/1.1 431 ")
    assert exchange(sandbox, START, b"X: " + b"x" * 60_000 + b"\r\n\r\n").startswith(
        b"HTTP/1.1 200 "
    )


def test_an_address_or_a_trailer_beyond_64_kilobytes_is_refused(sandbox):
    address = b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert exchange(sandbox, address).startswith(b"HTTP/1.1 431 ")
    chunked = START.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n"
    assert exchange(sandbox, chunked, b"1\r\nx\r\n0\r\nX: ", b"x" * 1_000_000) == b""


def test_an_endless_header_is_cut_off_early(sandbox):
    """Fifty megabytes cannot be sent: the other side is gone long before."""
    with socket.create_connection(sandbox_address(sandbox), 10) as raw:
        raw.sendall(START + b"X: ")
        with pytest.raises(ConnectionError):
            for _ in range(50):
                raw.sendall(b"x" * 1_000_000)
