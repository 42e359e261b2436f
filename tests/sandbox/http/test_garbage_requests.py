"""No input gives a 500 or hangs."""

from __future__ import annotations

import asyncio
import json
import socket

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from local_sandbox import Local

from example_counts import examples
from hostler.sandbox.auth import token_for

PATIENCE = 10
METHODS = st.sampled_from(
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"]
)
PIECES = st.one_of(
    st.sampled_from(["1", "1", "1", "alice", "bug"]),
    st.sampled_from(["demo", "2", "0", "-1", "x", "..", "%2F", "%00", "%ff", "9" * 30]),
    st.text(max_size=6),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["open", "closed", "bug", "alice", "\ud800", "a" * 70_000, 10**30]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = """
title body state state_reason labels assignees name new_name color description private content
issue_id permission config events active kind status advance set frozen repo number to users repos
apps repositories repository_ids lock_reason visibility archived
"""
FIELDS = st.sampled_from(NAMES.split())
GIT_NAMES = """
title body state ref sha force path branch message content base head author committer name email
commit_message merge_method draft commit_id line side start_line event comments expected_head_sha
commit_title context target_url conclusion head_sha output
"""
GIT_FIELDS = st.sampled_from(GIT_NAMES.split())


def bodies(fields: st.SearchStrategy, values: st.SearchStrategy) -> st.SearchStrategy:
    """Mostly objects with known fields."""
    return st.one_of(
        st.dictionaries(fields, values, max_size=10).map(lambda value: json.dumps(value).encode()),
        values.map(lambda value: json.dumps(value).encode()),
        st.binary(max_size=40),
    )


BODIES = bodies(FIELDS, VALUES)
QUERIES = st.dictionaries(
    st.sampled_from(["since", "sort", "direction", "page", "per_page", "state", "labels", "x"]),
    st.text(max_size=12) | st.sampled_from(["9" * 30, "-1", "٣", "2026-01-01", "updated", "desc"]),
    max_size=3,
)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["authorization", "if-none-match", "if-modified-since", "x-github-api-version", "accept"]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20)
    | st.sampled_from(["Bearer a.b.c", "Basic Og==", f"Bearer {token_for('alice')}"]),
    max_size=2,
)


async def knock(app, method, path, query, headers, body) -> int:
    """One request through the whole application; its status."""
    sent = {"user-agent": "tests", "host": "localhost", "content-length": str(len(body))}
    sent = {"authorization": f"Bearer {token_for('alice')}"} | sent | headers
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "query_string": query.encode("utf-8", "replace"),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
        "client": ("127.0.0.1", 1),
    }
    said = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        said.append(message)

    await asyncio.wait_for(app(scope, receive, send), PATIENCE)
    return said[0]["status"]


def served() -> list[tuple[str, str]]:
    """Every method and template that is answered."""
    local = Local()
    try:
        routes = [(route.method, route.template) for route in local.app.pipeline.router.routes]
        controls = [(method, f"/_sandbox/{area}") for method, area in local.app.control._actions]
    finally:
        local.close()
    return sorted({*routes, *controls, ("DELETE", "/_sandbox/faults/{id}")})


SERVED = served()
KNOWN = {"{owner}": "alice", "{repo}": "demo"}


@st.composite
def targets(draw) -> tuple[str, str]:
    """Mostly something that exists, asked for in the right way but for its variables."""
    method, template = draw(st.sampled_from(SERVED))
    chance = draw(st.integers(0, 9))
    if chance == 0:
        return draw(METHODS), "/" + "/".join(draw(st.lists(PIECES, max_size=5)))
    parts = [
        part if not part.startswith("{") else KNOWN.get(part) or draw(PIECES)
        for part in template.split("/")
    ]
    return draw(METHODS) if chance == 1 else method, "/".join(parts) or "/"


@settings(max_examples=examples(40, 100), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(targets(), QUERIES, HEADERS, BODIES), min_size=1, max_size=12))
@example([(("POST", "/repos/alice/demo/issues"), {}, {}, b'{"title": "\\ud800"}')])
def test_no_request_gives_a_500(requests):
    local = Local()
    try:
        local.issue(labels=("bug",))
        local.seed.comment(local.world.truth.all(type(local.issue("two")))[0], "alice", "hello")
        for (method, path), query, headers, body in requests:
            text = "&".join(f"{name}={value}" for name, value in query.items())
            status = local.run(knock(local.app, method, path, text, headers, body))
            local.app.pipeline.faults.remove()
            assert status < 500, (method, path, text, headers, body)
    finally:
        local.close()


