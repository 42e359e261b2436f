"""A sandbox without sockets: requests go straight into the application, on one loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hostler.sandbox.app import SandboxApp
from hostler.sandbox.auth import token_for
from hostler.sandbox.git.repository import RepoStore
from hostler.sandbox.http.requests import SandboxRequest
from hostler.sandbox.state.entities import Repo
from hostler.sandbox.state.seed import Seeder

T = TypeVar("T")
ROOT = "http://localhost"
START = 1_800_000_000


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def ids(self) -> list[int]:
        return [item["id"] for item in self.json()]


@dataclass
class Local:
    """An application with a frozen clock, the user alice, and her repository alice/demo."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    limited: bool = False
    git: bool = False

    def __post_init__(self) -> None:
        self.repo_store = RepoStore.temporary() if self.git else None
        self.app = SandboxApp(repo_store=self.repo_store)
        self.world = self.app.world
        self.world.clock.freeze()
        self.world.clock.set(START)
        self.seed = Seeder(self.world)
        self.demo = self.repo("alice/demo", auto_init=self.git)
        self.seed.user("bob")
        if not self.limited:
            names = ("primary_limit", "anonymous_limit", "installation_limit", "points_per_minute")
            self.world.settings.change(dict.fromkeys(names, 0))
            self.world.settings.change({"creations_per_minute": 0, "creations_per_hour": 0})

    def close(self) -> None:
        self.run(self.app.webhook_sender.close())
        self.run(_finish_tasks())
        self.loop.close()
        if self.repo_store is not None:
            self.repo_store.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def repo(self, name: str, **values: Any) -> Repo:
        return self.run(self.seed.repo(name, **values))

    def issue(self, title: str = "something", user: str = "alice", **values: Any) -> Any:
        return self.seed.issue(self.demo, title, user, **values)

    def pass_time(self, seconds: float) -> None:
        self.world.clock.advance(seconds)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        login: str | None = "alice",
        token: str | None = None,
        root: str = ROOT,
        **headers: str,
    ) -> Answer:
        sent = {"user-agent": "tests", "host": "localhost"}
        secret = token or (token_for(login) if login else None)
        if secret:
            sent["authorization"] = f"Bearer {secret}"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        content = b"" if body is None else json.dumps(body).encode()
        plain, _, query = path.partition("?")
        request = SandboxRequest(method, plain, query, sent, content, root, "127.0.0.1")
        return self.run(self._respond(request))

    def at_once(self, count: int, path: str) -> list[Answer]:
        """The same reading of alice's, several times at the same moment."""
        headers = {"user-agent": "tests", "authorization": f"Bearer {token_for('alice')}"}
        request = SandboxRequest("GET", path, "", headers, b"", ROOT, "127.0.0.1")

        async def all_of_them() -> list[Answer]:
            return await asyncio.gather(*(self._respond(request) for _ in range(count)))

        return self.run(all_of_them())

    async def _respond(self, request: SandboxRequest) -> Answer:
        response = await self.app.respond(request)
        return Answer(response.status, response.headers, response.body)

    def get(self, path: str, **options: Any) -> Answer:
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.call("POST", path, body if body is not None else {}, **options)

    def patch(self, path: str, body: Any, **options: Any) -> Answer:
        return self.call("PATCH", path, body, **options)

    def put(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.call("PUT", path, body, **options)

    def delete(self, path: str, **options: Any) -> Answer:
        return self.call("DELETE", path, **options)

    def comment(self, number: int, body: str = "hello", **options: Any) -> Answer:
        return self.post(f"/repos/alice/demo/issues/{number}/comments", {"body": body}, **options)


async def _finish_tasks() -> None:
    """Wait for what goes on behind answers: a git process must not outlive its loop."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
