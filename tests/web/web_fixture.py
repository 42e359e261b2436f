"""A home with an API in this process, without a socket or service."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from intake_yard import migrated
from why_stage import Stage

from hostler.clock import SystemClock
from hostler.service.scheduling.admission import ADMISSION_SCOPES
from hostler.store import open_store
from hostler.store.tasks import change_task
from hostler.web.app import add_authentication, build_api
from hostler.web.auth import AuthPolicy, SessionStore
from hostler.web.context import WebContext
from hostler.web.live.hub import LiveHub

TOKEN = "a-token-of-the-tests-0123456789"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
BASE = "http://127.0.0.1:8473"


@cache
def _api():
    """Build the routes once, because that takes longer than most tests."""
    return build_api()


class ApiClient:
    """Sends requests to an application in this process, one at a time."""

    def __init__(self, app, headers: dict[str, str]) -> None:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            return await self.http.request(method, path, **more)

        return asyncio.run(ask())

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)

    def put(self, path: str, **more: Any) -> httpx.Response:
        return self.request("PUT", path, **more)

    def patch(self, path: str, **more: Any) -> httpx.Response:
        return self.request("PATCH", path, **more)


class WebFixture(Stage):
    """A home with test rows and an API."""

    def __init__(self, home: Path, store, clock, **live: Any) -> None:
        super().__init__(store, clock)
        self.home = home
        self.current_settings = self.settings()
        self.context = WebContext(
            home,
            store,
            clock,
            lambda: self.current_settings,
            "ann",
            live=LiveHub(store, clock, **live),
        )
        self.sessions = SessionStore(clock)
        self.app = add_authentication(_api(), self.context, AuthPolicy(TOKEN), self.sessions)

    def client(self, **headers: str) -> ApiClient:
        """Return a client, by default with the token."""
        return ApiClient(self.app, headers or BEARER)

    def change(self, task, **values):
        with self.store.write(*ADMISSION_SCOPES) as tx:
            return change_task(tx, task, replace(task, **values))


@contextmanager
def open_web_fixture(home: Path, clock=None, **live: Any):
    clock = clock or SystemClock()
    home.mkdir(parents=True, exist_ok=True)
    (home / "hostler.db").write_bytes(migrated())
    store = open_store(home, clock=clock)
    api_home = WebFixture(home, store, clock, **live)
    try:
        yield api_home
    finally:
        api_home.context.live.close()
        store.close()


@contextmanager
def temporary_home():
    """Create a home directory in memory if possible."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder) / "home"
