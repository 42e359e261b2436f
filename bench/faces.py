"""What faces cost when nothing happens: the service alone, then with its API, two browsers and top.

The service and `hostler top` are processes of their own; a browser is a client that follows the
tasks live, as the dashboard does.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]

from bench.harness import Figures
from bench.service import LABEL, PERSON, US, WITHOUT_LIMITS
from hostler.config.settings import Web
from hostler.sandbox.auth import token_for
from hostler.sandbox.server import Running, running
from hostler.web.auth import read_or_create_token as web_token
from hostler.web.discovery import read_live_url

HOSTLER = (sys.executable, "-m", "hostler")
REPOSITORIES, INTERVAL, SETTLE_SECONDS, SECONDS, BROWSERS = 20, 10, 25, 60, 2


def run() -> Figures:
    """CPU in percent of one core, and requests to GitHub, without faces and with them."""
    alone, watched = _measured(faces=False), _measured(faces=True)
    return {
        "seconds": SECONDS,
        "cpu_percent_service_alone": alone.service,
        "cpu_percent_service_watched": watched.service,
        "cpu_percent_top": watched.top,
        "cpu_percent_added": watched.service + watched.top - alone.service,
        "requests_alone": alone.requests.total(),
        "requests_watched": watched.requests.total(),
        "requests_ratio": watched.requests.total() / max(alone.requests.total(), 1),
        "requests_of_new_kinds": len(watched.requests.keys() - alone.requests.keys()),
    }


@dataclass(frozen=True)
class Cost:
    """What a quiet while took. Requests by method and path."""

    service: float
    top: float
    requests: Counter[tuple[str, str]]


def _measured(*, faces: bool) -> Cost:
    with ExitStack() as stack:
        sandbox = stack.enter_context(running(_seed(), git=True, **WITHOUT_LIMITS))
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _furnish(home, sandbox.url)
        more = ("--web", "--web-listen", "127.0.0.1:0") if faces else ()
        service = stack.enter_context(_program(home, "service", *more))
        top = stack.enter_context(_top(home)) if faces else None
        if faces:
            for _ in range(BROWSERS):
                stack.enter_context(_browser(home))
        time.sleep(SETTLE_SECONDS)
        before, asked = _seconds(service), _asked(sandbox)
        top_before = _seconds(top) if top else 0.0
        time.sleep(SECONDS)
        used = (_seconds(service) - before) / SECONDS
        used_by_top = (_seconds(top) - top_before) / SECONDS if top else 0.0
        return Cost(used * 100, used_by_top * 100, _asked(sandbox) - asked)


def _seed() -> dict[str, Any]:
    repos = [
        {
            "name": f"{PERSON}/r{number}",
            "auto_init": True,
            "collaborators": {US: "write"},
            "labels": [LABEL],
        }
        for number in range(REPOSITORIES)
    ]
    return {"users": [{"login": US}, {"login": PERSON}], "repos": repos}


def _furnish(home: Path, url: str) -> None:
    token = home / "github"
    token.write_text(token_for(US))
    token.chmod(0o600)
    lines = [
        f'[github]\napi_url = "{url}"\nweb_url = "{url}"\ntoken_file = "{token}"',
        f"[runtime]\npoll_interval_seconds = {INTERVAL}\nmemory_floor_mb = 0",
        '[agent.helper]\nkind = "command"\ncommand = ["true"]',
    ]
    for number in range(REPOSITORIES):
        whose = f'owner = "{PERSON}"\nname = "r{number}"\nallowed_users = ["{PERSON}"]'
        lines.append(f"[repo.r{number}]\n{whose}")
    (home / "hostler.toml").write_text("\n\n".join(lines) + "\n")


@contextmanager
def _program(home: Path, *words: str) -> Iterator[psutil.Process]:
    """A command of ours, until the end of the block."""
    with (home / "said").open("ab") as said:
        argv = [*HOSTLER, "--home", str(home), *words]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def _top(home: Path) -> Iterator[psutil.Process]:
    """`hostler top` on a terminal that somebody looks at."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    argv = [*HOSTLER, "--home", str(home), "top"]
    process = subprocess.Popen(argv, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    threading.Thread(target=_read_all, args=(ours,), daemon=True).start()
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def _read_all(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        return


@contextmanager
def _browser(home: Path) -> Iterator[None]:
    """Somebody who follows all tasks live."""
    url = _url(home)
    token = web_token(Web(), home, {}, require_own=False)
    bearer = {"Authorization": f"Bearer {token.value}"}
    with httpx.Client(base_url=url, headers=bearer, trust_env=False, timeout=None) as client:
        client.get("/api/v1/status").raise_for_status()
        with client.stream("GET", "/api/v1/live/tasks") as stream:
            threading.Thread(target=_follow, args=(stream,), daemon=True).start()
            yield


def _follow(stream: httpx.Response) -> None:
    try:
        for _ in stream.iter_lines():
            pass
    except (httpx.HTTPError, httpx.StreamError, RuntimeError):
        return


def _url(home: Path) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := read_live_url(home):
            return found
        time.sleep(0.1)
    raise TimeoutError((home / "said").read_text()[-2000:])


def _seconds(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def _asked(sandbox: Running) -> Counter[tuple[str, str]]:
    entries = sandbox.app.pipeline.ledger.answer({"limit": "1000000"})["entries"]
    return Counter((row["method"], row["path"].partition("?")[0]) for row in entries)
