"""Renames, redirects, hosts, conditions, budget and time, against a real host."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from github_fixture import Known

from hostler.errors import Moved, ServerFailed, Unclear
from hostler.forge.actions import CreateComment
from hostler.forge.github.client.credentials import StaticToken
from hostler.forge.github.client.repository import GitHubRepository
from hostler.forge.github.client.session import GitHubSession
from hostler.forge.github.client.transport import ApiRequest, HttpTransport
from hostler.forge.port import ItemKind


@pytest.fixture
def client(sandbox_repo):
    return sandbox_repo.forge.session


@pytest.fixture
def scripted(clock):
    """A host that answers as a test says: (status, headers, body) per path."""
    answers, heard = {}, []

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self):
            heard.append((self.command, self.path, dict(self.headers)))
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            status, headers, body = answers.get(self.path, (404, {}, b"{}"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = handle_one  # noqa: N815 - the names that http.server calls

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.answers, server.heard = answers, heard
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_request_says_version_form_and_program(scripted, clock):
    scripted.answers["/user"] = (200, {}, b"{}")
    wire = HttpTransport(scripted.url, clock, api_version="2022-11-28")
    wire.send(ApiRequest("GET", wire.absolute("/user"), bearer="x"))
    wire.close()
    ((_, _, headers),) = scripted.heard
    assert headers["X-GitHub-Api-Version"] == "2022-11-28"
    assert headers["Accept"] == "application/vnd.github+json"
    assert headers["User-Agent"].startswith("hostler/")
    assert headers["Authorization"] == "Bearer x"


def test_an_unchanged_page_is_told_by_its_tag_and_costs_nothing(sandbox_repo, client):
    first = client.read(client.path("issues"))
    again = client.read(client.path("issues"), etag=first.etag)
    assert (first.status, again.status, again.unchanged, again.data) == (200, 304, True, None)
    assert sandbox_repo.ledger(status="304")[0]["primary"] == 0
    sandbox_repo.issue()
    assert client.read(client.path("issues"), etag=first.etag).status == 200


def test_the_budget_and_githubs_time_come_back_as_facts(sandbox_repo, client):
    sandbox_repo.tune(primary_limit=5000)
    answer = client.read("/user")
    assert (answer.budget.limit, answer.budget.remaining) == (5000, 4999)
    assert answer.budget.date.timestamp() == int(sandbox_repo.github_now())
    assert client.budget == answer.budget
    assert sandbox_repo.forge.cost().requests == 1


def test_a_renamed_repository_is_read_and_written_and_the_rename_is_a_fact(sandbox_repo, client):
    number = sandbox_repo.issue()
    identity = sandbox_repo.forge.repository().id
    new = f"{sandbox_repo.name.name}-new"
    sandbox_repo.do("PATCH", f"/repos/{sandbox_repo.name}", name=new)
    answer = client.read(client.path(f"issues/{number}"))
    assert (answer.status, answer.repository_id) == (200, identity)
    assert sandbox_repo.forge.was_renamed()
    made = sandbox_repo.forge.perform(CreateComment(number, "still here"), token="t1")
    assert sandbox_repo.get_raw(f"/repos/alice/{new}/issues/comments/{made.id}").status_code == 200
    found = sandbox_repo.forge.repository()
    assert (found.id, found.name.name) == (identity, new)
    statuses = {row["status"] for row in sandbox_repo.ledger(login="bot")}
    assert {301, 307} <= statuses


def test_a_rename_is_followed_by_a_client_that_never_knew_the_number(sandbox_repo):
    number = sandbox_repo.issue()
    sandbox_repo.do("PATCH", f"/repos/{sandbox_repo.name}", name=f"{sandbox_repo.name.name}-new")
    assert sandbox_repo.forge.perform(CreateComment(number, "x"), token="t1").id
    assert sandbox_repo.forge.was_renamed()


def test_a_transferred_issue_is_not_followed(sandbox_repo, client):
    number = sandbox_repo.issue()
    there = f"alice/{sandbox_repo.name.name}-other"
    sandbox_repo.sandbox.seed({"repos": [{"name": there, "collaborators": {"bot": "write"}}]})
    sandbox_repo.control(
        "POST", "/issues/transfer", repo=str(sandbox_repo.name), number=number, to=there
    )
    with pytest.raises(Moved) as caught:
        sandbox_repo.forge.issue(number)
    assert caught.value.repository_id not in (0, client.repository_id)
    assert not sandbox_repo.forge.was_renamed()


def test_no_redirect_takes_our_secret_to_another_host(scripted, clock, sandbox_repo):
    path = "/repos/alice/house/issues/1"
    target = f"{sandbox_repo.sandbox.url}/repositories/1/issues/1"
    scripted.answers[path] = (301, {"Location": target}, b"{}")
    client = GitHubSession(
        HttpTransport(scripted.url, clock), Known(), sandbox_repo.name, clock, pauses=()
    )
    with pytest.raises(Moved):
        client.read(path)
    assert sandbox_repo.ledger() == []
    client.transport.close()


def test_a_link_to_another_host_is_refused(scripted, clock, sandbox_repo):
    link = '<https://elsewhere.example/x?page=2>; rel="next"'
    scripted.answers["/list"] = (200, {"Link": link}, b"[]")
    client = GitHubSession(
        HttpTransport(scripted.url, clock), Known(), sandbox_repo.name, clock, pauses=()
    )
    answer = client.read("/list")
    with pytest.raises(ValueError):
        client.read(answer.next_url)
    client.transport.close()


def test_redirects_in_a_circle_end(scripted, clock, sandbox_repo):
    for path in (f"/repos/{sandbox_repo.name}", "/repositories/1"):
        scripted.answers[path] = (301, {"Location": "/repositories/1"}, b"{}")
    client = GitHubSession(
        HttpTransport(scripted.url, clock), Known(), sandbox_repo.name, clock, pauses=()
    )
    with pytest.raises(Moved):
        client.read_repository()
    client.transport.close()


@pytest.mark.parametrize("body", [b"<html>", b"\xff\xfe", b'{"a":'])
def test_an_answer_that_cannot_be_read_is_a_failing_server_or_unclear(scripted, clock, body):
    scripted.answers["/x"] = (200, {}, body)
    wire = HttpTransport(scripted.url, clock)
    with pytest.raises(ServerFailed):
        wire.send(ApiRequest("GET", wire.absolute("/x")))
    with pytest.raises(Unclear):
        wire.send(ApiRequest("POST", wire.absolute("/x"), {}))
    wire.close()


@pytest.mark.parametrize("body", [b"null", b"7", b"[]", b"{}", b'{"id": "x", "login": null}', b""])
def test_an_answer_of_unknown_shape_is_a_failing_server(scripted, clock, sandbox_repo, body):
    repo = f"/repos/{sandbox_repo.name}"
    paths = ("", "/issues/1", "/pulls/1", "/issues/comments/1")
    scripted.answers |= {f"{repo}{path}": (200, {}, body) for path in paths}
    scripted.answers["/user"] = (200, {}, body if b"login" not in body else b'{"name": "x"}')
    events = b'[{"id": 1, "event": "labeled", "label": {"nome": "x"}, "actor": "me"}]'
    scripted.answers[f"{repo}/issues/1/events?per_page=100"] = (200, {}, events)
    wire = HttpTransport(scripted.url, clock)
    token = StaticToken(wire, lambda: "a-token-of-ours")
    forge = GitHubRepository(GitHubSession(wire, token, sandbox_repo.name, clock, pauses=()))
    asked = (
        token.login,
        forge.repository,
        lambda: forge.issue(1),
        lambda: forge.pull(1),
        lambda: forge.get_comment(ItemKind.ISSUE_COMMENT, 1),
        lambda: forge.labellers(1),
    )
    for ask in asked:
        with pytest.raises(ServerFailed, match="cannot be understood"):
            ask()
    wire.close()


def test_a_written_answer_of_unknown_shape_is_unclear_not_repeated(scripted, clock, sandbox_repo):
    path = f"/repos/{sandbox_repo.name}/issues/1/comments"
    scripted.answers[path] = (201, {}, json.dumps({"id": "not a number"}).encode())
    forge = GitHubRepository(
        GitHubSession(
            HttpTransport(scripted.url, clock), Known(), sandbox_repo.name, clock, pauses=()
        )
    )
    with pytest.raises(Unclear):
        forge.perform(CreateComment(1, "x"), token="t1")
    forge.session.transport.close()


@pytest.mark.parametrize("status", [404, 410])
def test_a_host_that_knows_no_dependencies_has_none(scripted, clock, sandbox_repo, status):
    path = f"/repos/{sandbox_repo.name}/issues/1/dependencies/blocked_by?per_page=100"
    scripted.answers[path] = (status, {}, b"{}")
    forge = GitHubRepository(
        GitHubSession(
            HttpTransport(scripted.url, clock), Known(), sandbox_repo.name, clock, pauses=()
        )
    )
    assert forge.blocked_by(1) == []
    scripted.answers[path] = (503, {}, b"{}")
    with pytest.raises(ServerFailed):
        forge.blocked_by(1)
    forge.session.transport.close()


def test_dependencies_are_read_over_all_pages(sandbox_repo, monkeypatch):
    monkeypatch.setattr("hostler.forge.github.client.repository.PAGE_SIZE", 2)
    number = sandbox_repo.issue()
    others = [sandbox_repo.issue() for _ in range(5)]
    for other in others:
        found = sandbox_repo.do("GET", f"issues/{other}")
        sandbox_repo.do(
            "POST", f"issues/{number}/dependencies/blocked_by", "bob", issue_id=found["id"]
        )
    assert [one.number for one in sandbox_repo.forge.blocked_by(number)] == others


def test_githubs_time_is_asked_for_when_it_was_not_heard_for_long(sandbox_repo):
    wire = sandbox_repo.hub.transport
    first = wire.now()
    assert first.timestamp() == int(sandbox_repo.github_now())
    sandbox_repo.pass_time(30)
    assert (wire.now() - first).total_seconds() == 30
    assert len(sandbox_repo.ledger(path="/rate_limit")) == 1
    sandbox_repo.pass_time(60)
    assert (wire.now() - first).total_seconds() == 90
    assert len(sandbox_repo.ledger(path="/rate_limit")) == 2


def test_a_machine_that_slept_asks_for_the_time_again(sandbox_repo):
    wire = sandbox_repo.hub.transport
    wire.now()
    sandbox_repo.clock.jump(3600)
    assert wire.now().timestamp() == int(sandbox_repo.github_now())
    assert len(sandbox_repo.ledger(path="/rate_limit")) == 2


def test_a_host_without_limits_still_tells_the_time(scripted, clock):
    scripted.answers["/rate_limit"] = (404, {}, b'{"message": "Rate limiting is not enabled."}')
    wire = HttpTransport(scripted.url, clock)
    assert wire.now().tzinfo is not None
    wire.close()
