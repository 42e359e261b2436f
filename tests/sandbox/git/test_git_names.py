"""The pure rules around git: who passes the gate, which lines a patch shows."""

from __future__ import annotations

import base64

import pytest

from hostler.sandbox.git import diffs, http_backend, smart_http
from hostler.sandbox.git.smart_http import GitAccess, GitCall

PATCH = """\
@@ -1,3 +1,4 @@ title
 one
-two
+2
+two and a half
 three
@@ -10,2 +11,2 @@
 ten
-eleven
+11
\\ No newline at end of file"""


def test_lines_of_a_patch_are_found_on_either_side() -> None:
    found = diffs.find_line(PATCH, 12, "RIGHT")
    assert found and (found.text, found.position, found.old) == ("+11", 9, None)
    gone = diffs.find_line(PATCH, 2, "LEFT")
    assert gone and (gone.text, gone.position) == ("-two", 2)
    assert diffs.find_line(PATCH, 7, "RIGHT") is None
    assert diffs.line_at_position(PATCH, 6) is None


def test_a_hunk_is_quoted_down_to_the_line() -> None:
    found = diffs.find_line(PATCH, 11, "RIGHT")
    assert found and diffs.hunk_excerpt(PATCH, found) == "@@ -10,2 +11,2 @@\n ten"


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        ("", None),
        ("Bearer abc", "abc"),
        ("token abc", "abc"),
        (basic("anyone:abc"), "abc"),
        (basic("x-access-token:abc"), "abc"),
        (basic("abc:x-oauth-basic"), "abc"),
        (basic("abc:"), "abc"),
        ("Basic ???", ""),
        ("Digest abc", None),
    ],
)
def test_the_token_is_found_in_every_header_that_git_sends(
    header: str | None, token: str | None
) -> None:
    assert smart_http.token_of(header) == token


@pytest.mark.parametrize(
    ("service", "standing", "status"),
    [
        (smart_http.FETCH, GitAccess(1, can_read=True), None),
        (smart_http.PUSH, GitAccess(1, can_read=True), 401),
        (smart_http.PUSH, GitAccess(1, "ann", True), 403),
        (smart_http.PUSH, GitAccess(1, "ann", True, True), None),
        (smart_http.FETCH, GitAccess(1, "ann"), 404),
        (smart_http.FETCH, GitAccess(1), 401),
        (smart_http.FETCH, GitAccess(None), 401),
        (smart_http.FETCH, GitAccess(None, "ann"), 404),
        (smart_http.FETCH, GitAccess(1, can_read=True, bad_credentials=True), 401),
        (smart_http.FETCH, GitAccess(1, "ann", True, True, moved_to="a/b"), 301),
    ],
)
def test_the_gate(service: str, standing: GitAccess, status: int | None) -> None:
    refusal = smart_http.access_refusal(GitCall("o", "r", service, "info/refs"), standing)
    assert (refusal.status if refusal else None) == status


def test_a_child_that_says_nothing_becomes_a_500() -> None:
    head, _ = http_backend.split_response(b"")
    assert head.status == 500
    head, body = http_backend.split_response(b"Status: 403 Forbidden\r\nX-A: 1\r\n\r\nno")
    assert (head.status, head.headers, body) == (403, ((b"x-a", b"1"),), b"no")
