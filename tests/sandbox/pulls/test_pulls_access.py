"""Who may do what to a pull request, and what hostile input comes to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pull_fixture import House

from example_counts import examples
from hostler.sandbox.server import Running

EVERYBODY = ("alice", "bob", "carol", "dave", "nobody")


@pytest.fixture(scope="module")
def house(git_sandbox: Running) -> Iterator[House]:
    made = House(git_sandbox)
    yield made
    made.close()


@pytest.fixture(scope="module")
def number(house: House) -> int:
    return house.pull("shared", who="bob")


# For each action: the answers to owner, writer, reader, stranger and nobody.
MATRIX: list[tuple[str, str, dict[str, Any], tuple[int, ...]]] = [
    ("GET", "pulls", {}, (200, 200, 200, 200, 200)),
    ("GET", "pulls/N", {}, (200, 200, 200, 200, 200)),
    ("GET", "pulls/N/files", {}, (200, 200, 200, 200, 200)),
    ("POST", "pulls", {"title": "x"}, (422, 422, 403, 403, 401)),
    ("PATCH", "pulls/N", {"title": "y"}, (200, 200, 403, 403, 401)),
    ("PUT", "pulls/N/merge", {"sha": "0" * 40}, (409, 409, 403, 403, 401)),
    ("PUT", "pulls/N/update-branch", {}, (422, 422, 403, 403, 401)),
    ("POST", "pulls/N/requested_reviewers", {}, (201, 201, 403, 403, 401)),
    ("POST", "pulls/N/reviews", {"event": "COMMENT", "body": "x"}, (200, 200, 200, 200, 401)),
    ("POST", "pulls/N/comments", {"body": "x"}, (422, 422, 422, 422, 401)),
    ("POST", "git/refs", {}, (422, 422, 403, 403, 401)),
    ("PUT", "contents/x", {}, (422, 422, 403, 403, 401)),
    ("DELETE", "git/refs/heads/none", {}, (422, 422, 403, 403, 401)),
    ("POST", "check-runs", {}, (403, 403, 403, 403, 401)),
    ("PUT", "branches/main/protection", {}, (200, 403, 403, 403, 401)),
]


@pytest.mark.parametrize(("method", "path", "fields", "expected"), MATRIX)
def test_who_may_do_what(
    house: House,
    number: int,
    method: str,
    path: str,
    fields: dict[str, Any],
    expected: tuple[int, ...],
) -> None:
    where = path.replace("N", str(number))
    found = [house.send(method, where, who, **fields).status_code for who in EVERYBODY]
    assert tuple(found) == expected


def test_the_author_changes_their_own_pull_request_with_no_more_than_reading(house: House) -> None:
    number = house.pull("mine", who="bob")
    house.made("PUT", "collaborators/bob", permission="pull")
    assert house.send("PATCH", f"pulls/{number}", "bob", title="z").status_code == 200
    assert house.send("PUT", f"pulls/{number}/merge", "bob").status_code == 403
    house.made("PUT", "collaborators/bob", permission="push")


def test_an_archived_repository_takes_nothing(git_sandbox: Running) -> None:
    house = House(git_sandbox)
    number = house.pull()
    house.made("PATCH", "", archived=True)
    assert house.send("PUT", f"pulls/{number}/merge").status_code == 403
    assert house.send("PATCH", f"pulls/{number}", title="x").status_code == 403
    assert house.get(f"pulls/{number}")["title"] == "Add topic"
    house.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-9, 9) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["title", "body", "head", "base", "state", "draft", "event", "comments", "path", "line",
     "commit_id", "in_reply_to", "ref", "sha", "force", "content", "message", "branch", "name",
     "head_sha", "output", "status", "conclusion", "reviewers", "merge_method", "position"]
)  # fmt: skip
TARGETS = st.sampled_from(
    ["POST pulls", "PATCH pulls/N", "PUT pulls/N/merge", "POST pulls/N/reviews",
     "POST pulls/N/comments", "POST git/refs", "PATCH git/refs/heads/shared", "PUT contents/x",
     "POST check-runs", "POST statuses/main", "POST pulls/N/requested_reviewers",
     "PUT pulls/N/update-branch", "PUT branches/main/protection"]
)  # fmt: skip


@settings(
    max_examples=examples(50, 120), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(target=TARGETS, fields=st.dictionaries(NAMES, JSON, max_size=5))
def test_no_body_breaks_the_house(
    house: House, number: int, target: str, fields: dict[str, Any]
) -> None:
    method, _, path = target.partition(" ")
    answer = house.call(method, path.replace("N", str(number)), "bob", json=fields)
    assert answer.status_code < 500


@settings(max_examples=examples(30, 80), deadline=None)
@given(
    path=st.sampled_from(
        ["commits/{}", "contents/{}", "git/ref/{}", "git/trees/{}", "compare/{}", "branches/{}",
         "pulls/{}", "pulls/comments/{}", "commits/{}/status", "actions/runs/{}", "check-runs/{}",
         "contents/README.md?ref={}", "commits?sha={}", "pulls?head={}", "actions/runs?created={}"]
    ),
    name=st.text(max_size=12) | st.sampled_from(["-x", "--all", "..", "HEAD^", "@{1}", "a:b"]),
)  # fmt: skip
def test_no_name_breaks_the_house(house: House, path: str, name: str) -> None:
    answer = house.call("GET", path.format(quote(name, safe="")))
    assert answer.status_code < 500
