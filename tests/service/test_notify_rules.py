"""Calls for people: causes, keys, shapes, signatures, and what becomes of a call."""

from __future__ import annotations

import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config.settings import Notify
from hostler.errors import HostlerError
from hostler.model import format_timestamp, parse_timestamp
from hostler.service.notifications.delivery import (
    SIGNATURE_HEADER,
    NotificationFailed,
    build_request,
    read_address,
    to_header_text,
    validate_address,
)
from hostler.service.notifications.notifier import (
    MAX_ATTEMPTS,
    MAX_RETRY_DELAY,
    after_attempt,
    find_notices,
    notice_for_restart,
    notice_for_task,
)
from hostler.store.operator import Notice, NoticeState, Operation, OperationStatus
from hostler.store.tasks import Flow, Task, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WEB = "https://github.example/"
TASK = Task(
    id="t1",
    project="stable",
    repo_full_name="octo/stable",
    issue_number=7,
    flow=Flow.BUGFIX,
    title="Crash",
    author="ann",
    state=TaskState.BLOCKED,
    state_since=format_timestamp(NOW),
    order=1,
    reason="It is stuck.",
)
NOTICE = Notice("k", "blocked", "Blocked: Crash", "It is stuck.", "https://x/7", created_at="now")


@given(st.sampled_from(TaskState), st.integers(0, 3600))
def test_only_who_waits_for_somebody_is_worth_a_call(state, seconds):
    wake = format_timestamp(NOW + timedelta(seconds=seconds))
    notice = notice_for_task(replace(TASK, state=state, wake_at=wake), WEB)
    always = state in (TaskState.BLOCKED, TaskState.NEEDS_INPUT)
    assert (notice is not None) == (always or (state is TaskState.PARKED and seconds >= 600))
    if notice is not None:
        assert notice.occasion == state.value and "octo/stable#7" in notice.title


def test_a_question_is_the_text_of_its_call():
    asked = replace(TASK, state=TaskState.NEEDS_INPUT, question="Which one?", pr_number=8)
    notice = notice_for_task(asked, WEB)
    assert notice.body == "Which one?" and notice.url == "https://github.example/octo/stable/pull/8"
    assert notice_for_task(TASK, WEB).url.endswith("/issues/7")
    assert notice_for_task(replace(TASK, repo_full_name=None, issue_number=None), WEB).url == ""


def test_a_wait_that_is_repeated_for_one_reason_is_one_cause():
    long = format_timestamp(NOW + timedelta(hours=1))
    first = replace(TASK, state=TaskState.PARKED, wake_at=long)
    later = format_timestamp(NOW + timedelta(hours=2))
    again = replace(first, state_since=long, wake_at=later)
    assert notice_for_task(first, WEB).key == notice_for_task(again, WEB).key
    assert (
        notice_for_task(first, WEB).key != notice_for_task(replace(again, reason="Other."), WEB).key
    )
    assert notice_for_task(first, WEB).key != notice_for_task(replace(again, turn=1), WEB).key
    # A second block is another cause.
    assert (
        notice_for_task(TASK, WEB).key != notice_for_task(replace(TASK, state_since=later), WEB).key
    )


@pytest.mark.parametrize("status", OperationStatus)
def test_only_a_restart_that_failed_is_called_for(status):
    operation = Operation("restart", "ann", status=status, detail="Timed out.", created_at="then")
    notice = notice_for_restart(operation)
    assert (notice is not None) == (status is OperationStatus.FAILED)
    assert len(find_notices([TASK], operation, ["restart_failed"], WEB)) == int(notice is not None)
    assert len(find_notices([TASK], operation, ["blocked"], WEB)) == 1


@given(st.text(), st.text(), st.sampled_from(["generic", "slack", "ntfy"]), st.text(min_size=1))
def test_every_text_fits_every_shape_and_the_signature_is_of_the_body(title, body, shape, secret):
    secret = secret.encode("utf-8", "replace").decode()
    call = build_request(replace(NOTICE, title=title, body=body), shape, secret)
    expected = hmac.new(secret.encode(), call.body, sha256).hexdigest()
    assert call.headers[SIGNATURE_HEADER] == f"sha256={expected}"
    for name, value in call.headers.items():
        assert name.isascii() and value.isascii() and value.isprintable()
    if shape != "ntfy":
        assert json.loads(call.body)
    assert SIGNATURE_HEADER not in build_request(NOTICE, shape).headers


def test_foreign_text_makes_no_link_and_no_mention_in_slack():
    call = build_request(replace(NOTICE, body="<!channel> & <https://evil|x>"), "slack")
    said = json.loads(call.body)["text"]
    assert "<!channel>" not in said and "<https://evil" not in said
    assert "&lt;!channel&gt; &amp;" in said and said.endswith("<https://x/7>")


def test_the_generic_shape_says_everything():
    call = build_request(NOTICE, "generic")
    found = json.loads(call.body)
    assert found["version"] == 1 and found["occasion"] == "blocked" and found["at"] == "now"
    assert found["delivery"] == call.headers["X-Hostler-Delivery"]


@given(st.text())
def test_a_header_is_one_line_of_ascii(text):
    found = to_header_text(text)
    assert found.isascii() and "\n" not in found and "\r" not in found and len(found) <= 200


@given(st.lists(st.booleans(), max_size=12), st.floats(0, 10**9))
def test_a_call_is_tried_a_bounded_number_of_times(again, wanted):
    notice, now = NOTICE, NOW
    for may in again:
        notice = after_attempt(
            notice, NotificationFailed("HTTP 500", retryable=may, retry_after=wanted), now
        )
        if notice.state is not NoticeState.QUEUED:
            break
        wait = parse_timestamp(notice.not_before) - now
        assert timedelta(seconds=9) < wait <= MAX_RETRY_DELAY
        now += wait
    assert notice.attempts <= MAX_ATTEMPTS
    if False in again[:MAX_ATTEMPTS] or len(again) >= MAX_ATTEMPTS:
        assert notice.state is NoticeState.FAILED and notice.last_error == "HTTP 500"
    assert after_attempt(NOTICE, None, NOW).state is NoticeState.SENT


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "ftp://x/y",
        "http://example.com/x",
        "https://",
        "https://x/\u00e4",
        "http://[::1",
    ],
)
def test_an_address_that_cannot_be_called_is_refused_and_not_shown(url):
    with pytest.raises(HostlerError) as error:
        validate_address(url)
    assert not url or url not in " ".join(error.value.lines())


@pytest.mark.parametrize("url", ["https://hooks.example/x", "http://127.0.0.1:1/", "http://[::1]/"])
def test_https_and_this_machine_can_be_called(url):
    validate_address(url)


def test_the_address_comes_from_a_variable_or_a_file(tmp_path):
    file = tmp_path / "url"
    file.write_text("https://hooks.example/from-file\n")
    assert read_address(Notify(), {}) is None
    found = read_address(Notify(url_file=str(file), secret_env="KEY"), {"KEY": "s3cret"})
    assert found.url.endswith("from-file") and found.secret == "s3cret"
    assert "from-file" not in repr(found) and "s3cret" not in repr(found)
    for broken in (Notify(url_env="GONE"), Notify(url_file=str(tmp_path / "gone"))):
        with pytest.raises(HostlerError):
            read_address(broken, {})
