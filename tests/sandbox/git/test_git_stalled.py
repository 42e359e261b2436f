"""Clients that stall do not keep the others from git."""

from __future__ import annotations

import base64
import contextlib
import socket

import httpx
from pull_fixture import House, street

from hostler.sandbox.auth import token_for
from hostler.sandbox.git.smart_http import MAX_GIT_CALLS

PATIENCE = 20


def stall(port: int, name: str, action: str) -> socket.socket:
    """Begin a request to git and leave it there; returns once git waits for its body."""
    secret = base64.b64encode(f"alice:{token_for('alice')}".encode()).decode()
    raw = socket.create_connection(("127.0.0.1", port), PATIENCE)
    head = (
        f"POST /{name}.git/{action} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
        f"Authorization: Basic {secret}\r\nContent-Type: application/x-{action}-request\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    raw.sendall(head.encode())
    assert b" 100 " in raw.recv(1000)
    raw.sendall(b"00")
    return raw


def test_stalled_clients_are_sent_away_and_their_places_are_free_again() -> None:
    with street(git_idle_seconds=1) as sandbox, contextlib.ExitStack() as stack:
        house = House(sandbox)
        port = int(sandbox.url.rsplit(":", 1)[1])
        actions = ("git-receive-pack", "git-upload-pack") * (MAX_GIT_CALLS // 2)
        idle = [stack.enter_context(stall(port, house.name, action)) for action in actions]
        asked = f"{sandbox.url}/{house.name}.git/info/refs?service=git-upload-pack"
        assert httpx.get(asked, timeout=PATIENCE).status_code == 200
        for raw in idle[::2]:
            assert raw.recv(1000).startswith(b"HTTP/1.1 408 ")
        # A fetch may have been told 200 before it stalled; then it can only be cut.
        for raw in idle[1::2]:
            while raw.recv(1000):
                pass
        house.close()
