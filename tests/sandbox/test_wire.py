"""The socket: on this machine only, and without delay."""

from __future__ import annotations

import socket
import time

import httpx

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
    strange = httpx.get(f"{sandbox.url}/repos/alice/demo", headers={"Host": "evil.example"}).json()
    assert "evil" not in strange["url"]
