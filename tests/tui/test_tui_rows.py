"""Rows of panels: everything that a snapshot lists, and nothing of another repository."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tui_farm import farm, look, news, populate, wild_news

from hostler.service.snapshot.history import WINDOWS as SNAPSHOT_WINDOWS
from hostler.tui.dialogs import build_details
from hostler.tui.rows import COLUMNS, build_rows, count_rows, find_selected, list_projects
from hostler.tui.state import HISTORY_WINDOWS, Panel, RowSelection, ScreenState
from hostler.tui.text_format import format_duration, format_tokens

LISTS = {
    Panel.AGENTS: "at_work",
    Panel.QUEUE: "queue",
    Panel.NEEDS_YOU: "needs_person",
    Panel.PRS: "pulls",
}


def test_windows_are_those_of_the_snapshot():
    assert tuple(SNAPSHOT_WINDOWS) == HISTORY_WINDOWS


@given(wild_news(), st.sampled_from(["", "barn", "stable", "elsewhere", "nowhere"]))
def test_each_panel_has_what_its_list_has_of_that_project(known, project):
    screen = ScreenState(project=project, console=True)
    for panel, name in LISTS.items():
        listed = known.seen[name] if known.seen else []
        wanted = [one for one in listed if project in ("", one["project"])]
        rows = build_rows(panel, screen, known)
        assert [row.item for row in rows] == wanted
        assert len({row.key for row in rows}) == len(rows)
        assert all(len(row.cells) == len(COLUMNS[panel]) for row in rows)
        for row in rows:
            assert build_details(panel, row, known)


@given(wild_news())
def test_nothing_in_a_cell_is_obeyed(known):
    for panel in Panel:
        for row in build_rows(panel, ScreenState(console=True), known):
            told = [text for _, text in build_details(panel, row, known)]
            for cell in (*row.cells, *told):
                assert cell.isprintable()


@pytest.mark.parametrize("window", HISTORY_WINDOWS)
def test_history_of_each_window_first_all_then_each_repository(window):
    known = news()
    record = known.seen["history"][window]
    record["all"]["count"] = 1000 + HISTORY_WINDOWS.index(window)
    rows = build_rows(Panel.HISTORY, ScreenState(window=window), known)
    assert rows[0].cells[:2] == ("all", str(1000 + HISTORY_WINDOWS.index(window)))
    assert [row.cells[0] for row in rows[1:]] == ["octo/barn", "octo/stable"]
    assert rows[1].cells == ("octo/barn", "2", "1", "50%", "2m30s", "1m00s")
    (only,) = build_rows(Panel.HISTORY, ScreenState(window=window, project="barn"), known)
    assert only == rows[1]
    assert build_rows(Panel.HISTORY, ScreenState(project="elsewhere"), known) == []


def test_the_queue_says_gate_since_and_when_it_opens():
    rows = build_rows(Panel.QUEUE, ScreenState(), news())
    cells = {row.item["issue"]: row.cells for row in rows}
    assert cells[21][4:7] == ("parked", "00:17:12", "01:17:12")
    assert cells[20][4:7] == ("paused", "00:05:00", "–")
    assert "parked until" in cells[21][7]


def test_the_next_one_says_so():
    with farm() as stage:
        populate(stage)
        stage.put("barn")
        found = look(stage)
    found["queue"][0]["would_start"] = True
    known = news()
    row = build_rows(Panel.QUEUE, ScreenState(), type(known)(found, zone=known.zone))[0]
    assert (row.cells[4], row.tone) == ("next", "good")


@given(st.floats(0, 1e6))
def test_ages_go_on_with_the_time(late):
    before = build_rows(Panel.AGENTS, ScreenState(), news())[0]
    after = build_rows(Panel.AGENTS, ScreenState(), news(late=late))[0]
    assert (before.key, before.cells[1:5]) == (after.key, after.cells[1:5])
    assert (before.cells[0] != after.cells[0]) or late < 3600


def test_projects_are_those_of_the_settings_and_those_at_work():
    assert list_projects(news()) == ["barn", "stable", "field", "elsewhere"]


def test_a_list_that_was_cut_says_how_long_it_is():
    known = news()
    known.seen["queue_total"] = 4000
    rows = build_rows(Panel.QUEUE, ScreenState(), known)
    assert count_rows(Panel.QUEUE, ScreenState(), known, rows) == 4000
    assert count_rows(Panel.QUEUE, ScreenState(project="barn"), known, rows) == len(rows)


@given(st.integers(0, 30), st.permutations(range(13)))
def test_a_chosen_row_is_found_wherever_it_is(at, order):
    rows = [build_rows(Panel.QUEUE, ScreenState(), news())[place] for place in order]
    chosen = rows[at % 13]
    assert rows[find_selected(Panel.QUEUE, rows, RowSelection(chosen.key, 99))] is chosen
    assert find_selected(Panel.QUEUE, rows, RowSelection("gone", at)) == min(at, 12)
    assert find_selected(Panel.QUEUE, [], RowSelection("gone", at)) == 0
    assert (
        find_selected(Panel.LOG, rows, None) == 12 and find_selected(Panel.QUEUE, rows, None) == 0
    )


def test_urls_are_those_of_the_pull_request_or_else_of_the_issue():
    asks = build_rows(Panel.NEEDS_YOU, ScreenState(), news())[0]
    assert asks.url == "https://github.com/octo/barn/pull/5"
    by_hand = build_rows(Panel.AGENTS, ScreenState(), news())[2]
    assert (by_hand.url, by_hand.cells[2]) == ("", "manual")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(None, "–"), (0, "0.0s"), (59.94, "59.9s"), (60, "1m00s"), (3599.6, "1h00m"), (7260, "2h01m")],
)
def test_times_that_were_taken(seconds, told):
    assert format_duration(seconds) == told


@given(st.integers(0, 10**12))
def test_tokens_are_short(count):
    assert len(format_tokens(count)) <= 7


def test_a_secret_is_hidden_in_every_cell():
    from hostler.telemetry.redaction import register_secret
    from hostler.tui.text_format import sanitize_text

    register_secret("correct-horse-battery")
    sanitize_text.cache_clear()
    known = news()
    known.seen["queue"][0]["title"] = "use correct-horse-battery here"
    assert "correct-horse" not in str(build_rows(Panel.QUEUE, ScreenState(), known)[0].cells)
