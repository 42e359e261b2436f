"""One sandbox server for all tests, and one repository in it for each."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any

import httpx

from hostler.clock import FakeClock
from hostler.forge.actions import find_tokens
from hostler.forge.github.client.transport import HttpTransport
from hostler.forge.github.hub import GitHubHub
from hostler.model import RepoName
from hostler.sandbox.auth import token_for
from hostler.sandbox.control.endpoints import move_clock
from hostler.sandbox.server import Running, running

US = "bot"
PEOPLE = ("alice", "bob", "carol", US)
NO_LIMITS = {
    "primary_limit": 0,
    "anonymous_limit": 0,
    "installation_limit": 0,
    "points_per_minute": 0,
    "creations_per_minute": 0,
    "creations_per_hour": 0,
}
TEXT = "".join(f"line {n}\n" for n in range(1, 21))
_numbers = count(1)


@contextmanager
def start_sandbox(*, git: bool) -> Iterator[Running]:
    """A running sandbox with people, without limits, and with a clock that stands still."""
    seed = {"users": [{"login": login} for login in PEOPLE]}
    with running(seed, git=git, **NO_LIMITS) as sandbox:
        sandbox.control.post("/clock", json={"frozen": True}).raise_for_status()
        yield sandbox


class Known:
    """Credentials that need not be asked for."""

    def get_secret(self, repo: RepoName) -> str:
        return token_for(US)

    def renew(self, stale: str) -> bool:
        return False

    def login(self) -> str:
        return US

    def account(self, repo: RepoName) -> str:
        return "known"


class SandboxRepo:
    """A repository of alice's in which we and bob may write; our clock and GitHub's go together."""

    def __init__(self, sandbox: Running) -> None:
        self.sandbox = sandbox
        self.name = RepoName("alice", f"house{next(_numbers)}")
        access = {US: "write", "bob": "write", "carol": "read"}
        sandbox.seed({"repos": [{"name": str(self.name), "collaborators": access}]})
        # No request is under way between tests, so the sandbox may be touched from here.
        self.tune(visibility_delay=0, **NO_LIMITS)
        sandbox.app.pipeline.faults.remove()
        sandbox.app.pipeline.ledger.clear()
        sandbox.app.pipeline.limits.clear()
        self.clock = FakeClock(datetime.fromtimestamp(self.github_now(), UTC))
        self.hub = self.new_hub()
        self.forge = self.hub.repo(self.name)
        self._clients: dict[str, httpx.Client] = {}

    def close(self) -> None:
        self.hub.close()
        for client in self._clients.values():
            client.close()

    def new_hub(self, **options: Any) -> GitHubHub:
        wire = HttpTransport(self.sandbox.url, self.clock, **options)
        return GitHubHub(wire, Known(), self.clock, pauses=(0.0, 0.0))

    def control(self, method: str, path: str, /, **values: Any) -> Any:
        answer = self.sandbox.control.request(method, path, json=values or None)
        answer.raise_for_status()
        return answer.json()

    def tune(self, **values: Any) -> None:
        self.sandbox.app.world.settings.change(values)

    def github_now(self) -> float:
        return self.sandbox.app.world.clock.now()

    def pass_time(self, seconds: float) -> None:
        move_clock(self.sandbox.app, {"advance": seconds})
        self.clock.advance(seconds)

    def fault(self, kind: str, **values: Any) -> None:
        self.sandbox.app.pipeline.faults.add({"kind": kind, **values})

    def do(self, method: str, path: str, who: str = "alice", /, **fields: Any) -> Any:
        """What a person does; the answer's JSON."""
        url = path if path.startswith("/") else f"/repos/{self.name}/{path}".rstrip("/")
        answer = self._client(who).request(method, url, json=fields or None)
        assert answer.is_success, f"{answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def issue(self, title: str = "something", who: str = "alice", **fields: Any) -> int:
        return int(self.do("POST", "issues", who, title=title, **fields)["number"])

    def say(self, number: int, body: str = "hello", who: str = "alice") -> int:
        return int(self.do("POST", f"issues/{number}/comments", who, body=body)["id"])

    def commit(self, branch: str, path: str = "file.txt") -> None:
        content = base64.b64encode(TEXT.encode()).decode()
        fields = {"message": f"Add {path}", "content": content, "branch": branch}
        self.do("PUT", f"contents/{path}", **fields)

    def branch(self, name: str = "topic") -> str:
        """A branch with a commit of its own."""
        sha = self.do("GET", "git/ref/heads/main")["object"]["sha"]
        self.do("POST", "git/refs", ref=f"refs/heads/{name}", sha=sha)
        self.commit(name, f"{name}.txt")
        return name

    def pull(self, name: str = "topic", who: str = "alice") -> int:
        made = self.do(
            "POST", "pulls", who, title=f"Add {name}", head=self.branch(name), base="main"
        )
        return int(made["number"])

    def remark(self, pull: int, body: str = "hm", who: str = "bob", name: str = "topic") -> int:
        sha = self.do("GET", f"pulls/{pull}")["head"]["sha"]
        fields = {"body": body, "commit_id": sha, "path": f"{name}.txt", "line": 1, "side": "RIGHT"}
        return int(self.do("POST", f"pulls/{pull}/comments", who, **fields)["id"])

    def comments(self, number: int) -> list[dict[str, Any]]:
        """What really is there, visible or not."""
        self.tune(visibility_delay=0)
        self.pass_time(400)
        return self.do("GET", f"issues/{number}/comments?per_page=100")

    def marked(self, number: int, token: str) -> int:
        """How many comments of a thread carry a token."""
        return sum(token in find_tokens(comment["body"]) for comment in self.comments(number))

    def ledger(self, **query: Any) -> list[dict[str, Any]]:
        found = self.sandbox.app.pipeline.ledger.answer({"limit": "1000", **query})
        mine = (f"/repos/{self.name}", "/repositories/", "/rate_limit", "/user", "/app")
        return [row for row in found["entries"] if row["path"].startswith(mine)]

    def get_raw(self, path: str, who: str = "alice") -> httpx.Response:
        return self._client(who).get(path)

    def _client(self, who: str) -> httpx.Client:
        if who not in self._clients:
            self._clients[who] = self.sandbox.client(who)
        return self._clients[who]
