"""Output of runs: the last lines of any file, streams in words, trees of tasks."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recordings import as_bytes, recordings

from hostler.agents.adapters.registry import KINDS
from hostler.agents.agent_files import OutputLine, OutputStream, OutputTail
from hostler.agents.events import (
    CostEvent,
    Finished,
    LimitSignal,
    RequestFailed,
    Retrying,
    SessionEvent,
    Started,
    Text,
    ToolUse,
    Usage,
    encode_event,
)
from hostler.agents.outcomes import Outcome
from hostler.service import run_output
from hostler.service.run_output import (
    MAX_PIECE_LENGTH,
    LastLines,
    OutputFormatter,
    event_json,
    parse_line,
    read_last_lines,
)
from hostler.service.tasks.summary import order_as_tree
from hostler.store.tasks import Flow, Task, TaskState

PIECES = st.lists(st.sampled_from([b"\n", b"a", b"bcd\n", b"\xc3\xa4", b"\r\n", b"x" * 30]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES, count=st.integers(0, 6), whole=st.booleans(), chunk=st.integers(1, 40))
def test_the_last_lines_are_those_of_the_whole_file(
    tmp_path, monkeypatch, pieces, count, whole, chunk
):
    monkeypatch.setattr(run_output, "CHUNK_BYTES", chunk)
    path = tmp_path / "stdout"
    path.write_bytes(b"".join(pieces))
    tail = OutputTail(path, OutputStream.STDOUT)
    every = list(tail.rest() if whole else tail.lines())
    found = read_last_lines(path, OutputStream.STDOUT, count, whole=whole)
    assert list(found.lines) == every[max(0, len(every) - count) :]
    assert found.offset == tail.offset
    assert found.more == (len(every) > count)


def test_what_is_too_long_is_cut_at_its_front(tmp_path, monkeypatch):
    monkeypatch.setattr(run_output, "CHUNK_BYTES", 8)
    monkeypatch.setattr(run_output, "MAX_READ_BYTES", 64)
    path = tmp_path / "stdout"
    path.write_bytes(b"".join(b"line %03d\n" % number for number in range(1000)))
    found = read_last_lines(path, OutputStream.STDOUT, 900)
    assert found.more and 5 <= len(found.lines) <= 8
    assert found.lines[-1].text == "line 999"


@pytest.mark.parametrize("kind", ["nothing", "folder", "pipe", "link"])
def test_other_things_than_files_have_no_lines(tmp_path, kind):
    path = tmp_path / "stdout"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "secret").write_text("secret\n")
        path.symlink_to(tmp_path / "secret")
    assert read_last_lines(path, OutputStream.STDOUT, 5) == LastLines()


def said(kind: str, *texts: str, stream: OutputStream = OutputStream.STDOUT) -> list[str]:
    words = OutputFormatter(kind)
    told = [one for text in texts for one in words.of(OutputLine(stream, text))]
    return [*told, *words.rest()]


IN_WORDS = [
    (ToolUse("Bash", "make test"), ["-> Bash: make test"]),
    (ToolUse("Think"), ["-> Think"]),
    (Started("claude", "2.0"), ["started claude 2.0"]),
    (SessionEvent("s-1"), ["session s-1"]),
    (Retrying(Outcome.RATE_LIMITED, 2, 429), ["retrying after 2 s (429)"]),
    (Retrying(Outcome.NETWORK), ["retrying (network)"]),
    (LimitSignal(Outcome.QUOTA, resets_at="soon"), ["limit: quota until soon"]),
    (LimitSignal(Outcome.QUOTA, person=True), ["limit: quota until a person acts"]),
    (LimitSignal(Outcome.RATE_LIMITED, 429, 20), ["limit: rate_limited, again in 20 s"]),
    (LimitSignal(Outcome.OVERLOADED), ["limit: overloaded"]),
    (RequestFailed(Outcome.AUTH, 401), ["request failed: auth (401)"]),
    (Usage(1200, 80, 900, total=True), ["tokens: 1,200 in, 80 out, 900 from a cache"]),
    (Usage(1, 2, of="m-1"), []),
    (CostEvent(0.0123, total=True), ["cost: 0.0123 USD"]),
    (CostEvent(0.0), []),
    (Finished(True, text="Said before."), ["result: success"]),
    (Finished(False, Outcome.AUTH, "No key."), ["result: auth. No key."]),
    (Finished(False), ["result: failed"]),
    (Text("two\nlines"), ["two", "lines"]),
]


@pytest.mark.parametrize(("event", "lines"), IN_WORDS, ids=str)
def test_streams_are_told_in_words(event, lines):
    assert said("scripted", encode_event(event)) == lines


def test_what_is_in_no_form_is_shown_as_it_is():
    assert said("command", "hello") == ["hello"]
    assert said("command", "oh", stream=OutputStream.STDERR) == ["stderr: oh"]
    assert said("unknown", "hello") == ["hello"]
    assert said("scripted", "Segmentation fault") == ["Segmentation fault"]


def test_a_retry_that_is_told_beside_the_stream_is_told_once():
    line = "Attempt 1 failed with status 429. Retrying with backoff..."
    assert said("gemini", line, stream=OutputStream.STDERR) == ["retrying (429)"]


@given(st.lists(st.text(max_size=30), max_size=8), st.booleans())
def test_text_in_pieces_is_told_as_if_it_came_whole(pieces, with_tool):
    texts = [encode_event(Text(piece, delta=True)) for piece in pieces]
    tool = [encode_event(ToolUse("Bash", "ls"))] if with_tool else []
    whole = "".join(pieces).split("\n")
    told = said("scripted", *texts, *tool)
    assert told == (whole if whole[-1] else whole[:-1]) + (["-> Bash: ls"] if tool else [])


def test_an_endless_piece_is_not_held_back():
    words = OutputFormatter("scripted")
    piece = OutputLine(
        OutputStream.STDOUT, encode_event(Text("x" * (3 * MAX_PIECE_LENGTH + 1), delta=True))
    )
    assert [len(one) for one in words.of(piece)] == [MAX_PIECE_LENGTH] * 3
    assert list(words.rest()) == ["x"] and list(words.rest()) == []


@given(st.sampled_from(["command", "scripted", "claude", "codex", "gemini", ""]), st.text())
def test_no_line_is_lost_or_breaks(kind, text):
    for one in said(kind, text.replace("\n", " ")):
        assert "\n" not in one


@given(st.sampled_from([*KINDS, "unknown"]), st.sampled_from(list(OutputStream)), st.text())
def test_every_line_is_an_event_for_programs_too(kind, stream, text):
    told = [event_json("r1", event) for event in parse_line(kind, OutputLine(stream, text))]
    assert json.loads(json.dumps(told)) == told
    assert all(one["run"] == "r1" and one["type"] for one in told)


def test_recorded_runs_are_told_without_a_line_of_json():
    for one in recordings()[::5]:
        words = OutputFormatter(one.cli)
        lines = [
            OutputLine(OutputStream.STDOUT, text)
            for text in as_bytes(one.stdout).decode().splitlines()
        ]
        told = [text for line in lines for text in words.of(line)]
        assert all(not text.startswith('{"type"') for text in told), one.full_name


def task(number: int, parent: int | None) -> Task:
    return Task(
        id=f"t{number}",
        project="p",
        repo_full_name=None,
        issue_number=None,
        flow=Flow.TASK,
        title="T",
        author="ann",
        state=TaskState.QUEUED,
        state_since="",
        order=number,
        parent_task=None if parent is None else f"t{parent}",
    )


@given(
    st.dictionaries(st.integers(0, 12), st.none() | st.integers(0, 14), max_size=12), st.randoms()
)
def test_a_forest_shows_everybody_once_and_children_below_parents(parents, chance):
    tasks = [task(number, parent) for number, parent in parents.items()]
    chance.shuffle(tasks)
    shown = order_as_tree(tasks)
    assert sorted(one.id for _, one in shown) == sorted(one.id for one in tasks)
    stack: list[Task] = []
    for depth, one in shown:
        assert depth <= len(stack)
        stack[depth:] = [one]
        if depth:
            assert one.parent_task == stack[depth - 1].id
    straight = {one.id: one for one in tasks if _ends(one, {t.id: t for t in tasks})}
    for depth, one in shown:
        if one.id in straight:
            assert (depth > 0) == (one.parent_task in {t.id for t in tasks})


def _ends(one: Task, known: dict[str, Task]) -> bool:
    """Whether the way up from a task leads out of any circle."""
    for _ in known:
        above = known.get(one.parent_task or "")
        if above is None:
            return True
        one = above
    return False


def test_siblings_stand_in_their_order():
    top, first, second = task(1, None), task(2, 1), task(3, 1)
    low = replace(task(4, 2), order=0)
    assert [(d, t.id) for d, t in order_as_tree([second, low, first, top])] == [
        (0, "t1"),
        (1, "t2"),
        (2, "t4"),
        (1, "t3"),
    ]
