"""Clone, fetch and push over HTTP with the real git (`git http-backend`).

A fetch streams through. A push streams in, but its last bytes wait for the repository's lock, so
pushes take effect one after another and it is known exactly which refs each one moved.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from hostler.sandbox.git import http_backend, process, refs
from hostler.sandbox.git.errors import GitError, NoSuchObject
from hostler.sandbox.git.http_backend import ClientGone, ClientStalled, Receive, Send
from hostler.sandbox.git.refs import RefMove
from hostler.sandbox.git.repository import Repository, RepoStore

_PATH = re.compile(r"/([^/]+)/([^/]+?)(?:\.git)?/(info/refs|git-upload-pack|git-receive-pack)")

FETCH = "git-upload-pack"
PUSH = "git-receive-pack"


@dataclass(frozen=True, slots=True)
class GitCall:
    """What a git client asks for."""

    owner: str
    name: str
    service: str
    action: str

    @property
    def writes(self) -> bool:
        return self.service == PUSH

    @property
    def query(self) -> str:
        return f"service={self.service}" if self.action == "info/refs" else ""


@dataclass(frozen=True, slots=True)
class GitAccess:
    """What the caller may do with the repository that was named.

    `number` is None where there is no such repository. `moved_to` is its present
    `owner/name` where it was found under an old one. `bad_credentials` says that a token
    was given and not accepted.
    """

    number: int | None
    login: str | None = None
    can_read: bool = False
    can_write: bool = False
    bad_credentials: bool = False
    moved_to: str | None = None


@dataclass(frozen=True, slots=True)
class GitRefusal:
    """An answer in place of git's own."""

    status: int
    text: str
    headers: tuple[tuple[str, str], ...] = ()


AccessLookup = Callable[[GitCall, str | None], GitAccess]
"""Tells from the call and the token given (if any) how the caller stands."""

_ASK_FOR_CREDENTIALS = GitRefusal(
    401, "Authentication required.", (("www-authenticate", 'Basic realm="GitHub Sandbox"'),)
)


def _parse_git_call(method: str, path: str, query: str) -> GitCall | None:
    """Return the git request behind a URL; None if it is not a git request."""
    found = _PATH.fullmatch(path)
    if not found:
        return None
    owner, name, action = found.groups()
    if action != "info/refs":
        return GitCall(owner, name, action, action) if method == "POST" else None
    service = parse_qs(query).get("service", [""])[0]
    wanted = method == "GET" and service in {FETCH, PUSH}
    return GitCall(owner, name, service, action) if wanted else None


def token_of(authorization: str | None) -> str | None:
    """Return the token in an Authorization header: Bearer, token, or Basic with it as password."""
    scheme, _, value = (authorization or "").strip().partition(" ")
    if scheme.lower() in {"bearer", "token"}:
        return value.strip() or None
    if scheme.lower() != "basic":
        return None
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return user if password in {"", "x-oauth-basic"} else password


def access_refusal(call: GitCall, standing: GitAccess) -> GitRefusal | None:
    """Return why this call is refused; None if it is allowed."""
    if standing.bad_credentials:
        return _ASK_FOR_CREDENTIALS
    if standing.number is None or not standing.can_read:
        # A stranger cannot tell a private repository from none at all.
        return (
            _ASK_FOR_CREDENTIALS
            if standing.login is None
            else GitRefusal(404, "Repository not found.")
        )
    if standing.moved_to:
        return _redirect_refusal(call, standing.moved_to)
    if not call.writes or standing.can_write:
        return None
    if standing.login is None:
        return _ASK_FOR_CREDENTIALS
    where = f"{call.owner}/{call.name}.git"
    return GitRefusal(403, f"Permission to {where} denied to {standing.login}.")


def _redirect_refusal(call: GitCall, name: str) -> GitRefusal:
    query = f"?{call.query}" if call.query else ""
    location = f"/{quote(name)}.git/{call.action}{query}"
    status = 301 if call.action == "info/refs" else 307
    return GitRefusal(status, "Moved.", (("location", location),))


MAX_GIT_CALLS = 16
PUSH_TIMEOUT_SECONDS = 300.0
IDLE_TIMEOUT_SECONDS = 60.0
MAX_REPORT_BYTES = 1_000_000

Scope = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class GitPush:
    """What one push did."""

    number: int
    login: str
    moves: tuple[RefMove, ...]


PushListener = Callable[[GitPush], Awaitable[None]]
"""Told of each push before its client is answered, while the repository's lock is held."""


