"""The screens as people see them, kept as text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tui_farm import LOG, news

from hostler.tui.keys import handle_key
from hostler.tui.renderer import draw_screen, render_plain
from hostler.tui.state import Panel, ScreenData, ScreenState, UrlDialog

SIZES = [(140, 40), (80, 24), (40, 12)]


def screen(size, keys=(), known=None, **more):
    at, known = ScreenState(**more), known or news()
    for key in keys:
        at, _ = handle_key(at, known, key, size)
    return draw_screen(at, known, *size).text()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("panel", list(Panel), ids=lambda panel: panel.name.lower())
def test_every_panel_in_every_size(golden, panel, size):
    at = screen(size, known=news(log=LOG), console=True, panel=panel)
    golden(f"console-{panel.name.lower()}-{size[0]}x{size[1]}", at)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_top(golden, size):
    golden(f"top-{size[0]}x{size[1]}", screen(size))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("panel", list(Panel)[:5], ids=lambda panel: panel.name.lower())
def test_details(golden, panel, size):
    at = screen(size, ["enter"], panel=panel)
    golden(f"details-{panel.name.lower()}-{size[0]}x{size[1]}", at)


TEXTS = {
    "help": ["?"],
    "filter": ["f", "down", "down"],
    "filtered": ["f", "down", "enter"],
    "stop": ["s"],
    "window": ["w", "w"],
    "moved": ["tab", "down", "down", "end", "up"],
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_keys_show(golden, name):
    golden(f"key-{name}", screen((80, 24), TEXTS[name], console=True))


def test_an_empty_farm_and_nothing_at_all(golden):
    golden("empty", screen((80, 24), known=news(full=False)))
    golden("looking", screen((80, 24), known=ScreenData()))


def test_trouble_is_said_over_the_last_picture(golden):
    told = "The database is busy: pid 7 holds it. Nothing was changed."
    golden("trouble", screen((80, 24), known=news(trouble=told, late=75.0)))
    golden("trouble-first", screen((80, 24), known=ScreenData(trouble=told)))


def test_without_a_service(golden):
    known = news()
    golden(
        "no-service", screen((80, 24), known=replace(known, seen={**known.seen, "service": None}))
    )


def test_an_address_for_whom_there_is_no_browser(golden):
    url = "https://github.com/octo/barn/pull/5"
    golden("address", draw_screen(ScreenState(over=UrlDialog(url)), news(), 40, 12).text())


def test_all_of_it_as_text(golden):
    golden("plain", render_plain(ScreenState(), news(), 100))
