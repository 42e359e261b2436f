"""A fake service: serves the dashboard's files, and responds like the API from data.

What a page sends is written down; what it is told is put here by the test. The port stays the
same when it goes away and comes back.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from api_data import Json, empty_snapshot

from hostler.web.middleware import CONTENT_SECURITY_POLICY
from hostler.web.pages import INDEX_FILE, read_static_files

API = "/api/v1/"
TESTS = Path(__file__).parent / "js"
CSRF = "the-csrf-token"
# Scripts and styles do not change during the tests, so pages can cache them.
CACHED = {"Cache-Control": "max-age=3600"}


@dataclass
class SentRequest:
    """A request of a page that changes something."""

    method: str
    path: str
    body: Json


@dataclass
class FakeState:
    """The data that the fake service returns."""

    snapshot: Json = field(default_factory=empty_snapshot)
    briefs: list[Json] = field(default_factory=list)
    tasks: dict[str, Json] = field(default_factory=dict)
    waiting_reasons: dict[str, Json] = field(default_factory=dict)
    buses: dict[str, list[Json]] = field(default_factory=lambda: defaultdict(list))
    outputs: dict[str, str] = field(default_factory=lambda: defaultdict(str))
    over: set[str] = field(default_factory=set)
    past: Json = field(default_factory=lambda: {"since": "", "now": "", "pools": {}})
    findings: list[Json] = field(default_factory=list)
    agents: list[str] = field(default_factory=lambda: ["claude", "codex"])
    events: list[tuple[str, Json | None]] = field(default_factory=list)
    # Error responses by path.
    failures: dict[str, tuple[int, Json]] = field(default_factory=dict)
    # Paths whose responses are delayed.
    delayed: set[str] = field(default_factory=set)
    token: str = ""


class FakeWebService:
    """The fake service, in threads of this process."""

    def __init__(self) -> None:
        self.state = FakeState()
        self.changes: list[SentRequest] = []
        self.requests: list[tuple[str, str]] = []
        self.condition = threading.Condition()
        self.responses: dict[str, Any] = {}
        self.epoch = 0
        self.port = 0
        self._server: _Server | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start listening."""
        server = _Server(("127.0.0.1", self.port), _Handler)
        server.web_service = self
        self.port = server.server_address[1]
        self._server = server
        threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()

    def stop(self) -> None:
        """Stop listening, and end all streams."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()
        self._server = None
        with self.condition:
            self.epoch += 1
            self.condition.notify_all()

    def reset(self) -> None:
        """Reset the data and end all streams."""
        if self._server is None:
            self.start()
        with self.condition:
            self.state, self.changes, self.requests, self.responses = FakeState(), [], [], {}
            self.epoch += 1
            self.condition.notify_all()

    # -- events --------------------------------------------------------------------------------

    def send_event(self, kind: str = "changed", data: Json | None = None) -> None:
        """Send an event to followers of tasks."""
        with self.condition:
            self.state.events.append((kind, data))
            self.condition.notify_all()

    def change_task(self, brief: Json) -> None:
        """Change a task and send its event."""
        rest = [one for one in self.state.briefs if one["id"] != brief["id"]]
        self.state.briefs = [brief, *rest]
        self.send_event("task", brief)

    def print_output(self, run: str, text: str) -> None:
        with self.condition:
            self.state.outputs[run] += text
            self.condition.notify_all()

    def end_run(self, run: str) -> None:
        with self.condition:
            self.state.over.add(run)
            self.condition.notify_all()

    def post_message(self, task: str, message: Json) -> None:
        with self.condition:
            self.state.buses[task].append(message)
            self.condition.notify_all()

    def release(self, path: str) -> None:
        """Respond to delayed requests of a path."""
        with self.condition:
            self.state.delayed.discard(path)
            self.condition.notify_all()

    def wait_for_change(self, path: str, timeout: float = 30) -> SentRequest:
        """Wait for a change of a path, and return it."""
        with self.condition:
            found = self.condition.wait_for(
                lambda: [one for one in self.changes if one.path == path], timeout
            )
            assert found, f"nothing was sent to {path}: {self.changes}"
            return found[-1]

    def wait_for_request(self, path: str, times: int = 1, timeout: float = 30) -> None:
        with self.condition:
            counted = lambda: sum(one[0] == path for one in self.requests) >= times  # noqa: E731
            assert self.condition.wait_for(counted, timeout), (
                f"{path} was not asked for: {self.requests}"
            )


class _Server(ThreadingHTTPServer):
    """Tracks its connections, so that it can close them."""

    daemon_threads = True
    web_service: FakeWebService

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore pages that disconnect during a response."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Small responses must not wait for acknowledgements.
    disable_nagle_algorithm = True

    @property
    def web_service(self) -> FakeWebService:
        assert isinstance(self.server, _Server)
        return self.server.web_service

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        state = self.web_service.state
        if path.startswith("/static/"):
            self._file(path.removeprefix("/static/"), CACHED)
        elif path.startswith("/tests/"):
            body = (TESTS / path.removeprefix("/tests/")).read_bytes()
            self._answer(200, body, "text/javascript", CACHED)
        elif path == "/login":
            self._file("login.html")
        elif state.token and "session=open" not in self.headers.get("Cookie", ""):
            self._refuse_or_lead(path)
        elif path == "/":
            self._file(INDEX_FILE)
        elif path.startswith(API):
            self._api(path.removeprefix(API))
        else:
            self._error(404, "There is nothing at this address.")

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if path == "/login":
            self._login(parse_qs(body).get("token", [""])[0])
        elif path == "/logout":
            self._answer(
                303, b"", "text/plain", {"Location": "/login", "Set-Cookie": "session=; Max-Age=0"}
            )
        else:
            self._take(path.removeprefix(API), json.loads(body))

    do_PATCH = do_POST  # noqa: N815

    # -- pages ----------------------------------------------------------------------------------

    def _file(self, name: str, more: dict[str, str] | None = None) -> None:
        found = read_static_files().get(name)
        if found is None:
            self._error(404, "There is nothing at this address.")
        else:
            self._answer(200, found.body, found.content_type, more)

    def _refuse_or_lead(self, path: str) -> None:
        if path.startswith(API):
            self._error(401, "Who are you?", "invalid_token")
        else:
            self._answer(303, b"", "text/plain", {"Location": "/login?next=/"})

    def _login(self, token: str) -> None:
        if token != self.web_service.state.token:
            self._answer(401, b"no", "text/html")
        else:
            cookie = "session=open; HttpOnly; SameSite=Strict; Path=/"
            self._answer(303, b"", "text/plain", {"Location": "/", "Set-Cookie": cookie})

    # -- the API --------------------------------------------------------------------------------

    def _api(self, path: str) -> None:
        web_service = self.web_service
        with web_service.condition:
            web_service.requests.append((path, self.headers.get("Last-Event-ID", "")))
            web_service.condition.notify_all()
            epoch = web_service.epoch
            web_service.condition.wait_for(
                lambda: path not in web_service.state.delayed or web_service.epoch != epoch, 30
            )
        if path in web_service.state.failures:
            status, error = web_service.state.failures[path]
            self._json({"error": error}, status)
        elif path.startswith("live/"):
            self._live(path.removeprefix("live/"))
        else:
            self._look(path)

    def _look(self, path: str) -> None:
        state, parts = self.web_service.state, path.split("/")
        if path == "tasks":
            self._list(parse_qs(urlsplit(self.path).query))
        elif parts[0] == "tasks" and parts[1] in state.tasks:
            self._json(self._of_task(parts[1], parts[2] if len(parts) > 2 else ""))
        elif parts[0] == "runs":
            size = len(state.outputs[f"{parts[1]} stdout"].encode())
            self._json({"run": parts[1], "output_bytes": {"stdout": size, "stderr": 0}})
        else:
            whole: dict[str, Any] = {
                "status": state.snapshot,
                "session": {"by": "ada", "csrf": CSRF},
                "config": {
                    "agent": {name: {} for name in state.agents},
                    "github": {"web_url": "https://github.example"},
                },
                "pool-history": state.past,
                "doctor": {"exit_code": 0, "findings": state.findings},
            }
            if path in whole:
                self._json(whole[path])
            else:
                self._error(404, f"There is no {path}.")

    def _of_task(self, task: str, part: str) -> Json:
        state = self.web_service.state
        if part == "why":
            task_state = state.tasks[task]["state"]
            return state.waiting_reasons.get(
                task,
                {
                    "task": task,
                    "state": task_state,
                    "waits": False,
                    "would_start": False,
                    "gate": None,
                    "why": None,
                    "remedy": None,
                    "since": None,
                    "until": None,
                    "service": {},
                    "gates": [],
                    "blockers": [],
                },
            )
        if part == "bus":
            return {"messages": state.buses[task][-200:], "skipped": 0}
        return state.tasks[task]

    def _list(self, query: dict[str, list[str]]) -> None:
        states, before = query.get("state", []), query.get("before", [""])[0]
        limit = int(query.get("limit", ["50"])[0])
        found = sorted(self.web_service.state.briefs, key=lambda one: one["id"], reverse=True)
        found = [
            one for one in found if one["state"] in states and (not before or one["id"] < before)
        ]
        more = found[limit - 1]["id"] if len(found) > limit else None
        self._json({"tasks": found[:limit], "next": more})

    def _take(self, path: str, body: Json) -> None:
        web_service = self.web_service
        if self.headers.get("X-CSRF-Token") != CSRF:
            self._error(403, "Nothing was changed.", "invalid_csrf_token")
            return
        with web_service.condition:
            web_service.changes.append(SentRequest(self.command, path, body))
            web_service.condition.notify_all()
        if path in web_service.state.failures:
            status, error = web_service.state.failures[path]
            self._json({"error": error}, status)
            return
        reply = web_service.responses.get(path, {"changed": []})
        self._json(reply(body) if callable(reply) else reply, 201)

    # -- streams --------------------------------------------------------------------------------

    def _live(self, path: str) -> None:
        self.send_response(200)
        for name, value in {
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "Connection": "close",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        query = parse_qs(urlsplit(self.path).query)
        last = self.headers.get("Last-Event-ID", "")
        parts = path.split("/")
        if path == "tasks":
            self._live_tasks(last)
        elif parts[0] == "runs":
            self._live_output(parts[1], query.get("stream", ["stdout"])[0], int(last or 0))
        else:
            self._live_bus(parts[1], last)

    def _next(self, ready: Any) -> bool:
        """Wait until there is data. Return False if the stream has ended."""
        web_service, epoch = self.web_service, self._era
        with web_service.condition:
            web_service.condition.wait_for(lambda: ready() or web_service.epoch != epoch, 30)
            return web_service.epoch == epoch

    def _live_tasks(self, last: str) -> None:
        web_service, self._era = self.web_service, self.web_service.epoch
        state = web_service.state
        at = int(last.split("-")[1]) if last else len(state.events)
        self._event("ready", {}, f"e-{at}")
        while self._next(lambda at=at: len(state.events) > at):
            for kind, data in state.events[at:]:
                at += 1
                self._event(kind, data or {}, f"e-{at}")

    def _live_output(self, run: str, stream: str, offset: int) -> None:
        self._era = self.web_service.epoch
        state, name = self.web_service.state, f"{run} {stream}"
        self.wfile.write(b": here\n\n")
        while self._next(
            lambda at=offset: len(state.outputs[name].encode()) > at or run in state.over
        ):
            data = state.outputs[name].encode()[offset:]
            if not data:
                self._event("end", {"offset": offset}, str(offset))
                return
            end = offset + len(data)
            self._event("output", {"offset": offset, "end": end, "text": data.decode()}, str(end))
            offset = end

    def _live_bus(self, task: str, last: str) -> None:
        self._era = self.web_service.epoch
        messages = self.web_service.state.buses[task]
        self.wfile.write(b": here\n\n")
        at = sum(one["id"] <= last for one in messages)
        while self._next(lambda at=at: len(messages) > at):
            for one in messages[at:]:
                at += 1
                self._event("message", one, one["id"])

    def _event(self, kind: str, data: Json, name: str) -> None:
        self.wfile.write(f"event: {kind}\nid: {name}\ndata: {json.dumps(data)}\n\n".encode())

    # -- responses ------------------------------------------------------------------------------

    def _json(self, body: Any, status: int = 200) -> None:
        self._answer(status, json.dumps(body).encode(), "application/json")

    def _error(self, status: int, what: str, kind: str = "not_found") -> None:
        self._json({"error": {"what": what, "safe": "", "remedy": "", "kind": kind}}, status)

    def _answer(
        self, status: int, body: bytes, kind: str, more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        }
        for name, value in {**headers, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