@dataclass(slots=True)
class GitBridge:
    """Serves `/{owner}/{name}.git/…`; everything else is not its business."""

    repo_store: RepoStore
    lookup: AccessLookup
    on_push: PushListener
    timeout_seconds: Callable[[], float | None] = lambda: IDLE_TIMEOUT_SECONDS
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_GIT_CALLS))

    def wants(self, scope: Scope) -> bool:
        """Return whether this request comes from a git client."""
        return _git_call(scope) is not None

    async def idle(self) -> None:
        """Wait until no git child of this bridge is left."""
        for _ in range(MAX_GIT_CALLS):
            await self._places.acquire()
        for _ in range(MAX_GIT_CALLS):
            self._places.release()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = _git_call(scope)
        if call is None:
            await _send_refusal(send, GitRefusal(404, "Not found."))
            return
        headers = dict(scope["headers"])
        authorization = headers.get(b"authorization")
        token = token_of(authorization.decode("latin-1") if authorization else None)
        standing = self.lookup(call, token)
        refusal = access_refusal(call, standing)
        if refusal is not None:
            await _send_refusal(send, refusal)
            return
        async with self._places:
            await self._serve(call, standing, scope, receive, send)

    async def _serve(
        self, call: GitCall, standing: GitAccess, scope: Scope, receive: Receive, send: Send
    ) -> None:
        assert standing.number is not None
        try:
            repo = self.repo_store.get(standing.number)
            env = _cgi_environment(call, repo.path, standing.login, scope["headers"])
            base = process.clean_environment(self.repo_store.runner.home)
            child = await process.start_git(("http-backend",), cwd=repo.path, env=base | env)
        except NoSuchObject:
            await _send_refusal(send, GitRefusal(404, "Repository not found."))
            return
        errors = asyncio.create_task(http_backend.read_limited(child.stderr, 10_000))
        client = _GitClient(receive, send, self.timeout_seconds())
        try:
            if call.action == PUSH:
                who = standing.login or "ghost"
                await self._push(child, repo, GitPush(standing.number, who, ()), client)
            else:
                await _relay_both(child, client)
        except ClientGone:
            pass
        except ClientStalled:
            if not client.answered:
                await _send_refusal(
                    send, GitRefusal(408, "Nothing came for too long.", (("connection", "close"),))
                )
        except GitError:
            if not client.answered:
                await _send_refusal(send, GitRefusal(409, "The repository cannot take this now."))
        finally:
            await _end_child(child, errors)

    async def _push(
        self,
        child: asyncio.subprocess.Process,
        repo: Repository,
        push: GitPush,
        client: _GitClient,
    ) -> None:
        reading = asyncio.create_task(http_backend.read_limited(child.stdout, MAX_REPORT_BYTES))
        try:
            last = await http_backend.forward_all_but_last(
                child, client.receive, client.timeout_seconds
            )
            async with repo.lock:
                before = await refs.snapshot(repo)
                async with asyncio.timeout(PUSH_TIMEOUT_SECONDS):
                    await http_backend.finish_input(child, last)
                    report = await asyncio.shield(reading)
                moved = refs.moves(before, await refs.snapshot(repo))
                if moved:
                    await self.on_push(GitPush(push.number, push.login, tuple(moved)))
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        await http_backend.send_response(client.send, *http_backend.split_response(report))


@dataclass(slots=True)
class _GitClient:
    """The other side, which is waited for only so long."""

    receive: Receive
    send_message: Send
    timeout_seconds: float | None
    answered: bool = False

    async def send(self, message: http_backend.Message) -> None:
        self.answered = True
        await http_backend.wait_within(self.timeout_seconds, self.send_message(message))


def _git_call(scope: Scope) -> GitCall | None:
    return _parse_git_call(scope["method"], scope["path"], scope["query_string"].decode("latin-1"))


async def _relay_both(child: asyncio.subprocess.Process, client: _GitClient) -> None:
    """Both directions at once, until git has answered or the client has gone."""
    feeding = asyncio.create_task(_feed_until_gone(child, client))
    answering = asyncio.create_task(http_backend.relay_response(child, client.send))
    try:
        await asyncio.wait({feeding, answering}, return_when=asyncio.FIRST_COMPLETED)
        await (answering if answering.done() else feeding)
    finally:
        feeding.cancel()
        answering.cancel()
        await asyncio.gather(feeding, answering, return_exceptions=True)


async def _feed_until_gone(child: asyncio.subprocess.Process, client: _GitClient) -> None:
    async for piece in http_backend.read_body(client.receive, client.timeout_seconds):
        await http_backend.write_input(child, piece)
    await http_backend.finish_input(child)
    while (await client.receive())["type"] != "http.disconnect":
        pass


async def _end_child(child: asyncio.subprocess.Process, errors: asyncio.Task[bytes]) -> None:
    """End the child and close its pipes, even when cancelled."""
    errors.cancel()
    await asyncio.gather(errors, return_exceptions=True)
    if child.stdout is not None and child.stdout.at_eof():
        # It has said all it had to say and is about to leave by itself.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), process.GRACE_SECONDS)
    await asyncio.shield(process.end_process(child))


async def _send_refusal(send: Send, refusal: GitRefusal) -> None:
    text = f"{refusal.text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    headers += [(b"content-length", str(len(text)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in refusal.headers]
    await http_backend.send_response(
        send, http_backend.ResponseHead(refusal.status, tuple(headers)), text
    )


# No content-length: http-backend would then never notice that its input ended early.
_FORWARDED = {
    b"content-type": "CONTENT_TYPE",
    b"content-encoding": "HTTP_CONTENT_ENCODING",
    b"git-protocol": "GIT_PROTOCOL",
}


def _cgi_environment(
    call: GitCall, repository: Path, login: str | None, headers: Iterable[tuple[bytes, bytes]]
) -> dict[str, str]:
    """Return what `git http-backend` reads about a request."""
    given = {
        name: value.decode("latin-1")
        for key, value in headers
        if (name := _FORWARDED.get(key.lower()))
    }
    return given | {
        "GIT_PROJECT_ROOT": str(repository.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{repository.name}/{call.action}",
        "REQUEST_METHOD": "GET" if call.action == "info/refs" else "POST",
        "QUERY_STRING": call.query,
        "REMOTE_USER": login or "",
        "REMOTE_ADDR": "127.0.0.1",
    }
