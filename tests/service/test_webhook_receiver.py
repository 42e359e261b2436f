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


class Door:
    """A receiver, who knocked, and what was answered."""

    def __init__(self) -> None:
        self.knocks: list[str] = []
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

    def say(self, text: bytes) -> bytes:
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
                assert error.errno in HANG_UP, error
        return answer


# What a sender sees of a receiver that hangs up.
HANG_UP = {errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN}


def body(number: int = 1) -> bytes:
    return json.dumps({"repository": {"full_name": "octo/stable"}, "n": number}).encode()


@pytest.fixture
def door(monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    made = Door()
    settings = GitHub(webhook_listen="127.0.0.1:0", webhook_secret_env="HOOK_SECRET")
    with receive_webhooks(settings, made.knocks.append, made.answers.append) as receiver:
        made.port = receiver.port
        yield made


def test_a_delivery_knocks_once(door):
    assert [door.post(body()), door.post(body())] == [202, 409]
    assert door.knocks == ["octo/stable"] and door.answers == [202, 409]
    assert door.post(b'{"zen": "Keep it logically awesome."}') == 202
    assert door.knocks == ["octo/stable"]


def test_other_paths_methods_and_sizes_are_refused_unread(door):
    assert door.post(body(), path="/") == 404
    assert door.post(body(), path="/webhook?x=1") == 202
    assert door.post(b"", method="GET") == 501
    assert door.post(b"", **{"content-length": str(MAX_BODY_BYTES + 1)}) == 413
    assert door.post(b"", **{"content-length": "9" * 40}) == 413
    assert b" 411 " in door.say(b"POST /webhook HTTP/1.1\r\nhost: x\r\n\r\n")
    assert b" 411 " in door.say(b"POST /webhook HTTP/1.1\r\ncontent-length: -1\r\n\r\n")
    assert b" 400 " in door.say(b"POST /webhook HTTP/1.1\r\ncontent-length: 9\r\n\r\nshort")
    assert door.knocks == ["octo/stable"]


@pytest.mark.parametrize("text", [b"\x16\x03\x01\x02\x00", b"\r\n\r\n", b"A" * 100_000, b"GET"])
def test_garbage_is_no_trouble(door, text, capfd):
    door.say(text)
    assert door.post(body()) == 202
    assert capfd.readouterr() == ("", "")


def test_the_largest_body_is_taken(door):
    padded = body()[:-1] + b" " * (MAX_BODY_BYTES - len(body())) + b"}"
    assert len(padded) == MAX_BODY_BYTES and door.post(padded) == 202


def test_a_slow_sender_is_let_go_and_holds_up_nobody(door, monkeypatch):
    monkeypatch.setattr(receiving._WebhookHandler, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", door.port), timeout=30) as slow:
        slow.sendall(b"POST /webhook HTTP/1.1\r\n")
        assert door.post(body()) == 202
        assert slow.recv(1) == b""


def test_a_sender_of_a_byte_now_and_then_is_let_go_too(door, monkeypatch):
    monkeypatch.setattr(receiving._WebhookServer, "seconds", 0.3)
    with socket.create_connection(("127.0.0.1", door.port), timeout=30) as slow:
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
    assert door.post(body()) == 202


def test_more_than_so_many_at_once_are_turned_away_and_the_next_is_served(door, monkeypatch):
    lines = [
        socket.create_connection(("127.0.0.1", door.port), timeout=30)
        for _ in range(receiving.MAX_CONNECTIONS)
    ]
    for line in lines:
        line.sendall(b"POST /webhook HTTP/1.1\r\n")
    with socket.create_connection(("127.0.0.1", door.port), timeout=30) as late:
        assert late.recv(1) == b""
    for line in lines:
        line.close()
    for _ in range(1000):
        try:
            assert door.post(body()) in (202, 409)
            break
        except ConnectionError:  # turned away, before or after all was sent
            continue
    assert door.knocks == ["octo/stable"]


def test_many_at_once_are_all_heard(door):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: door.post(body(number)), range(200)))
    assert answers == [202] * 200 and len(door.knocks) == 200


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


def test_an_address_in_use_or_of_nobody_is_told(monkeypatch, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for address in (f"127.0.0.1:{taken.getsockname()[1]}", "203.0.113.1:80", "127.0.0.1:99999"):
            github = GitHub(webhook_listen=address, webhook_secret_file=str(secret))
            with (
                pytest.raises(HostlerError, match="Nobody can listen on"),
                receive_webhooks(github, lambda _: None, lambda _: None),
            ):
                pass


def test_which_addresses_are_of_this_machine_alone():
    assert all(map(is_loopback, ("127.0.0.1:1", "[::1]:1", "localhost:1", "127.9.9.9:1")))
    assert not any(map(is_loopback, ("0.0.0.0:1", "[::]:1", "example.org:1", "10.0.0.1:1")))
