"""The live view at any size, and the plain one."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from demo_scenes import ALMANAC, BREST, END, TIDE_TABLE, with_issue, with_pull, with_task
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from hostler.cli.demo.display import DemoEvent, PlainView, build_rows
from hostler.cli.demo.observe import DemoSnapshot, RunSnapshot
from hostler.cli.demo.screen import LiveView, render_frame

LONG = DemoEvent("almanac #1", "hostler", "says something long. " * 20)
WIDE = DemoEvent("almanac #1", "agent", "長い言葉" * 40)


def drawn(lines: list[DemoEvent], sight: DemoSnapshot, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=False)
    ticker = [(n / 10, line) for n, line in enumerate(lines)]
    with console.capture() as capture:
        console.print(render_frame(12.3, build_rows(sight), ticker, width, height))
    return capture.get().rstrip("\n").split("\n")


@given(
    st.integers(20, 220),
    st.integers(14, 70),
    st.lists(st.sampled_from([LONG, WIDE]), max_size=90),
    st.sampled_from([DemoSnapshot(), END]),
)
def test_the_view_fits_and_does_not_wrap(width, height, lines, sight):
    picture = drawn(lines, sight, width, height)
    assert len(picture) <= height
    assert max(map(cell_len, picture)) <= width


def test_eighty_columns_show_everything_that_matters():
    picture = "\n".join(drawn([LONG] * 40, END, 80, 24))
    for word in ("what is happening", "tide-table #2", "implement", "ignored", "#4 merged"):
        assert word in picture
    assert "1900 counts" not in picture
    assert "1900 counts as a leap year" in "\n".join(drawn([], END, 120, 40))


def test_the_newest_lines_are_shown():
    lines = [DemoEvent("almanac #1", "ada", f"line {n}") for n in range(50)]
    picture = drawn(lines, END, 80, 24)
    assert picture[-1].endswith("line 49")


LIVE = RunSnapshot("r", "running", 1, words=("Thinking.",))
HAPPENING = {
    "an agent speaks": ({"state": "running", "runs": (LIVE,)}, "Thinking."),
    "an agent starts": (
        {"state": "running", "runs": (replace(LIVE, words=()),)},
        "agent starting",
    ),
    "our own part": (
        {"state": "running", "runs": (replace(LIVE, state="finishing"),)},
        "commit, required tests, push",
    ),
    "a queue": ({"state": "queued"}, "waiting for a slot"),
    "a failure": ({"state": "retrying", "reason": "It exited with 1."}, "It exited with 1."),
    "a merge": ({"state": "awaiting_feedback"}, "merged; picked up at the next poll"),
    "no pull request yet": (
        {"state": "awaiting_feedback", "pull": None},
        "opening the pull request",
    ),
}


@pytest.mark.parametrize(("changes", "told"), HAPPENING.values(), ids=HAPPENING)
def test_a_row_says_what_is_happening(changes, told):
    assert build_rows(with_task(END, ALMANAC, "bugfix", **changes))[0].happening == told


def test_a_comment_that_waits_is_named():
    sight = with_task(END, ALMANAC, "bugfix", state="awaiting_feedback")
    pull = END.github.pulls[0]
    sight = with_pull(sight, ALMANAC, 4, merged_by=None, remarks=pull.remarks[:2])
    assert build_rows(sight)[0].happening == "new comment; picked up at the next poll"


def test_a_question_is_shown_until_it_is_answered():
    sight = with_task(END, TIDE_TABLE, "small_job", state="needs_input", reason="Which one?")
    assert build_rows(with_issue(sight, BREST, comments=()))[3].happening == "Which one?"
    assert build_rows(sight)[3].happening == "answered; picked up at the next poll"


def test_the_screen_leaves_the_terminal_as_it_was():
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80, height=24)
    with LiveView(console) as screen:
        screen.tell(1.0, LONG)
        screen.draw(1.0, END)
    told = output.getvalue()
    assert told.count("\x1b[?1049h") == told.count("\x1b[?1049l") == 1
    assert "tide-table #2" in told


def test_the_plain_view_has_no_escape_codes(capsys):
    with PlainView() as view:
        view.tell(1.25, DemoEvent("almanac #1", "ada", "files “Something”"))
        view.draw(1.25, END)
    assert capsys.readouterr().out == "  1.2s  almanac #1     ada      files “Something”\n"
