"""Whatever there is to draw: it fits, it is whole, and a terminal obeys nothing of it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from tui_farm import WORDS, news, wild_news

from example_counts import examples
from hostler.tui.layout import (
    COLUMN_GAP,
    MIN_PANEL_LINES,
    TableColumn,
    fit_columns,
    format_row,
    panel_heights,
    visible_rows,
)
from hostler.tui.renderer import MIN_COLUMNS, MIN_LINES, draw_screen, render_plain
from hostler.tui.state import (
    HISTORY_WINDOWS,
    DetailsDialog,
    HelpDialog,
    Panel,
    RepositoryDialog,
    RowSelection,
    ScreenState,
    StopDialog,
    UrlDialog,
)
from hostler.tui.text_format import (
    pad_left,
    pad_right,
    sanitize_text,
    text_width,
    truncate,
    wrap_text,
)

KEYS = (
    st.sampled_from(["run-0", "20241004-000000-barn-job", "project ", "octo/barn#5", "3"]) | WORDS
)
OVERS = st.one_of(
    st.none(),
    st.builds(DetailsDialog, st.sampled_from(Panel), KEYS, st.integers(0, 30)),
    st.builds(RepositoryDialog, st.integers(0, 9)),
    st.builds(StopDialog, WORDS, WORDS),
    st.builds(UrlDialog, WORDS, st.integers(0, 9)),
    st.builds(HelpDialog, st.integers(0, 30)),
)


@st.composite
def screens(draw_):
    console = draw_(st.booleans())
    panels = ScreenState(console=console).panels
    picks = st.dictionaries(
        st.sampled_from(panels), st.builds(RowSelection, KEYS, st.integers(0, 40))
    )
    return ScreenState(
        console,
        draw_(st.sampled_from(panels)),
        draw_(st.sampled_from(["", "barn", "gone"])),
        draw_(st.sampled_from(HISTORY_WINDOWS)),
        draw_(picks),
        draw_(OVERS),
        draw_(st.just("") | WORDS),
    )


@settings(max_examples=examples(60, 1000))
@given(screens(), wild_news(), st.integers(1, 200), st.integers(1, 60))
def test_every_frame_fits_and_nothing_in_it_is_obeyed(screen, known, columns, lines):
    frame = draw_screen(screen, known, columns, lines)
    assert len(frame.lines) == lines
    for drawn in frame.lines:
        text = "".join(span.text for span in drawn)
        assert cell_len(text) <= columns
        assert text.isprintable()


def test_too_little_room_is_said():
    for columns, lines in ((MIN_COLUMNS - 1, 24), (80, MIN_LINES - 1), (1, 1)):
        text = draw_screen(ScreenState(), news(), columns, lines).text()
        assert text.split("\n")[0] == truncate(
            f"Too small: needs {MIN_COLUMNS}x{MIN_LINES}.", columns
        )


@given(wild_news(), st.integers(MIN_COLUMNS, 200))
def test_as_text_every_row_is_told(known, columns):
    told = render_plain(ScreenState(), known, columns).splitlines()
    lists = ("at_work", "queue", "needs_person", "pulls")
    many = sum(len(known.seen[name]) for name in lists) if known.seen else 0
    assert len(told) >= many + 5
    assert all(cell_len(one) <= columns for one in told)


@given(WORDS, st.integers(0, 90))
def test_texts_are_cut_and_padded_to_the_column(text, columns):
    text = sanitize_text(text)
    assert text.isprintable() and sanitize_text(text) == text
    assert text_width(truncate(text, columns)) <= columns
    assert text_width(pad_right(text, columns)) == text_width(pad_left(text, columns)) == columns
    assert truncate(text, columns) == text or text_width(text) > columns


@given(WORDS, st.integers(2, 60))
def test_wrapping_loses_nothing(text, columns):
    lines = wrap_text(sanitize_text(text), columns)
    assert all(text_width(one) <= columns for one in lines)
    assert "".join(lines).replace(" ", "") == sanitize_text(text).replace(" ", "")


def test_an_address_is_whole_in_the_narrowest_screen():
    url = "https://github.com/octo/barn/pull/5"
    text = draw_screen(ScreenState(over=UrlDialog(url)), news(), MIN_COLUMNS, 12).text()
    assert url in "".join(one.strip() for one in text.splitlines())


@given(st.integers(0, 80), st.lists(st.integers(2, 50), min_size=1, max_size=6), st.data())
def test_heights_are_within_the_room_and_the_focus_is_served_first(room, wanted, data):
    focus = data.draw(st.integers(0, len(wanted) - 1))
    given_ = panel_heights(room, wanted, focus)
    if given_ is None:
        assert room < MIN_PANEL_LINES * len(wanted)
        return
    assert sum(given_) <= room
    for got, want in zip(given_, wanted, strict=True):
        assert min(MIN_PANEL_LINES, want) <= got <= want
    others = [at for at in range(len(wanted)) if at != focus]
    if given_[focus] < wanted[focus]:
        assert all(given_[at] == min(MIN_PANEL_LINES, wanted[at]) for at in others)
    if any(got < want for got, want in zip(given_, wanted, strict=True)):
        assert sum(given_) == room


@given(st.integers(0, 500), st.integers(-3, 40), st.integers(0, 499))
def test_the_chosen_row_is_among_those_on_the_screen(count, room, at):
    seen = visible_rows(count, room, min(at, max(count - 1, 0)))
    assert len(seen) == min(max(room, 0), count)
    if seen:
        assert min(at, count - 1) in seen and seen[0] >= 0 and seen[-1] < count


COLUMNS = st.lists(
    st.builds(TableColumn, st.text("abc", min_size=1, max_size=9), st.integers(1, 9), st.booleans(),
              st.integers(0, 12), st.integers(12, 40)),
    min_size=1,
    max_size=8,
)  # fmt: skip


@given(COLUMNS, st.integers(1, 120), st.data())
def test_columns_fit_and_the_most_important_stays(columns, room, data):
    cell = st.text("xy漢", max_size=30)
    row = st.tuples(*(cell for _ in columns))
    cells = data.draw(st.lists(row, max_size=4))
    widths = fit_columns(columns, cells, room)
    assert sum(widths.values()) + COLUMN_GAP * (len(widths) - 1) <= room
    assert min(columns, key=lambda one: one.rank) in [columns[at] for at in widths]
    for one in cells:
        assert text_width(format_row(columns, widths, one)) <= room


def test_time_is_counted_only_where_a_time_is_shown():
    quiet = news(full=False)
    quiet.seen["service"] = None
    assert not draw_screen(ScreenState(), quiet, 80, 24).ages
    assert not draw_screen(ScreenState(panel=Panel.HISTORY), quiet, 40, 12).ages
    assert draw_screen(ScreenState(), news(), 80, 24).ages
