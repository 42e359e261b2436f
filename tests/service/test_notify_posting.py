"""Real requests to this machine: what arrives, and what no error ever says."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from hostler.service.notifications.delivery import (
    NotificationFailed,
    NotifyAddress,
    build_request,
    post_notification,
    sign_body,
)
from hostler.store.operator import Notice

NOTICE = Notice("k", "blocked", "Blocked: Crash", "It is stuck.", created_at="now")


@contextmanager
def listener(status: int = 200, **headers: str):
    """Somebody who takes calls; what arrived."""
    arrived: list[tuple[str, dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            arrived.append((self.path, dict(self.headers), body))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield NotifyAddress(f"http://127.0.0.1:{server.server_port}/hook/s3cret", "key"), arrived
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_call_arrives_whole_and_signed():
    with listener() as (address, arrived):
        assert post_notification(address, build_request(NOTICE, "generic", address.secret)) == 200
    ((path, headers, body),) = arrived
    assert path == "/hook/s3cret" and json.loads(body)["title"] == "Blocked: Crash"
    assert headers["X-Hostler-Signature-256"] == sign_body(body, "key")


@pytest.mark.parametrize(
    ("status", "again"), [(429, True), (408, True), (500, True), (404, False), (401, False)]
)
def test_a_refusal_says_whether_to_try_again(status, again):
    with (
        listener(status, Retry_After="120") as (address, _),
        pytest.raises(NotificationFailed) as error,
    ):
        post_notification(address, build_request(NOTICE, "slack"))
    assert error.value.retryable is again and error.value.retry_after == 120
    assert "s3cret" not in " ".join(error.value.lines())


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_nobody_is_sent_elsewhere(status):
    with (
        listener() as (other, elsewhere),
        listener(status, Location=other.url) as (address, _),
        pytest.raises(NotificationFailed) as error,
    ):
        post_notification(address, build_request(NOTICE, "ntfy"))
    assert elsewhere == [] and not error.value.retryable


def test_no_connection_is_told_without_the_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = NotifyAddress(f"http://127.0.0.1:{taken.getsockname()[1]}/s3cret")
        with pytest.raises(NotificationFailed) as error:
            post_notification(address, build_request(NOTICE, "generic"))
    assert error.value.retryable and "s3cret" not in str(error.value)
    assert error.value.__cause__ is None
