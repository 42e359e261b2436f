"""Webhooks arrive, signed, at a real receiver."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

from hostler.sandbox.webhooks import HookDelivery, Webhook

SECRET = "between us"
PATIENCE = 20


class Receiver:
    """A local server that keeps what it is sent."""

    def __init__(self) -> None:
        received: queue.Queue = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.put((dict(self.headers), body))
                self.send_response(202)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.received = received
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def next(self) -> tuple[dict[str, str], dict]:
        headers, body = self.received.get(timeout=PATIENCE)
        wanted = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        lowered = {name.lower(): value for name, value in headers.items()}
        assert hmac.compare_digest(lowered["x-hub-signature-256"], wanted)
        return lowered, json.loads(body)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def subscribe(client, url, *events):
    config = {"url": url, "content_type": "json", "secret": SECRET}
    answer = client.post("/repos/alice/demo/hooks", json={"config": config, "events": events})
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_hook_is_pinged_and_told_of_what_it_wants(sandbox, receiver):
    with sandbox.client("alice") as alice:
        hook = subscribe(alice, receiver.url, "issues", "issue_comment")
        assert hook["config"]["secret"] == "********"
        headers, body = receiver.next()
        assert (headers["x-github-event"], body["hook_id"]) == ("ping", hook["id"])
        alice.post("/repos/alice/demo/issues/1/comments", json={"body": "hello"})
        headers, body = receiver.next()
        assert headers["x-github-event"] == "issue_comment"
        assert body["action"] == "created"
        assert body["comment"]["body"] == "hello"
        assert body["issue"]["number"] == 1
        assert body["repository"]["full_name"] == "alice/demo"
        assert body["sender"]["login"] == "alice"
        assert body["comment"]["url"].startswith(sandbox.url)
        alice.patch("/repos/alice/demo/issues/1", json={"state": "closed", "labels": ["bug"]})
        closed, labeled = receiver.next()[1], receiver.next()[1]
        assert (closed["action"], closed["issue"]["state"]) == ("closed", "closed")
        assert (labeled["action"], labeled["label"]["name"]) == ("labeled", "bug")
        alice.patch("/repos/alice/demo/issues/1", json={"title": "second", "assignees": ["bob"]})
        edited, assigned = receiver.next()[1], receiver.next()[1]
        assert edited["changes"] == {"title": {"from": "first"}}
        assert assigned["assignee"]["login"] == "bob"
        alice.patch("/repos/alice/demo/issues/comments/1", json={"body": "bye"})
        assert receiver.next()[1]["changes"] == {"body": {"from": "hello"}}


def test_deliveries_are_recorded_with_their_answer(sandbox, receiver):
    with sandbox.client("alice") as alice:
        hook = subscribe(alice, receiver.url, "issues")
        headers, _ = receiver.next()
        sandbox.control.post("/webhooks/wait")
        path = f"/repos/alice/demo/hooks/{hook['id']}/deliveries"
        row = alice.get(path).json()[0]
        assert (row["event"], row["status_code"], row["status"]) == ("ping", 202, "OK")
        assert row["guid"] == headers["x-github-delivery"]
        assert (
            alice.get(f"{path}/{row['id']}").json()["request"]["payload"]["hook_id"] == hook["id"]
        )


def test_nothing_is_sent_to_other_machines_or_of_unwanted_events(sandbox, receiver):
    with sandbox.client("alice") as alice:
        far = subscribe(alice, "http://203.0.113.7/hook", "*")
        subscribe(alice, receiver.url, "push")
        receiver.next()
        alice.post("/repos/alice/demo/issues", json={"title": "x"})
        sandbox.control.post("/webhooks/wait")
        assert receiver.received.empty()
        rows = alice.get(f"/repos/alice/demo/hooks/{far['id']}/deliveries").json()
        assert {(row["status_code"], row["status"][:8]) for row in rows} == {(0, "not sent")}


def test_a_dead_receiver_holds_up_nothing(sandbox, receiver):
    with sandbox.client("alice") as alice:
        hook = subscribe(alice, "http://127.0.0.1:9/hook", "issues")
        assert alice.post("/repos/alice/demo/issues", json={"title": "x"}).status_code == 201
        sandbox.control.post("/webhooks/wait")
        rows = alice.get(f"/repos/alice/demo/hooks/{hook['id']}/deliveries").json()
        assert [row["status_code"] for row in rows] == [0, 0]


def test_hooks_are_changed_paused_and_removed_by_admins_only(sandbox, receiver):
    with sandbox.client("alice") as alice, sandbox.client("bob") as bob:
        path = f"/repos/alice/demo/hooks/{subscribe(alice, receiver.url, 'issues')['id']}"
        receiver.next()
        assert bob.get("/repos/alice/demo/hooks").status_code == 403
        assert alice.patch(path, json={"active": False}).json()["active"] is False
        alice.post("/repos/alice/demo/issues", json={"title": "x"})
        assert alice.post(f"{path}/pings").status_code == 204
        assert receiver.next()[0]["x-github-event"] == "ping"
        assert alice.delete(path).status_code == 204
        assert alice.get(path).status_code == 404


def test_a_hook_needs_a_url(sandbox):
    with sandbox.client("alice") as alice:
        far = [{"url": f"http://127.0.0.1:{port}/"} for port in ("99999", "-1", "0", "x")]
        for config in ({}, {"url": "nonsense"}, {"url": "http://[bad"}, {"url": 7}, "x", *far):
            answer = alice.post("/repos/alice/demo/hooks", json={"config": config})
            assert answer.status_code == 422, config


def test_a_hook_wants_events_that_there_are(sandbox, receiver):
    with sandbox.client("alice") as alice:
        path = "/repos/alice/demo/hooks"
        for events in ([], ["nonsense"], ["push", "Issues"], "x"):
            fields = {"config": {"url": receiver.url}, "events": events}
            assert alice.post(path, json=fields).status_code == 422, events
        made = subscribe(alice, receiver.url, "push", "*")
        assert alice.patch(f"{path}/{made['id']}", json={"events": []}).status_code == 422


def test_an_address_that_cannot_be_is_a_failed_delivery(local):
    hook = local.post("/repos/alice/demo/hooks", {"config": {"url": "http://127.0.0.1:9/"}}).json()
    known = local.world.truth.get(Webhook, hook["id"])
    local.world.put(replace(known, url="http://127.0.0.1:99999/"))
    assert local.post(f"/repos/alice/demo/hooks/{hook['id']}/pings").status == 204
    local.run(local.app.webhook_sender.idle())
    rows = local.get(f"/repos/alice/demo/hooks/{hook['id']}/deliveries").json()
    assert [row["status"][:6] for row in rows] == ["failed", "failed"]


def test_the_newest_hundred_deliveries_are_remembered_as_long_as_their_hook(local):
    hook = local.post("/repos/alice/demo/hooks", {"config": {"url": "http://192.0.2.1/"}}).json()
    path = f"/repos/alice/demo/hooks/{hook['id']}"
    for _ in range(120):
        local.post(f"{path}/pings")
    local.run(local.app.webhook_sender.idle())
    ids = [row["id"] for row in local.get(f"{path}/deliveries?per_page=100").json()]
    assert ids == list(range(121, 21, -1))
    assert (
        len(local.world.truth.all(HookDelivery)) == len(local.world.seen.all(HookDelivery)) == 100
    )
    assert "delivery" not in local.get("/_sandbox/state").json()["entities"]
    local.post(f"{path}/pings")
    assert local.delete(path).status == 204
    local.run(local.app.webhook_sender.idle())
    assert local.world.truth.all(HookDelivery) == local.world.seen.all(HookDelivery) == []


def test_the_signature_of_a_form_is_over_what_is_sent(sandbox, receiver):
    with sandbox.client("alice") as alice:
        config = {"url": receiver.url, "content_type": "form", "secret": SECRET}
        alice.post("/repos/alice/demo/hooks", json={"config": config})
        headers, body = receiver.received.get(timeout=PATIENCE)
        wanted = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        assert {name.lower(): value for name, value in headers.items()}[
            "x-hub-signature-256"
        ] == wanted
        assert "hook_id" in json.loads(parse_qs(body.decode())["payload"][0])
