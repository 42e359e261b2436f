"""A git host for tests: the bridge alone on a real socket, and a git client of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import uvicorn

from hostler.sandbox.git.process import Signature
from hostler.sandbox.git.repository import RepoStore
from hostler.sandbox.git.smart_http import GitAccess, GitBridge, GitCall, GitPush

T = TypeVar("T")
SOMEBODY = Signature("Ann", "ann@example.org", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


class Client:
    """The real git, run in a folder with an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_NAME": "Ann",
            "GIT_AUTHOR_EMAIL": "ann@example.org",
            "GIT_COMMITTER_NAME": "Ann",
            "GIT_COMMITTER_EMAIL": "ann@example.org",
            "LC_ALL": "C",
        }

    def try_(self, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *args],
            cwd=cwd or self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )

    def __call__(self, *args: str, cwd: Path | None = None) -> str:
        done = self.try_(*args, cwd=cwd)
        assert done.returncode == 0, f"git {args}: {done.stderr}"
        return done.stdout.strip()

    def start(self, *args: str, cwd: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["git", *args],
            cwd=cwd,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def clone(self, url: str, name: str = "work", *flags: str) -> Path:
        self("clone", "--quiet", *flags, url, name)
        return self.folder / name

    def commit(self, work: Path, path: str, text: str, message: str = "") -> str:
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
        self("add", "--", path, cwd=work)
        self("commit", "--quiet", "-m", message or f"Change {path}", cwd=work)
        return self("rev-parse", "HEAD", cwd=work)


class GitHost:
    """One public repository and two private ones; tokens are `<login>-token`."""

    NAMES: ClassVar = {"ann/open": 1, "ann/closed": 2, "ann/big": 3}
    WRITERS = frozenset({"ann"})

    def __init__(self, repo_store: RepoStore) -> None:
        self.repo_store = repo_store
        self.pushes: list[GitPush] = []
        self.asked = threading.Event()
        self.old_names = {"ann/former": "ann/open"}
        self.bridge = GitBridge(repo_store, self.look_up, self.pushed)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.port = 0

    def look_up(self, call: GitCall, token: str | None) -> GitAccess:
        self.asked.set()
        asked = f"{call.owner}/{call.name}"
        name = self.old_names.get(asked, asked)
        known = token is not None and token.endswith("-token")
        login = token.removesuffix("-token") if token and known else None
        return GitAccess(
            self.NAMES.get(name),
            login=login,
            can_read=name == "ann/open" or login in self.WRITERS,
            can_write=login in self.WRITERS,
            bad_credentials=token is not None and not known,
            moved_to=name if name != asked else None,
        )

    async def pushed(self, push: GitPush) -> None:
        self.pushes.append(push)

    def url(self, name: str, login: str | None = "ann") -> str:
        who = f"x-access-token:{login}-token@" if login else ""
        return f"http://{who}127.0.0.1:{self.port}/{name}.git"

    def path(self, name: str) -> Path:
        return self.repo_store.path(self.NAMES[name])

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's own loop."""
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)


@contextmanager
def serving(app: Any) -> Iterator[tuple[int, asyncio.AbstractEventLoop]]:
    """Serve an ASGI app on a free port, in a thread of its own."""
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="warning", lifespan="off", access_log=False)
    )
    ready = threading.Event()
    found: list[Any] = []

    async def main() -> None:
        startup = server.startup

        async def started(*args: Any, **kwargs: Any) -> None:
            await startup(*args, **kwargs)
            port = server.servers[0].sockets[0].getsockname()[1]
            found.extend((port, asyncio.get_running_loop()))
            ready.set()

        server.startup = started  # type: ignore[method-assign]
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        assert ready.wait(20), "the server did not start"
        yield found[0], found[1]
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def git_host(folder: Path) -> Iterator[GitHost]:
    """A running host whose repositories have their first commit."""
    host = GitHost(RepoStore.at(folder))

    async def fill() -> None:
        for name, number in host.NAMES.items():
            await host.repo_store.create(number, title=name, default_branch="main", person=SOMEBODY)

    with serving(host.bridge) as (host.port, host.loop):
        host.do(fill())
        yield host
