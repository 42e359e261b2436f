"""A sandbox with git for tests of pull requests: one server per module, one repository per test."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import quote

import httpx

from hostler.sandbox.auth import token_for
from hostler.sandbox.server import Running, running

PEOPLE = ("alice", "bob", "carol", "dave")
NO_LIMITS = {
    "primary_limit": 0,
    "anonymous_limit": 0,
    "points_per_minute": 0,
    "creations_per_minute": 0,
    "creations_per_hour": 0,
}
TEXT = "".join(f"line {n}\n" for n in range(1, 21))
_numbers = count(1)


class House:
    """A repository of alice's: bob may write, carol may read, dave is a stranger."""

    def __init__(self, sandbox: Running, **repo: Any) -> None:
        self.sandbox = sandbox
        self.name = f"alice/house{next(_numbers)}"
        access = {"bob": "write", "carol": "read"}
        sandbox.seed({"repos": [{"name": self.name, "collaborators": access, **repo}]})
        # Straight into the application: these tests are about answers, not about sockets.
        app = httpx.ASGITransport(app=sandbox.app)
        self._client = httpx.AsyncClient(transport=app, base_url=sandbox.url)

    def close(self) -> None:
        self.sandbox.wait(self._client.aclose())

    def call(self, method: str, path: str, who: str = "alice", **options: Any) -> httpx.Response:
        url = path if path.startswith(("http", "/")) else f"/repos/{self.name}/{path}".rstrip("/")
        headers = {"accept": "application/vnd.github+json", **options.pop("headers", {})}
        if who != "nobody":
            secret = self.app_token() if who == "app" else token_for(who)
            headers["authorization"] = f"Bearer {secret}"
        return self.sandbox.wait(self._client.request(method, url, headers=headers, **options))

    def app_token(self) -> str:
        """A fresh token of the App that is installed on alice's repositories."""
        answer = self.sandbox.control.post("/apps/token", json={"app": "ci"})
        return str(answer.raise_for_status().json()["token"])

    def at_once(self, count: int, method: str, path: str, **fields: Any) -> list[int]:
        """The same request several times at the same moment; the statuses, sorted."""

        async def all_of_them() -> list[int]:
            headers = {"authorization": f"Bearer {token_for('alice')}"}
            url = f"/repos/{self.name}/{path}"
            asked = [
                self._client.request(method, url, headers=headers, json=fields)
                for _ in range(count)
            ]
            return sorted(answer.status_code for answer in await asyncio.gather(*asked))

        return self.sandbox.wait(all_of_them())

    def get(self, path: str, who: str = "alice", **options: Any) -> Any:
        answer = self.call("GET", path, who, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(self, method: str, path: str, who: str = "alice", /, **fields: Any) -> httpx.Response:
        return self.call(method, path, who, json=fields)

    def made(self, method: str, path: str, who: str = "alice", /, **fields: Any) -> Any:
        answer = self.send(method, path, who, **fields)
        assert answer.is_success, f"{answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def head(self, branch: str = "main") -> str:
        return str(self.get(f"git/ref/heads/{quote(branch)}")["object"]["sha"])

    def branch(self, name: str, start: str = "main") -> None:
        self.made("POST", "git/refs", ref=f"refs/heads/{name}", sha=self.head(start))

    def commit(self, branch: str, path: str = "file.txt", text: str = TEXT, **more: Any) -> str:
        """Write a file on a branch; the commit's sha."""
        old = self.call("GET", f"contents/{quote(path)}", params={"ref": branch})
        fields = {"message": f"Change {path}", "content": encoded(text), "branch": branch, **more}
        if old.status_code == 200:
            fields["sha"] = old.json()["sha"]
        return str(self.made("PUT", f"contents/{quote(path)}", **fields)["commit"]["sha"])

    def pull(self, branch: str = "topic", who: str = "alice", **fields: Any) -> int:
        """A pull request from a new branch with one new file; its number."""
        self.branch(branch)
        self.commit(branch, f"{branch}.txt")
        asked = {"title": f"Add {branch}", "head": branch, "base": "main", **fields}
        return int(self.made("POST", "pulls", who, **asked)["number"])

    def known(self, number: int) -> Any:
        """A pull request once it is known whether it merges."""
        self.get(f"pulls/{number}")
        return self.get(f"pulls/{number}")

    def events(self, number: int) -> list[str]:
        return [event["event"] for event in self.get(f"issues/{number}/events")]

    def clone_url(self, login: str = "alice") -> str:
        host = self.sandbox.url.removeprefix("http://")
        return f"http://x-access-token:{token_for(login)}@{host}/{self.name}.git"

    def tick(self, seconds: int = 1) -> None:
        self.sandbox.control.post("/clock", json={"advance": seconds}).raise_for_status()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@contextmanager
def street(**settings: Any) -> Iterator[Running]:
    """A running sandbox with people and without limits."""
    app = {"slug": "ci", "owner": "alice", "installed_on": ["alice"]}
    seed = {"users": [{"login": login} for login in PEOPLE], "apps": [app]}
    with running(seed, git=True, **{**NO_LIMITS, **settings}) as sandbox:
        sandbox.control.post("/clock", json={"frozen": True}).raise_for_status()
        yield sandbox