GIT_WORDS = (
    *(
        "refs/heads/b",
        "refs/tags/t",
        "heads/b",
        "heads/main",
        "main",
        "topic",
        "b",
        "HEAD",
        "0" * 40,
    ),
    *(
        "README.md",
        ":!x",
        ":(glob)x",
        ":x",
        "*",
        "-x",
        "--help",
        "a b",
        "x/y",
        "aGk=",
        "@{-1}",
        "^main",
    ),
    *(
        "main...topic",
        "topic...main",
        "..",
        "BLOB",
        "TREE",
        "MAIN",
        "TOPIC",
        "1",
        "squash",
        "merge",
    ),
    *("alice:topic", "success", "APPROVE", "closed", "open", "a" * 300),
)
GIT_VALUES = st.sampled_from(GIT_WORDS) | st.sampled_from([True, 1, 2**70, -1]) | VALUES
GIT_PIECES = st.sampled_from(GIT_WORDS) | PIECES
GIT_PLACES = ("git/", "contents", "branches", "commits", "compare", "merges", "pulls", "readme")
GIT_SERVED = [
    served for served in SERVED if any(f"/{{repo}}/{place}" in served[1] for place in GIT_PLACES)
]
GIT_QUERIES = st.dictionaries(
    st.sampled_from(["ref", "sha", "path", "head", "base", "author", "since", "until", "page"]),
    GIT_PIECES | st.sampled_from(["0001-01-01", "9999-12-31", "9" * 30]),
    max_size=3,
)


@st.composite
def git_targets(draw) -> tuple[str, str]:
    """Something that stands on git, with its variables at random."""
    method, template = draw(st.sampled_from(GIT_SERVED))
    parts = [
        part if not part.startswith("{") else KNOWN.get(part) or draw(GIT_PIECES)
        for part in template.split("/")
    ]
    return method, "/".join(parts)


def furnish(local: Local) -> dict[str, str]:
    """A second branch with a pull request; the shas behind the words of the strategies."""
    root = "/repos/alice/demo"
    start = local.get(f"{root}/git/ref/heads/main").json()["object"]["sha"]
    local.post(f"{root}/git/refs", {"ref": "refs/heads/topic", "sha": start})
    file = {"message": "m", "content": "aGk=", "branch": "topic"}
    made = local.put(f"{root}/contents/x", file).json()
    local.post(f"{root}/pulls", {"title": "t", "head": "topic", "base": "main"})
    commit = made["commit"]
    shas = {"BLOB": made["content"]["sha"], "TREE": commit["tree"]["sha"]}
    return shas | {"MAIN": start, "TOPIC": commit["sha"]}


@settings(max_examples=examples(10, 25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(git_targets(), GIT_QUERIES, bodies(GIT_FIELDS, GIT_VALUES)),
        min_size=1,
        max_size=12,
    )
)
@example([(("PUT", "/repos/alice/demo/contents/:x"), {}, b'{"message": "m", "content": ""}')])
@example(
    [(("PATCH", "/repos/alice/demo/git/refs/heads/topic"), {}, b'{"sha": "BLOB", "force": true}')]
)
def test_no_request_about_git_gives_a_500(requests):
    local = Local(git=True)
    try:
        shas = furnish(local)
        for (method, path), query, body in requests:
            text = "&".join(f"{name}={value}" for name, value in query.items())
            for word, sha in shas.items():
                path, text = path.replace(word, sha), text.replace(word, sha)
                body = body.replace(word.encode(), sha.encode())
            status = local.run(knock(local.app, method, path, text, {}, body))
            assert status < 500, (method, path, text, body)
    finally:
        local.close()


def test_bytes_that_are_no_http_are_answered_or_cut(sandbox):
    port = int(sandbox.url.rsplit(":", 1)[1])
    for noise in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\xff" * 9000,
    ):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as raw:
            raw.settimeout(PATIENCE)
            try:
                raw.sendall(noise)
                # Fails with ENOTCONN if the server has hung up already.
                raw.shutdown(socket.SHUT_WR)
                answer = raw.recv(1000)
            except OSError as error:
                assert not isinstance(error, TimeoutError)
                continue
            assert answer == b"" or b" 400 " in answer.split(b"\r\n")[0]
    with sandbox.client("alice") as alice:
        assert alice.get("/user").status_code == 200


def test_a_body_that_is_too_large_is_refused(sandbox):
    with sandbox.client("alice") as alice:
        answer = alice.post("/repos/alice/demo/issues", content=b"x" * (9 * 1024 * 1024))
        assert answer.status_code == 413
