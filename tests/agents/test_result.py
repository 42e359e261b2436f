"""The agent contract: result.json and DONE, whatever an agent leaves there."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from file_rights import holds_without_rights
from hostler.agents.result import (
    MAX_REPLIES,
    MAX_RESULT_BYTES,
    MAX_TEXT_LENGTH,
    MAX_TITLE_LENGTH,
    AgentResult,
    ResultFault,
    ResultStatus,
    parse_result_bytes,
    read_done,
    read_result,
    write_done,
)
from hostler.telemetry.redaction import REDACTED, register_secret, unregister_secret


def read(value) -> object:
    return parse_result_bytes(json.dumps(value).encode())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from(sorted(AgentResult.model_fields)), json_values)
statuses = st.sampled_from(["done", "blocked", "needs_input"])


@given(st.binary(max_size=200))
def test_any_bytes_give_a_result_or_a_fault_with_a_sentence(data):
    reading = parse_result_bytes(data)
    assert (reading.result is None) == (reading.fault is not None)
    assert reading.result or reading.sentence.endswith(".")


@given(objects, statuses)
def test_any_object_gives_a_result_or_names_what_is_wrong(value, status):
    reading = read({**value, "status": status})
    if reading.result is None:
        assert reading.fault in {ResultFault.INVALID, ResultFault.NEWER, ResultFault.NOT_JSON}
        assert reading.sentence
    else:
        # What is valid can be written down and read again, in UTF-8.
        again = parse_result_bytes(reading.result.model_dump_json().encode())
        assert again == reading


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    st.sampled_from(["summary", "pr_title", "pr_body", "commit_message", "question", "replies"]),
)
def test_no_text_of_a_result_tells_a_secret_that_we_know(around, place):
    secret = "short:se"
    text = f"{' '.join(around.split())[:200]}{secret}"
    value = [{"comment_id": 1, "body": text}] if place == "replies" else text
    register_secret(secret)
    try:
        reading = read({"status": "done", place: value})
    finally:
        unregister_secret(secret)
    assert reading.result is not None
    written = reading.result.model_dump_json()
    assert secret not in written and REDACTED in written


@pytest.mark.parametrize("place", ["summary", "pr_title"])
def test_a_hidden_secret_makes_no_text_too_long(place):
    longest = {"summary": MAX_TEXT_LENGTH, "pr_title": MAX_TITLE_LENGTH}[place]
    secret = "s:secret"
    register_secret(secret)
    try:
        reading = read({"status": "done", place: secret * (longest // len(secret))})
    finally:
        unregister_secret(secret)
    assert parse_result_bytes(reading.result.model_dump_json().encode()).result == reading.result


@given(st.integers(1))
def test_a_result_that_is_cut_anywhere_is_never_taken_for_a_whole_one(cut):
    whole = json.dumps({"status": "done", "summary": "äöü", "replies": []}, ensure_ascii=False)
    data = whole.encode()
    reading = parse_result_bytes(data[: cut % len(data)])
    assert reading.fault in {ResultFault.CUT_OFF, ResultFault.EMPTY}


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", ResultFault.EMPTY),
        (b" \n\t", ResultFault.EMPTY),
        (b"I am done!", ResultFault.NOT_JSON),
        (b'{"status": "done"} {}', ResultFault.NOT_JSON),
        (b'{"status": "done", "summary": NaN}', ResultFault.NOT_JSON),
        (b'{"status": "done", "summary": -Infinity}', ResultFault.NOT_JSON),
        (b'{"version": ' + b"9" * 5_000 + b"}", ResultFault.NOT_JSON),
        (b'{"status": "done", "x": ' + b"[" * 200_000, ResultFault.TOO_DEEP),
        (b'{"a":' * 100_000, ResultFault.TOO_DEEP),
        (b'{"status": "done", "summary": "\xff"}', ResultFault.NOT_UTF8),
        ('{"status": "done"}'.encode("utf-16"), ResultFault.NOT_UTF8),
        (b'{"status": "do', ResultFault.CUT_OFF),
        (b'{"status": "done",', ResultFault.CUT_OFF),
        (b'{"status": "done", "summary": "\xc3', ResultFault.CUT_OFF),
        (b"[]", ResultFault.NOT_AN_OBJECT),
        (b"null", ResultFault.NOT_AN_OBJECT),
        (b'"done"', ResultFault.NOT_AN_OBJECT),
        (b'{"version": 2, "status": "done"}', ResultFault.NEWER),
        (b'{"version": "1", "status": "done"}', ResultFault.INVALID),
        (b'{"version": true, "status": "done"}', ResultFault.INVALID),
        (b"{}", ResultFault.INVALID),
    ],
    ids=lambda value: value[:30] if isinstance(value, bytes) else value,
)
def test_each_kind_of_bad_bytes_has_a_fault_of_its_own(data, fault):
    assert parse_result_bytes(data).fault is fault


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({}, "status: is missing"),
        ({"status": "finished"}, "status"),
        ({"status": 1}, "status"),
        ({"status": "needs_input"}, "question"),
        ({"status": "needs_input", "question": " \n"}, "question"),
        ({"status": "blocked"}, "question"),
        ({"status": "done", "summary": ["x"]}, "summary"),
        ({"status": "done", "summary": "x" * (MAX_TEXT_LENGTH + 1)}, "summary"),
        ({"status": "done", "summary": "a\x00b"}, "summary"),
        ({"status": "done", "summary": "\ud800"}, "summary"),
        ({"status": "done", "pr_title": "a\nb"}, "pr_title"),
        ({"status": "done", "pr_title": "x" * (MAX_TITLE_LENGTH + 1)}, "pr_title"),
        ({"status": "done", "replies": {"5": "yes"}}, "replies"),
        ({"status": "done", "replies": ["yes"]}, "replies.0"),
        ({"status": "done", "replies": [{"body": "x"}]}, "replies.0.comment_id"),
        ({"status": "done", "replies": [{"comment_id": 0, "body": "x"}]}, "replies.0.comment_id"),
        ({"status": "done", "replies": [{"comment_id": True, "body": "x"}]}, "replies.0"),
        ({"status": "done", "replies": [{"comment_id": 1.5, "body": "x"}]}, "replies.0"),
        ({"status": "done", "replies": [{"comment_id": 2**63, "body": "x"}]}, "replies.0"),
        ({"status": "done", "replies": [{"comment_id": 5, "body": " "}]}, "replies.0.body"),
        ({"status": "done", "replies": [{"comment_id": 5, "body": "x"}] * 2}, "twice: [5]"),
        (
            {
                "status": "done",
                "replies": [{"comment_id": n, "body": "x"} for n in range(1, MAX_REPLIES + 2)],
            },
            "replies",
        ),
    ],
    ids=lambda value: str(value)[:50],
)
def test_each_broken_rule_is_named_by_its_place(value, place):
    reading = read(value)
    assert reading.fault is ResultFault.INVALID
    assert place in reading.sentence


def test_all_broken_rules_are_named_at_once():
    reading = read({"status": 1, "summary": [], "replies": {"5": "yes"}})
    assert len(reading.problems) == 3


def test_a_good_result_is_read_with_everything_in_it():
    reading = read(
        {
            "version": 1,
            "status": "done",
            "summary": "Mended.",
            "pr_title": " Mend the fence ",
            "replies": [
                {"comment_id": 5, "body": "Yes."},
                {"in_reply_to": "6", "body": "No.", "mood": "calm"},
            ],
            "confidence": 0.9,
        }
    )
    assert reading.result is not None
    assert reading.result.status is ResultStatus.DONE
    assert reading.result.pr_title == "Mend the fence"
    assert [reply.comment_id for reply in reading.result.replies] == [5, 6]


def test_a_byte_order_mark_is_no_mistake():
    assert parse_result_bytes(b"\xef\xbb\xbf" + b'{"status": "done"}').result is not None


@pytest.fixture
def path(tmp_path):
    return tmp_path / "result.json"


def test_no_file_is_missing_and_not_wrong(path):
    reading = read_result(path)
    assert reading.missing and not reading.wrong


def make_socket(path):
    server = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(path.parent)  # the address of a socket must be short
    try:
        server.bind(path.name)
    finally:
        os.chdir(here)
        server.close()


def make_good_target(path):
    target = path.with_name("good.json")
    target.write_text('{"status": "done"}')
    path.symlink_to(target)


def make_huge(path):
    with path.open("wb") as file:
        file.truncate(1 << 30)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (os.mkfifo, ResultFault.NOT_A_FILE),
        (os.mkdir, ResultFault.NOT_A_FILE),
        (make_socket, ResultFault.NOT_A_FILE),
        (make_good_target, ResultFault.SYMLINK),
        (lambda path: path.symlink_to("/dev/zero"), ResultFault.SYMLINK),
        (lambda path: path.symlink_to(path), ResultFault.SYMLINK),
        (make_huge, ResultFault.TOO_LARGE),
        (lambda path: path.write_bytes(b" " * (MAX_RESULT_BYTES + 1)), ResultFault.TOO_LARGE),
    ],
    ids=["fifo", "folder", "socket", "link", "link to a device", "loop", "gigabyte", "one more"],
)
def test_what_is_no_plain_small_file_is_not_read(path, make, fault):
    make(path)
    reading = read_result(path)
    assert reading.fault is fault
    assert reading.wrong
    assert reading.sentence


def test_a_device_is_not_read():
    assert read_result(Path("/dev/zero")).fault is ResultFault.NOT_A_FILE


def test_a_file_of_exactly_the_allowed_size_is_read(path):
    head = b'{"status": "done"}'
    path.write_bytes(head + b" " * (MAX_RESULT_BYTES - len(head)))
    assert read_result(path).result is not None


def test_a_file_without_rights_is_unreadable(path):
    path.write_text('{"status": "done"}')
    path.chmod(0)
    assert holds_without_rights(lambda: read_result(path).fault is ResultFault.UNREADABLE)
    path.chmod(0o400)
    assert holds_without_rights(lambda: read_result(path).fault is not ResultFault.UNREADABLE)


def test_done_is_a_file_and_nothing_else(tmp_path):
    done = tmp_path / "DONE"
    assert read_done(done) == read_done(tmp_path / "absent" / "DONE")
    assert not read_done(done).marked
    write_done(done)
    write_done(done)
    assert read_done(done).marked


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (os.mkdir, "a folder"),
        (os.mkfifo, "a pipe"),
        (lambda path: path.symlink_to("/etc/hosts"), "a symbolic link"),
    ],
)
def test_anything_else_in_the_place_of_done_is_a_mistake(tmp_path, make, word):
    done = tmp_path / "DONE"
    make(done)
    found = read_done(done)
    assert not found.marked
    assert word in found.wrong
