"""How fast the sandbox lists comments, against a bare server that says the same bytes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from bench.harness import Figures, interleaved

HOSTLER = str(Path(sys.executable).with_name("hostler"))
COMMENTS = 10_000
CONNECTIONS = 8
SECONDS = 2.0
ROUNDS = 5
PATH = "/repos/alice/demo/issues/comments"


def run() -> Figures:
    """Requests per second of both sizes, their ratio to bare answers, and the cost by page."""
    with _sandbox() as (url, token):
        sizes = {size: _get(url, f"{PATH}?per_page={size}", token) for size in (30, 100)}
        with _bare() as bare:
            rates = _rates(url, bare, token, {size: len(body) for size, body in sizes.items()})
        pages = _page_costs(url, token)
    return {
        "comments": COMMENTS,
        "connections": CONNECTIONS,
        "requests_per_second": rates["listing_30"],
        "requests_per_second_100_items": rates["listing_100"],
        "bare_requests_per_second": rates["bare_30"],
        "ratio_to_bare_30_items": rates["listing_30"] / rates["bare_30"],
        "ratio_to_bare_100_items": rates["listing_100"] / rates["bare_100"],
        "body_bytes_30_items": len(sizes[30]),
        "body_bytes_100_items": len(sizes[100]),
        **pages,
    }


def _rates(url: str, bare: str, token: str, sizes: dict[int, int]) -> dict[str, float]:
    """Median rates, measured in turns so that noise hits all alike."""
    targets = {f"listing_{size}": (url, f"{PATH}?per_page={size}") for size in sizes}
    targets |= {f"bare_{size}": (bare, f"/{length}") for size, length in sizes.items()}
    found: dict[str, list[float]] = {name: [] for name in targets}
    for _ in range(ROUNDS):
        for name, (where, path) in targets.items():
            found[name].append(_load(where, path, token))
    return {name: median(rates) for name, rates in found.items()}


def _page_costs(url: str, token: str) -> dict[str, float]:
    last = COMMENTS // 100
    with httpx.Client(base_url=url, headers=_headers(token), trust_env=False) as client:

        def read(page: int) -> None:
            client.get(f"{PATH}?per_page=100&page={page}&sort=updated").raise_for_status()

        taken = interleaved(
            60, first=lambda: read(1), middle=lambda: read(last // 2), last=lambda: read(last)
        )
    return {
        "page_cost_ratio_middle_to_first": taken["middle"] / taken["first"],
        "page_cost_ratio_last_to_first": taken["last"] / taken["first"],
    }


@contextmanager
def _sandbox() -> Iterator[tuple[str, str]]:
    """`hostler sandbox` in a process of its own, full of comments, with its limits off."""
    said = [{"user": "bob", "body": f"Comment {number}. " * 8} for number in range(COMMENTS)]
    seed = {"repos": [{"name": "alice/demo", "issues": [{"title": "long", "comments": said}]}]}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "seed.json"
        file.write_text(json.dumps(seed))
        with _process([HOSTLER, "sandbox", "--json", "--seed", str(file)]) as child:
            told = _first_json(child)
            off = dict.fromkeys(("primary_limit", "points_per_minute", "concurrent_limit"), 0)
            httpx.post(f"{told['url']}/_sandbox/settings", json=off).raise_for_status()
            yield told["url"], told["tokens"]["alice"]


@contextmanager
def _bare() -> Iterator[str]:
    """The same server with an application that does nothing but answer."""
    with _process([sys.executable, "-m", "bench.sandbox", "bare"]) as child:
        yield _first_json(child)["url"]


@contextmanager
def _process(argv: list[str]) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.terminate()
        child.wait(30)


def _first_json(child: subprocess.Popen[str]) -> dict[str, Any]:
    assert child.stdout is not None
    text = ""
    while True:
        line = child.stdout.readline()
        assert line, "the server ended before it began"
        text += line
        if line.rstrip() == "}":
            found: dict[str, Any] = json.loads(text)
            return found


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "User-Agent": "bench"}


def _get(url: str, path: str, token: str) -> bytes:
    answer = httpx.get(url + path, headers=_headers(token), trust_env=False)
    return answer.raise_for_status().content


def _load(url: str, path: str, token: str) -> float:
    """Requests per second, made by a second process."""
    argv = [sys.executable, "-m", "bench.sandbox", "load", url, path, token]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return float(done.stdout)


class _Connection(asyncio.Protocol):
    """Asks again as soon as it is answered; counts answers by their length alone."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._missing = 0
        self._head = b""
        self.answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            self._missing = _length(self._head[:end]) - (len(self._head) - end - 4)
            self._head = b""
        if self._missing <= 0:
            self.answers += 1
            self._transport.write(self._request)


def _length(head: bytes) -> int:
    assert head.startswith(b"HTTP/1.1 200"), head[:200]
    start = head.index(b"content-length: ") + 16
    return int(head[start:].split(b"\r\n", 1)[0])


async def _generate(url: str, path: str, token: str) -> float:
    host, port = url.removeprefix("http://").split(":")
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}:{port}", "User-Agent: bench"]
    request = "\r\n".join([*lines, f"Authorization: Bearer {token}", "", ""]).encode()
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: _Connection(request), host, int(port))
        for _ in range(CONNECTIONS)
    ]
    begun = sum(connection.answers for _, connection in made)
    start = time.perf_counter()
    await asyncio.sleep(SECONDS)
    answers = sum(connection.answers for _, connection in made) - begun
    return answers / (time.perf_counter() - start)


async def _say_hello() -> None:
    from hostler.sandbox.http.server import SandboxServer, listen_on, url_of_socket

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        body = b"x" * int(scope["path"][1:])
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    with listen_on(0) as listening:
        print(json.dumps({"url": url_of_socket(listening)}, indent=1), flush=True)
        await SandboxServer(app).serve(sockets=[listening])


if __name__ == "__main__":
    if sys.argv[1] == "bare":
        asyncio.run(_say_hello())
    else:
        print(asyncio.run(_generate(*sys.argv[2:])))
