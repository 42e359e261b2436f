"""Output of runs: the last lines of any file, streams in words, trees of tasks."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.agents.events import Cost, Finished, LimitSignal, Retrying, Session, Started, ToolUse
from hostler.agents.lines import Line, Stream, Tail
from hostler.agents.outcomes import Outcome
from hostler.agents.wire import encode
from hostler.service import outputs
from hostler.service.forest import forest
from hostler.service.outputs import LastLines, last_lines
from hostler.service.readable import readable
from hostler.store.tasks import Flow, Task, TaskState

PIECES = st.lists(st.sampled_from([b"\n", b"a", b"bcd\n", b"\xc3\xa4", b"\r\n", b"x" * 30]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES, count=st.integers(0, 6), whole=st.booleans(), chunk=st.integers(1, 40))
def test_the_last_lines_are_those_of_the_whole_file(
    tmp_path, monkeypatch, pieces, count, whole, chunk
):
    monkeypatch.setattr(outputs, "CHUNK", chunk)
    path = tmp_path / "stdout"
    path.write_bytes(b"".join(pieces))
    tail = Tail(path, Stream.STDOUT)
    every = list(tail.rest() if whole else tail.lines())
    found = last_lines(path, Stream.STDOUT, count, whole=whole)
    assert list(found.lines) == every[max(0, len(every) - count) :]
    assert found.offset == tail.offset
    assert found.more == (len(every) > count)


def test_what_is_too_long_is_cut_at_its_front(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "CHUNK", 8)
    monkeypatch.setattr(outputs, "LARGEST", 64)
    path = tmp_path / "stdout"
    path.write_bytes(b"".join(b"line %03d\n" % number for number in range(1000)))
    found = last_lines(path, Stream.STDOUT, 900)
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
    assert last_lines(path, Stream.STDOUT, 5) == LastLines()


def said(kind: str, text: str, stream: Stream = Stream.STDOUT) -> list[str]:
    return list(readable(kind, Line(stream, text)))


def test_streams_are_told_in_words():
    assert said("command", "hello") == ["hello"]
    assert said("command", "oh", Stream.STDERR) == ["stderr: oh"]
    assert said("unknown", "hello") == ["hello"]
    assert said("scripted", encode(ToolUse("bash", "ls"))) == ["· bash ls"]
    assert said("scripted", encode(Started("claude", "2.0"))) == ["· started claude 2.0"]
    assert said("scripted", encode(Session("s-1"))) == ["· session s-1"]
    assert said("scripted", encode(Cost(1.0))) == []
    assert said("scripted", encode(Retrying(Outcome.OVERLOADED, 5))) == [
        "· waits 5 s and asks its provider again: overloaded"
    ]
    assert said("scripted", encode(LimitSignal(Outcome.QUOTA, resets_at="soon"))) == [
        "· limited by its provider until soon: quota"
    ]
    assert said("scripted", encode(Finished(True))) == ["· ended well"]
    assert said("scripted", encode(Finished(False, Outcome.AUTH, "No key."))) == [
        "· ended: auth. No key."
    ]
    assert said("scripted", '{"type": "text", "text": "two\\nlines"}') == ["two", "lines"]
    assert said("scripted", "Segmentation fault") == ["Segmentation fault"]


@given(st.sampled_from(["command", "scripted", "claude", ""]), st.text())
def test_no_line_is_lost_or_breaks(kind, text):
    for one in said(kind, text.replace("\n", " ")):
        assert "\n" not in one


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
    shown = forest(tasks)
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
    assert [(d, t.id) for d, t in forest([second, low, first, top])] == [
        (0, "t1"),
        (1, "t2"),
        (2, "t4"),
        (1, "t3"),
    ]
