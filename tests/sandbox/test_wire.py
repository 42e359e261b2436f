"""The socket: on this machine only, and without delay."""

from __future__ import annotations

import socket
import time

import httpx
import pytest

from hostler.sandbox.auth import token_for
from hostler.sandbox.wire import listen


def test_the_sandbox_listens_on_this_machine_only():
    with listen(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_the_socket_is_named_as_tcp_so_that_small_answers_are_not_held_back():
    with listen(0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_large_answer_does_not_wait_for_an_acknowledgement(sandbox):
    """Forty answers of 45 kB: 40 ms each if they waited."""
    with sandbox.client("alice") as alice:
        alice.patch("/repos/alice/demo/issues/1", json={"body": "x" * 45_000})
        alice.get("/repos/alice/demo/issues/1")
        taken = []
        for _ in range(40):
            start = time.perf_counter()
            alice.get("/repos/alice/demo/issues/1")
            taken.append(time.perf_counter() - start)
    assert sorted(taken)[5] < 0.02


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
