"""Every answer and every failure of the connection becomes one of our errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler import errors
from hostler.errors import (
    Conflict,
    Forbidden,
    ForgeError,
    GitHubPollingError,
    Gone,
    Invalid,
    Moved,
    NotFound,
    RateLimited,
    Refused,
    ServerFailed,
    Unauthorized,
    Unclear,
    Unreachable,
)
from hostler.forge.github.client.transport import (
    MAYBE_SENT_ERRORS,
    ApiRequest,
    _translate_error,
    error_from_answer,
)
from hostler.forge.github.rate_limit.limits import (
    FIRST_PAUSE,
    MAX_PAUSE,
    parse_budget,
    parse_refusal,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DATE = "Thu, 01 Jan 2026 00:10:00 GMT"
RESET = str(int((NOW + timedelta(minutes=30)).timestamp()))
READ, WRITE = ApiRequest("GET", "http://x/y"), ApiRequest("POST", "http://x/y")


def every(kind):
    for sub in kind.__subclasses__():
        yield sub
        yield from every(sub)


def test_every_error_of_httpx_is_mapped():
    """A new one in a new version must be thought about: may anything have been sent?"""
    abstract = {httpx.TransportError, httpx.TimeoutException, httpx.NetworkError}
    concrete = {kind for kind in every(httpx.RequestError) if kind.__module__.startswith("httpx")}
    assert concrete - abstract - {httpx.ProtocolError} == set(MAYBE_SENT_ERRORS)


@pytest.mark.parametrize("kind", MAYBE_SENT_ERRORS, ids=lambda kind: kind.__name__)
def test_a_failed_read_changed_nothing_and_a_failed_write_may_have(kind):
    assert isinstance(_translate_error(READ, kind("x")), Unreachable)
    expected = Unclear if MAYBE_SENT_ERRORS[kind] else Unreachable
    assert isinstance(_translate_error(WRITE, kind("x")), expected)


def test_an_unknown_error_of_httpx_is_taken_for_the_worst():
    class New(httpx.TransportError):
        pass

    assert isinstance(_translate_error(WRITE, New("x")), Unclear)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (405, Conflict),
        (406, Invalid),
        (409, Conflict),
        (410, Gone),
        (415, Invalid),
        (422, Invalid),
        (451, Forbidden),
    ],
)
def test_each_status_has_its_type_and_keeps_githubs_words(status, kind):
    found = error_from_answer("GET /x", status, {"message": "because"})
    assert type(found) is kind
    assert (found.status, found.message) == (status, "because")
    assert "GET /x" in found.what


def test_an_invalid_field_is_named():
    detail = {"resource": "Issue", "field": "title", "code": "missing_field"}
    data = {"message": "Validation Failed", "errors": [detail, "plain words"]}
    found = error_from_answer("POST /x", 422, data)
    assert found.fields == (("title", "missing_field", ""), ("", "custom", "plain words"))
    assert "title missing_field" in found.what


@given(st.integers(400, 499), st.none() | st.text() | st.integers() | st.lists(st.text()))
def test_no_answer_is_too_strange_to_be_an_error(status, data):
    assert isinstance(error_from_answer("GET /x", status, data), Refused)
    assert isinstance(
        error_from_answer("GET /x", status, {"message": data, "errors": data}), Refused
    )


@pytest.mark.parametrize("status", [403, 429])
class TestLimits:
    def test_retry_after_comes_first(self, status):
        headers = {"retry-after": "17", "x-ratelimit-remaining": "0", "x-ratelimit-reset": RESET}
        found = parse_refusal(status, {**headers, "date": DATE}, "", NOW, 0)
        assert (found.until, found.limit) == (NOW + timedelta(seconds=17), "primary")
        assert parse_refusal(status, {"retry-after": "17"}, "", NOW, 0).limit == "secondary"

    def test_a_spent_budget_waits_for_its_reset_by_githubs_clock(self, status):
        headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": RESET, "date": DATE}
        found = parse_refusal(status, headers, "API rate limit exceeded", NOW, 0)
        assert (found.until, found.limit) == (NOW + timedelta(minutes=20), "primary")

    def test_a_reset_in_the_past_is_still_a_wait(self, status):
        headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1", "date": DATE}
        assert parse_refusal(status, headers, "", NOW, 0).until > NOW

    def test_words_alone_wait_a_minute_and_longer_each_time(self, status):
        words = "You have exceeded a secondary rate limit."
        waits = [
            parse_refusal(status, {"x-ratelimit-remaining": "9"}, words, NOW, n).until - NOW
            for n in range(20)
        ]
        assert waits[:3] == [FIRST_PAUSE, FIRST_PAUSE * 2, FIRST_PAUSE * 4]
        assert waits[-1] == MAX_PAUSE


def test_an_ordinary_refusal_is_no_limit():
    assert parse_refusal(403, {"x-ratelimit-remaining": "9"}, "Must have rights", NOW, 0) is None
    assert parse_refusal(404, {"retry-after": "9"}, "", NOW, 0) is None
    assert parse_refusal(429, {}, "", NOW, 0).limit == "secondary"


@given(st.dictionaries(st.sampled_from(["date", "x-ratelimit-reset", "retry-after"]), st.text()))
def test_nonsense_in_headers_is_no_budget(headers):
    parse_budget(headers)
    found = parse_refusal(429, headers, "", NOW, 0)
    assert NOW < found.until <= NOW + MAX_PAUSE


def test_the_types_are_those_of_the_drawn_tree():
    drawn = errors.__doc__
    for kind in {ForgeError, *every(ForgeError)}:
        assert f" {kind.__name__} " in drawn


def raised(sandbox_repo, path="/user", method="GET", **fault):
    sandbox_repo.fault(**fault)
    client = sandbox_repo.forge.session
    with pytest.raises(ForgeError) as caught:
        client.read(path) if method == "GET" else client.write(method, path, {})
    return caught.value


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_failing_server_is_asked_three_times_and_then_named(sandbox_repo, status):
    found = raised(sandbox_repo, kind="status", status=status, count=None)
    assert isinstance(found, ServerFailed)
    assert found.status == status
    assert len(sandbox_repo.ledger(path="/user")) == 3


@pytest.mark.parametrize("fault", ["status", "cut"])
def test_a_read_survives_two_failures(sandbox_repo, fault):
    sandbox_repo.fault(fault, count=2, route="/user")
    assert sandbox_repo.forge.session.read("/user").data["login"] == "bot"


@pytest.mark.parametrize("when", ["before", "after", "body"])
def test_a_cut_connection_is_unreachable_for_a_read_and_unclear_for_a_write(sandbox_repo, when):
    found = raised(sandbox_repo, kind="cut", when=when, count=None, method="GET")
    assert isinstance(found, Unreachable)
    sandbox_repo.sandbox.app.pipeline.faults.remove()
    number = sandbox_repo.issue()
    sandbox_repo.fault("cut", when=when)
    with pytest.raises(Unclear):
        sandbox_repo.forge.session.write(
            "POST", sandbox_repo.forge.session.path(f"issues/{number}/comments"), {"body": "x"}
        )
    assert len(sandbox_repo.ledger(method="POST", login="bot")) <= 1


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_failing_server_leaves_a_write_unclear_and_unrepeated(sandbox_repo, status):
    number = sandbox_repo.issue()
    sandbox_repo.fault("fail_after", status=status, method="POST", count=None)
    with pytest.raises(Unclear):
        sandbox_repo.forge.session.write(
            "POST", sandbox_repo.forge.session.path(f"issues/{number}/comments"), {"body": "x"}
        )
    assert len(sandbox_repo.ledger(method="POST", login="bot")) == 1


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("limit", ["primary", "secondary"])
def test_both_limits_in_both_shapes_are_known_and_not_retried(sandbox_repo, limit, status):
    if limit == "primary":
        sandbox_repo.tune(primary_limit=5000)
    sandbox_repo.sandbox.app.pipeline.limits.clear()
    found = raised(sandbox_repo, kind="limit", limit=limit, status=status)
    assert isinstance(found, RateLimited)
    assert found.limit == limit
    waited = (found.until - sandbox_repo.clock.now()).total_seconds()
    assert waited == pytest.approx(3600 if limit == "primary" else 60, abs=2)
    assert len(sandbox_repo.ledger(path="/user")) == 1


def test_a_silent_secondary_limit_doubles_the_wait(sandbox_repo):
    sandbox_repo.tune(secondary_retry_after=0)
    try:
        waits = []
        for _ in range(3):
            found = raised(sandbox_repo, kind="limit", limit="secondary")
            waits.append((found.until - sandbox_repo.clock.now()).total_seconds())
            sandbox_repo.pass_time(waits[-1])
        assert waits == [60, 120, 240]
        sandbox_repo.forge.session.read("/user")
        found = raised(sandbox_repo, kind="limit", limit="secondary")
        assert (found.until - sandbox_repo.clock.now()).total_seconds() == 60
    finally:
        sandbox_repo.tune(secondary_retry_after=60)


def test_no_connection_is_unreachable_even_for_a_write(sandbox_repo):
    client = sandbox_repo.forge.session
    client.transport.base_url = "http://127.0.0.1:9"
    for call in (lambda: client.read("/user"), lambda: client.write("POST", "/user", {})):
        with pytest.raises(Unreachable) as caught:
            call()
        assert caught.value.safe


def test_a_polling_error_names_its_surface_and_how_long_to_wait():
    cause = RateLimited("GET /x", 403, NOW, "primary")
    found = GitHubPollingError("octo/stable", "repo_issues", cause)
    assert (found.surface, found.until, found.cause) == ("repo_issues", NOW, cause)
    assert GitHubPollingError("o/r", "s", Moved("GET /x", 301, "y")).until is None
