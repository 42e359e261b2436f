"""A small imitation of model APIs on this machine: it plays a list of answers, and remembers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from model_dialects import DIALECTS, Dialect, Said

PATIENCE = 60.0


@dataclass(frozen=True)
class Text:
    """Words, and the end of a turn."""

    text: str = "All is done."


@dataclass(frozen=True)
class Shell:
    """One call of the tool that runs shell commands."""

    command: str
    text: str = "I run a command."


@dataclass(frozen=True)
class Refuse:
    """An error, perhaps with a time to come back."""

    status: int
    word: str = "rate_limit_error"
    retry_after: int | None = None


@dataclass(frozen=True)
class Hang:
    """No answer, for as long as the API stands."""


@dataclass(frozen=True)
class Drop:
    """The connection is cut before an answer."""


@dataclass(frozen=True)
class Held:
    """An answer that waits until it is let go."""

    then: Answer
    go: threading.Event = field(default_factory=threading.Event, compare=False)


Answer = Text | Shell | Refuse | Hang | Drop | Held


@dataclass(frozen=True)
class Asked:
    """One request for the next words of a conversation."""

    path: str
    body: dict[str, Any]

    def __contains__(self, words: str) -> bool:
        return words in json.dumps(self.body, ensure_ascii=False)


class ModelApi:
    """The answers still to give, and what was asked so far.

    Requests without tools are errands beside the work (a title, a summary): they use up no answer
    of the list, and are not kept. When the list is at its end, every answer is `Text()`.
    """

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.asked: list[Asked] = []
        # Hosts that a program wanted to reach through us, in vain.
        self.refused_hosts: list[str] = []
        self.closing = threading.Event()
        self._script: list[Answer] = []
        self._said = 0
        self._changed = threading.Condition()

    def play(self, *answers: Answer) -> None:
        """Give these answers after those that are left."""
        with self._changed:
            self._script += answers

    def until_asked(self, times: int) -> Asked:
        """The request of this number, counted from 1, when it has come."""
        with self._changed:
            come = self._changed.wait_for(lambda: len(self.asked) >= times, PATIENCE)
            assert come, f"{len(self.asked)} requests came, not {times}"
            return self.asked[times - 1]

    def answer_to(self, asked: Asked, dialect: Dialect) -> Answer:
        with self._changed:
            if not dialect.has_tools(asked.body):
                return Text("A title")
            self.asked.append(asked)
            self._changed.notify_all()
            return self._script.pop(0) if self._script else Text()

    def next_id(self) -> str:
        with self._changed:
            self._said += 1
            return f"said_{self._said}"


@contextmanager
def model_api() -> Iterator[ModelApi]:
    """An API at work, for the length of a block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(lambda: api))
    # A hanging answer must not keep the tests from ending.
    server.daemon_threads, server.block_on_close = True, False
    api = ModelApi(server)
    thread = threading.Thread(target=server.serve_forever, name="model API", daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.closing.set()
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


def _handler(api: Callable[[], ModelApi]) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        @property
        def api(self) -> ModelApi:
            return api()

    return Handler


class _Handler(BaseHTTPRequestHandler):
    """One connection; HTTP/1.0, so that the end of an answer is the end of the connection."""

    api: ModelApi

    def do_CONNECT(self) -> None:
        """Somebody wants to leave this machine: this is the way that is closed."""
        self.api.refused_hosts.append(self.path)
        self.send_error(403)

    def do_GET(self) -> None:
        self._json(200, {"data": [], "models": []})

    def do_POST(self) -> None:
        body = self._body()
        path = urlsplit(self.path).path
        dialect = next((one for one in DIALECTS if one.speaks(path)), None)
        if dialect is None:
            self._json(404, {"error": {"type": "not_found_error", "message": path}})
            return
        self._answer(self.api.answer_to(Asked(path, body), dialect), dialect, body)

    def _answer(self, answer: Answer, dialect: Dialect, body: dict[str, Any]) -> None:
        if isinstance(answer, Held):
            answer.go.wait(PATIENCE)
            self._answer(answer.then, dialect, body)
        elif isinstance(answer, Hang):
            self.api.closing.wait()
        elif isinstance(answer, Refuse):
            self._refuse(answer, dialect)
        elif isinstance(answer, Text | Shell):
            command = answer.command if isinstance(answer, Shell) else ""
            said = Said(self.api.next_id(), answer.text, command)
            self._stream(dialect.answer(said, body))

    def _refuse(self, answer: Refuse, dialect: Dialect) -> None:
        headers = {} if answer.retry_after is None else {"retry-after": str(answer.retry_after)}
        self._json(answer.status, dialect.refusal(answer.status, answer.word), headers)

    def _stream(self, events: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in events:
            self.wfile.write(event)
            self.wfile.flush()

    def _json(
        self, status: int, data: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        sent = json.dumps(data).encode()
        self.send_response(status)
        given = {"content-type": "application/json", "content-length": str(len(sent))}
        for name, value in (given | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)

    def _body(self) -> dict[str, Any]:
        sent = self.rfile.read(int(self.headers.get("content-length") or 0))
        found = json.loads(sent or b"{}")
        return found if isinstance(found, dict) else {}

    def handle(self) -> None:
        """Agents are killed in the middle of an answer: that is no failure of ours."""
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, *_words: object) -> None:
        pass
