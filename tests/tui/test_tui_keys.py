"""Any keys in any order, with news in between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tui_farm import LOG, news, wild_news

from example_counts import examples
from hostler.tui.keys import (
    NO_PAGE,
    STOP_UNAVAILABLE,
    OpenUrl,
    Quit,
    Refresh,
    StopTask,
    current_row,
    handle_key,
)
from hostler.tui.renderer import draw_screen
from hostler.tui.rows import build_rows
from hostler.tui.state import (
    BOUND_KEYS,
    HISTORY_WINDOWS,
    DetailsDialog,
    HelpDialog,
    Panel,
    RepositoryDialog,
    ScreenState,
    StopDialog,
)

SIZE = (80, 24)
ALL = (*BOUND_KEYS, "y", "n", "x", "space")


def after(*keys, known=None, **more):
    screen, effects = ScreenState(**more), []
    for key in keys:
        screen, found = handle_key(screen, known or news(log=LOG), key, SIZE)
        effects += found
    return screen, effects


class Hands(RuleBasedStateMachine):
    """Somebody who presses anything, while the house changes."""

    @initialize(console=st.booleans(), known=wild_news())
    def open(self, console, known):
        self.screen, self.known, self.size = ScreenState(console=console), known, SIZE

    @rule(key=st.sampled_from(ALL))
    def press(self, key):
        before = self.screen
        self.screen, effects = handle_key(before, self.known, key, self.size)
        for effect in effects:
            self.check(before, key, effect)

    def check(self, before, key, effect):
        if isinstance(effect, StopTask):
            assert before.console and key == "y"
            assert isinstance(before.over, StopDialog) and before.over.task == effect.task
        elif isinstance(effect, OpenUrl):
            assert key == "o" and effect.url
        elif isinstance(effect, Refresh):
            assert key == "r"
        else:
            assert key in ("q", "ctrl+c")

    @rule(known=wild_news())
    def hear(self, known):
        row = current_row(self.screen, self.known)
        keys = [one.key for one in build_rows(self.screen.panel, self.screen, known)]
        chosen = self.screen.picks.get(self.screen.panel)
        self.known = known
        if row and chosen and chosen.key == row.key and row.key in keys and not self.screen.over:
            assert current_row(self.screen, known).key == row.key

    @rule(columns=st.integers(1, 150), lines=st.integers(1, 50))
    def resize(self, columns, lines):
        self.size = (columns, lines)

    @invariant()
    def it_can_be_drawn(self):
        if hasattr(self, "screen"):
            assert len(draw_screen(self.screen, self.known, *self.size).lines) == self.size[1]
            assert self.screen.panel in self.screen.panels
            assert self.screen.window in HISTORY_WINDOWS


Hands.TestCase.settings = settings(
    max_examples=examples(10, 100), stateful_step_count=25, deadline=None
)
test_any_keys_in_any_order = Hands.TestCase


def test_tab_goes_round_and_back():
    assert after("tab")[0].panel is Panel.QUEUE
    assert after(*["tab"] * 5)[0].panel is Panel.AGENTS
    assert after("shift+tab")[0].panel is Panel.HISTORY
    assert after("shift+tab", console=True)[0].panel is Panel.LOG


def test_the_window_goes_round():
    assert [after(*["w"] * many)[0].window for many in range(5)] == [
        "24h",
        "7d",
        "30d",
        "1h",
        "24h",
    ]


def test_a_repository_is_chosen_and_all_again():
    assert after("f", "down", "down", "enter")[0].project == "stable"
    assert after("f", "down", "escape")[0].project == ""
    assert after("f", "enter", project="barn")[0].project == "barn"
    assert after("f", "home", "enter", project="barn")[0].project == ""
    assert after("f", "end", "enter")[0].project == "elsewhere"
    assert isinstance(after("f", "x")[0].over, RepositoryDialog)


def test_details_stay_with_their_row():
    screen, _ = after("tab", "down", "enter")
    assert screen.over == DetailsDialog(
        Panel.QUEUE, build_rows(Panel.QUEUE, ScreenState(), news())[1].key
    )
    changed = news()
    del changed.seen["queue"][0]
    assert current_row(screen, changed).item["issue"] == 20
    del changed.seen["queue"][0]
    assert current_row(screen, changed) is None
    assert "No longer listed" in draw_screen(screen, changed, *SIZE).text()
    assert handle_key(screen, changed, "escape", SIZE)[0].over is None


def test_open_is_about_the_row_or_the_details():
    url = "https://github.com/octo/barn/issues/12"
    assert after("o")[1] == [OpenUrl(url)]
    assert after("enter", "o")[1] == [OpenUrl(url)]
    screen, effects = after("end", "o")
    assert effects == [] and screen.said.startswith(NO_PAGE)
    assert after("o", panel=Panel.HISTORY)[1] == []


def test_stop_asks_and_only_in_the_console():
    screen, effects = after("s")
    assert effects == [] and screen.said.startswith(STOP_UNAVAILABLE) and screen.over is None
    task = news().seen["at_work"][0]["task"]
    asked, effects = after("s", console=True)
    assert effects == [] and asked.over.task == task and "Mend the roof" in asked.over.about
    assert after("s", "y", console=True)[1] == [StopTask(task)]
    assert after("enter", "s", "y", console=True)[1] == [StopTask(task)]
    for key in ("n", "escape", "enter", "s", "space", "Y"):
        screen, effects = after("s", key, console=True)
        assert effects == [] and screen.over is None
    assert after("s", panel=Panel.HISTORY, console=True)[0].over is None


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
@pytest.mark.parametrize("before", [(), ("enter",), ("?",), ("f",), ("s",)], ids="".join)
def test_quitting_is_possible_everywhere(key, before):
    assert after(*before, key, console=True)[1] == [Quit()]


def test_help_is_left_by_any_key_and_scrolled_by_arrows():
    assert isinstance(after("?", "down")[0].over, HelpDialog)
    assert after("?", "x")[0].over is None


def test_scrolling_ends_at_the_end_and_comes_back_at_once():
    known = news()
    known.seen["at_work"][0]["title"] = "long " * 600
    size = (40, 12)
    screen, _ = handle_key(ScreenState(), known, "enter", size)
    ended, _ = handle_key(screen, known, "end", size)
    back, _ = handle_key(ended, known, "up", size)
    assert draw_screen(ended, known, *size) != draw_screen(back, known, *size)
    assert handle_key(ended, known, "down", size)[0] == ended


def test_refresh_says_so_and_looks():
    screen, effects = after("r")
    assert effects == [Refresh()] and screen.said


def test_the_log_is_followed_until_somebody_goes_up_and_again_at_its_end():
    known = news(log=LOG)
    screen = ScreenState(console=True, panel=Panel.LOG)
    assert current_row(screen, known).cells[0].startswith("00:00:39")
    up, _ = handle_key(screen, known, "up", SIZE)
    longer = replace(known, log=(*LOG, "00:01:00 more"))
    assert current_row(up, longer).cells[0].startswith("00:00:38")
    down, _ = handle_key(up, longer, "end", SIZE)
    assert down.picks == {} and current_row(down, longer).cells[0].startswith("00:01:00")


def test_without_rows_keys_do_nothing_bad():
    for key in ALL:
        after(key, known=news(full=False), console=True)
