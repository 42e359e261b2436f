"""A real server for webhooks: sizes, slow senders, many at once, addresses and secrets."""

from __future__ import annotations

import errno
import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from hostler.config.settings import GitHub
from hostler.errors import HostlerError
from hostler.service.polling import webhooks as receiving
from hostler.service.polling.webhooks import (
    MAX_BODY_BYTES,
    is_loopback,
    receive_webhooks,
    sign_delivery,
)

SECRET = "a long and lovely secret"


class ReceiverFixture:
    """A receiver, the repositories that it reported, and the statuses of its responses."""

    def __init__(self) -> None:
        self.repositories: list[str] = []
        self.answers: list[int] = []
        self.port = 0

    def post(
        self, body: bytes, path: str = "/webhook", method: str = "POST", **headers: str
    ) -> int:
        signed = {"x-hub-signature-256": sign_delivery(body, SECRET.encode())}
        plain = {"content-type": "application/json", **signed}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as line:
            line.request(method, path, body, {**plain, **headers})
            answer = line.getresponse()
            assert answer.getheader("server") == "Hostler"
            return answer.status

    def send(self, text: bytes) -> bytes:
        """Send these bytes and return the whole answer.

        A receiver may answer and hang up before it has read everything: then nothing more can be
        sent, and the answer may be lost.
        """
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as line:
            try:
                line.sendall(text)
                line.shutdown(socket.SHUT_WR)
                while part := line.recv(4096):
                    answer += part
            except OSError as error:
                assert error.errno in DISCONNECT_ERRORS, error
        return answer


# Errors that a sender gets when the receiver disconnects.
DISCONNECT_ERRORS = {errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN}


def body(number: int = 1) -> bytes:
    return json.dumps({"repository": {"full_name": "octo/stable"}, "n": number}).encode()


@pytest.fixture
def webhook(monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    made = ReceiverFixture()
    settings = GitHub(webhook_listen="127.0.0.1:0", webhook_secret_env="HOOK_SECRET")
    with receive_webhooks(settings, made.repositories.append, made.answers.append) as receiver:
        made.port = receiver.port
        yield made


def test_a_delivery_reports_its_repository_once(webhook):
    assert [webhook.post(body()), webhook.post(body())] == [202, 409]
    assert webhook.repositories == ["octo/stable"] and webhook.answers == [
        202,
        409,
    ]
    assert webhook.post(b'{"zen": "Keep it logically awesome."}') == 202
    assert webhook.repositories == ["octo/stable"]


def test_other_paths_methods_and_sizes_are_refused(webhook):
    assert webhook.post(body(), path="/") == 404
    assert webhook.post(body(), path="/webhook?x=1") == 202
    assert webhook.post(b"", method="GET") == 501
    assert webhook.post(b"", **{"content-length": str(MAX_BODY_BYTES + 1)}) == 413
    assert webhook.post(b"", **{"content-length": "9" * 40}) == 413
    assert b" 411 " in webhook.send(b"POST /webhook HTTP/1.1\r\nhost: x\r\n\r\n")
    assert b" 411 " in webhook.send(b"POST /webhook HTTP/1.1\r\ncontent-length: -1\r\n\r\n")
    assert b" 400 " in webhook.send(b"POST /webhook HTTP/1.1\r\ncontent-length: 9\r\n\r\nshort")
    assert webhook.repositories == ["octo/stable"]


@pytest.mark.parametrize("text", [b"\x16\x03\x01\x02\x00", b"\r\n\r\n", b"A" * 100_000, b"GET"])
def test_invalid_requests_do_no_harm(webhook, text, capfd):
    webhook.send(text)
    assert webhook.post(body()) == 202
    assert capfd.readouterr() == ("", "")


def test_the_largest_body_is_accepted(webhook):
    padded = body()[:-1] + b" " * (MAX_BODY_BYTES - len(body())) + b"}"
    assert len(padded) == MAX_BODY_BYTES and webhook.post(padded) == 202


def test_a_slow_sender_is_disconnected_and_delays_no_others(webhook, monkeypatch):
    monkeypatch.setattr(receiving._WebhookHandler, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", webhook.port), timeout=30) as slow:
        slow.sendall(b"POST /webhook HTTP/1.1\r\n")
        assert webhook.post(body()) == 202
        assert slow.recv(1) == b""


def test_a_sender_of_single_bytes_is_disconnected(webhook, monkeypatch):
    monkeypatch.setattr(receiving._WebhookServer, "max_seconds", 0.3)
    with socket.create_connection(("127.0.0.1", webhook.port), timeout=30) as slow:
        slow.sendall(b"POST /webhook HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n")
        slow.settimeout(0.02)
        for _ in range(5000):
            try:
                slow.sendall(b"x")
                if slow.recv(1000) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("it may send for ever")
    assert webhook.post(body()) == 202


def test_connections_above_the_limit_are_refused(webhook, monkeypatch):
    lines = [
        socket.create_connection(("127.0.0.1", webhook.port), timeout=30)
        for _ in range(receiving.MAX_CONNECTIONS)
    ]
    for line in lines:
        line.sendall(b"POST /webhook HTTP/1.1\r\n")
    with socket.create_connection(("127.0.0.1", webhook.port), timeout=30) as late:
        assert late.recv(1) == b""
    for line in lines:
        line.close()
    for _ in range(1000):
        try:
            assert webhook.post(body()) in (202, 409)
            break
        except ConnectionError:  # turned away, before or after all was sent
            continue
    assert webhook.repositories == ["octo/stable"]


def test_many_deliveries_at_once_are_all_received(webhook):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: webhook.post(body(number)), range(200)))
    assert answers == [202] * 200 and len(webhook.repositories) == 200


def test_without_an_address_nothing_listens():
    with receive_webhooks(GitHub(), lambda _: None, lambda _: None) as receiver:
        assert receiver is None


@pytest.mark.parametrize(
    ("settings", "secret", "words"),
    [
        ({}, "", "the webhook secret is missing"),
        ({"webhook_secret_env": "HOOK_SECRET"}, "", "the webhook secret is missing"),
        ({"webhook_secret_env": "HOOK_SECRET"}, "guessable", "is shorter than 16 characters"),
        ({"webhook_secret_file": "/nowhere/secret"}, "", "cannot be read: No such file"),
    ],
)
def test_missing_and_weak_secrets_are_refused(monkeypatch, settings, secret, words):
    monkeypatch.setenv("HOOK_SECRET", secret)
    github = GitHub(webhook_listen="127.0.0.1:0", **settings)
    with (
        pytest.raises(HostlerError, match=words) as refused,
        receive_webhooks(github, lambda _: None, lambda _: None),
    ):
        pass
    assert refused.value.remedy


def test_an_unusable_address_is_an_error(monkeypatch, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for address in (f"127.0.0.1:{taken.getsockname()[1]}", "203.0.113.1:80", "127.0.0.1:99999"):
            github = GitHub(webhook_listen=address, webhook_secret_file=str(secret))
            with (
                pytest.raises(HostlerError, match="Cannot listen for webhooks on"),
                receive_webhooks(github, lambda _: None, lambda _: None),
            ):
                pass


def test_loopback_addresses_are_recognised():
    assert all(map(is_loopback, ("127.0.0.1:1", "[::1]:1", "localhost:1", "127.9.9.9:1")))
    assert not any(map(is_loopback, ("0.0.0.0:1", "[::]:1", "example.org:1", "10.0.0.1:1")))
