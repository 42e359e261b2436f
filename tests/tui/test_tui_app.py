"""Every key through Textual, what is painted, and what is done."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from tui_farm import LOG, news, seen
from tui_glass import means, shown, until, with_screen

from hostler.errors import StoreBusy
from hostler.tui.app import LogLines
from hostler.tui.keys import handle_key
from hostler.tui.renderer import draw_screen
from hostler.tui.state import BOUND_KEYS, KEY_HELP, Panel, ScreenState, UrlDialog

TASK = seen()["at_work"][0]["task"]
URL = "https://github.com/octo/barn/issues/12"


@pytest.mark.parametrize("size", [(140, 40), (80, 24), (40, 12), (8, 3)], ids=str)
def test_what_is_painted_is_what_was_drawn(size):
    async def act(app, pilot):
        wanted = draw_screen(ScreenState(), news(), *size).text()
        await until(pilot, lambda: shown(app) == wanted.rstrip("\n") or shown(app) == wanted)

    with_screen(ScreenState(), means(seen()), act, size)


def test_every_key_does_what_it_says():
    async def act(app, pilot):
        at = app.at
        for key in (*BOUND_KEYS, "x"):
            if key in ("q", "ctrl+c", "r", "o"):
                continue
            at, _ = handle_key(at, app.news, key, (80, 24))
            await pilot.press(key)
            assert app.at == at, key
        assert app.is_running

    with_screen(ScreenState(console=True), means(seen()), act)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_quitting_closes_the_screen(key):
    async def act(app, pilot):
        await pilot.press("enter", key)
        await until(pilot, lambda: not app.is_running)

    with_screen(ScreenState(), means(seen()), act)


def test_refresh_looks_again():
    given = means(seen())

    async def act(app, pilot):
        await until(pilot, lambda: given.outlook.looks)
        before = given.outlook.looks
        given.outlook.seen = seen(full=False)
        await pilot.press("r")
        await until(pilot, lambda: "No agents running." in shown(app))
        assert given.outlook.looks > before
        await until(pilot, lambda: not app.at.said)

    with_screen(ScreenState(), given, act)


def test_a_stop_is_carried_out_after_a_yes_and_told():
    stopped = []

    def stop(task):
        stopped.append(task)
        return f"{task}: stopped"

    async def act(app, pilot):
        await pilot.press("s", "n")
        assert stopped == [] and app.at.over is None
        await pilot.press("s", "y")
        await until(pilot, lambda: f"{TASK}: stopped" in shown(app))
        assert stopped == [TASK]

    with_screen(ScreenState(console=True), means(seen(), stop=stop), act)


def test_a_stop_that_fails_says_why():
    def stop(_task):
        raise StoreBusy("pid 7", 5.0)

    async def act(app, pilot):
        await pilot.press("s", "y")
        await until(pilot, lambda: "pid 7" in shown(app))

    with_screen(ScreenState(console=True), means(seen(), stop=stop), act)


def test_a_page_is_opened_and_its_address_shown_where_there_is_no_browser():
    opened = []

    def show(url):
        opened.append(url)
        return len(opened) == 1

    async def act(app, pilot):
        await pilot.press("o")
        await until(pilot, lambda: opened and not app.at.said)
        await pilot.press("o")
        await until(pilot, lambda: app.at.over == UrlDialog(URL))
        assert URL in shown(app)
        await pilot.press("escape")
        assert app.at.over is None

    with_screen(ScreenState(), means(seen(), show=show), act)
    assert opened == [URL, URL]


def test_a_slow_browser_keeps_nobody_waiting():
    go = threading.Event()

    async def act(app, pilot):
        await pilot.press("o", "tab")
        assert app.at.panel is Panel.QUEUE
        go.set()

    with_screen(ScreenState(), means(seen(), show=lambda _: go.wait(20)), act)


def advance_watcher(clock, seconds):
    """Advance the clock once the watcher waits on it: a wait that begins later would not end."""
    clock.wait_for_waiters()
    clock.advance(seconds)


def test_commits_trouble_and_the_time_after_it():
    given = means(seen())

    async def act(app, pilot):
        given.outlook.put(StoreBusy("pid 7", 5.0))
        advance_watcher(given.clock, 1)
        await until(pilot, lambda: app.news.trouble)
        await until(pilot, lambda: "pid 7" in shown(app))
        assert "Mend the roof" in shown(app)
        given.outlook.put(seen(full=False))
        advance_watcher(given.clock, 1)
        await until(pilot, lambda: "No agents running." in shown(app))
        assert not app.news.trouble

    with_screen(ScreenState(), given, act)


def test_times_go_on_by_the_clock():
    given = means(seen())

    async def act(app, pilot):
        assert "▸  17m" in shown(app)
        app.watcher.end()
        given.clock.advance(120)
        app.pass_time()
        await until(pilot, lambda: "▸  19m" in shown(app))

    with_screen(ScreenState(), given, act)


def test_lines_of_the_service_come_into_the_panel():
    log = LogLines()
    log.add("00:00:01  Watching octo/barn.")

    async def act(app, pilot):
        assert "Watching octo/barn." in shown(app)
        threading.Thread(target=log.add, args=["00:00:02  octo/barn#12 \x1b[2J at work"]).start()
        await until(pilot, lambda: "at work" in shown(app))
        assert "\x1b" not in shown(app) and r"\x1b[2J" in shown(app)

    with_screen(ScreenState(console=True, panel=Panel.LOG), means(seen(), log=log), act)
    log.add("nobody listens any more")


def test_a_log_keeps_its_newest_lines():
    log = LogLines(max_lines=10)
    for line in LOG:
        log.add(line)
    assert log.lines() == (LOG[-10:], 30)


def test_another_size_is_drawn_at_once():
    async def act(app, pilot):
        await pilot.resize_terminal(40, 12)
        await until(pilot, lambda: shown(app) == draw_screen(ScreenState(), news(), 40, 12).text())

    with_screen(ScreenState(), means(seen()), act)


def test_a_screen_that_is_to_close_before_it_opens_closes():
    import asyncio

    from hostler.tui.app import HostlerApp

    async def run():
        app = HostlerApp(ScreenState(), means(seen()))
        app.close_soon()
        async with app.run_test() as pilot:
            await until(pilot, lambda: not app.is_running)
        app.watcher.join()

    asyncio.run(run())


def test_only_lines_that_changed_are_painted_again():
    async def act(app, pilot):
        await until(pilot, lambda: "Mend the roof" in shown(app))
        painted = []
        render = app.canvas.render_line
        app.canvas.render_line = lambda y: painted.append(y) or render(y)
        app.show()
        await pilot.pause()
        assert painted == []
        await pilot.press("down")
        await until(pilot, lambda: painted)
        assert set(painted) <= {4, 5, 23}

    with_screen(ScreenState(), means(seen()), act)


def test_the_page_lists_exactly_these_keys():
    page = Path(__file__).parents[2].joinpath("docs/internals/tui.md").read_text()
    table = page.partition("| key | what it does |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    documented = {key for row in rows for key in re.findall(r"`([^`]+)`", row)}
    assert documented == {key for keys, _ in KEY_HELP for key in keys.split(", ")}
