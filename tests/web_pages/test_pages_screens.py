"""Each screen with rows, without, while it waits and when it fails; narrow, dark and enlarged."""

from __future__ import annotations

import pytest
from pages_browser import Opened, looked
from pages_data import FINDINGS, NOW, briefs, full_house, run, task
from pages_stage import Stage
from playwright.sync_api import Page, expect

TASK = "20260301-113012-stable-12-bugfix"
SCREENS = ["#/stable", "#/work", "#/work/graph", "#/governor", "#/health", f"#/task/{TASK}"]


def fill(stage: Stage) -> None:
    scene = stage.scene
    scene.house, scene.briefs, scene.findings = full_house(), briefs(), FINDINGS
    scene.tasks[TASK] = task(TASK, runs=[run(TASK, 1, NOW)])


def walk(page: Page, address: str) -> None:
    """To another screen, as a link would."""
    page.evaluate("(address) => { location.hash = address; }", address)
    way = "Work" if "task" in address else address.split("/")[1].capitalize()
    expect(page.locator(".ways [aria-current=page]")).to_contain_text(way)


def test_the_stable_shows_agents_pools_and_the_queue(stage: Stage, opened: Opened) -> None:
    fill(stage)
    page = opened(still=True)
    cards = page.locator(".card")
    expect(cards).to_have_count(3)
    first = cards.first
    for words in (
        "Leap years",
        "octo/stable#12",
        "claude",
        "12m 34s",
        "184k in, 9.3k out",
        "$0.84",
    ):
        expect(first).to_contain_text(words)
    expect(first).to_contain_text("4s ago")
    expect(cards.nth(1)).to_contain_text("Attempt2")
    expect(cards.nth(1).locator(".is-quiet")).to_contain_text("7m ago")
    expect(page.get_by_role("meter", name="Pool anthropic")).to_have_attribute(
        "aria-valuetext", "2 of 4 in use"
    )
    pools = page.locator(".gauge")
    expect(pools.nth(0)).to_contain_text("adaptive: 4 of at most 8")
    expect(pools.nth(1)).to_contain_text("parked until 14:00")
    expect(pools.nth(2)).to_contain_text("breaker open")
    rows = page.locator(".wait")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("4 of 4 agents of pool anthropic are running.")
    expect(rows.nth(0)).to_contain_text("in about 6m")
    expect(rows.nth(0)).to_contain_text("waits40m")  # though at this gate for 5 minutes only
    expect(rows.nth(1)).to_contain_text("in 4m (12:04)")
    expect(rows.nth(2)).to_contain_text("not known")
    expect(rows.nth(3)).to_contain_text("next")
    expect(page.locator(".need").first).to_contain_text("Shall old files be converted")
    expect(page.locator(".notice")).to_contain_text("almanac is paused since 11:10 by ada")
    expect(page).to_have_title("(2) Stable – Hostler")
    page.get_by_role("button", name="Pause: octo/stable").click()
    page.get_by_label("Why").fill("a release")
    page.get_by_role("button", name="Pause it").click()
    assert stage.wait_sent("repositories/stable/pause").body == {"why": "a release"}
    stage.replies["repositories/almanac/resume"] = {"still_paused": "Everything is paused."}
    page.get_by_role("button", name="Let it go on: octo/almanac").click()
    page.get_by_role("dialog").get_by_role("button", name="Let it go on").click()
    stage.wait_sent("repositories/almanac/resume")
    expect(page.get_by_text("It still waits: Everything is paused.")).to_be_visible()


def test_the_board_has_every_task_in_its_column(stage: Stage, opened: Opened) -> None:
    fill(stage)
    page = opened("#/work")
    for name, count in {
        "Waiting": 5,
        "At work": 2,
        "Needs you": 2,
        "In review": 1,
        "Over": 2,
    }.items():
        column = page.get_by_role("region", name=name, exact=True)
        expect(column.locator(".board-card")).to_have_count(count)
    link = page.get_by_role("link", name="PR #31")
    expect(link).to_have_attribute("href", "https://github.example/octo/stable/pull/31")
    gone = next(one for one in briefs() if one["state"] == "awaiting_feedback")
    stage.tell("task", {"id": gone["id"], "deleted": True})
    review = page.get_by_role("region", name="In review", exact=True)
    expect(review.locator(".board-card")).to_have_count(0)
    expect(page.locator(".board-card")).to_have_count(11)
    page.get_by_label("Filter by words").fill("harbour")
    expect(page.locator(".board-card")).to_have_count(3)
    page.get_by_label("Project").select_option("tools")
    expect(page.locator(".board-card")).to_have_count(1)
    page.get_by_label("Filter by words").fill("nothing has this")
    expect(page.get_by_text("No task has these words.")).to_be_visible()


def test_health_tells_the_worst_first(stage: Stage, opened: Opened) -> None:
    fill(stage)
    page = opened("#/health", still=True)
    rows = page.locator(".finding")
    expect(rows).to_have_count(7)
    expect(rows.nth(0)).to_contain_text("agents.gemini")
    expect(rows.nth(1)).to_contain_text("Give it Actions: read")
    expect(page.get_by_text("2 of 7 to look at")).to_be_visible()
    expect(page.get_by_role("meter", name="requests an hour")).to_have_attribute(
        "aria-valuenow", "3"
    )
    limits = page.get_by_role("region", name="GitHub", exact=True)
    expect(limits.locator(".chip")).to_have_text("fits")
    house = full_house()
    house["github"]["worst"] |= {"primary_per_hour": 10_000.0, "fits": False}
    stage.scene.house = house
    stage.tell()
    expect(limits.locator(".chip")).to_have_text("stretches at worst")
    expect(page.get_by_role("region", name="Cost of today")).to_contain_text("$11.37")
    expect(page.get_by_role("region", name="How runs went")).to_contain_text("5 (12\u00a0%)")
    objectives = page.locator(".objective")
    expect(objectives.nth(0)).to_contain_text("99.8\u00a0%wanted: at least 99\u00a0%; of 2.9k")
    expect(objectives.nth(1)).to_contain_text("missed")
    expect(objectives.nth(1)).to_contain_text("1m 14swanted: at most 1m 00s")
    expect(objectives.nth(2)).to_contain_text("no data")
    looks = page.get_by_role("region", name="Looks at repositories")
    expect(looks).to_contain_text("1.3s after it was due; at worst 44s; 4 of 2880 late")
    feeds = page.get_by_role("region", name="Newest changes read")
    expect(feeds).to_contain_text("40s ago")


EMPTY = {
    "#/stable": ["No agent is at work.", "Nothing waits.", "No repository is watched."],
    "#/work": ["Nothing waits for a place.", "Nothing has ended yet."],
    "#/work/graph": ["There are no tasks."],
    "#/governor": ["Nobody asks for a place in this pool."],
    "#/health": ["No run has ended in the last 30 days.", "Doctor has nothing to say."],
}


def test_an_empty_house_says_so_on_every_screen(opened: Opened) -> None:
    page = opened()
    for address, sentences in EMPTY.items():
        walk(page, address)
        for words in sentences:
            expect(page.get_by_text(words)).to_be_visible()


def test_nobody_at_work_on_the_home_is_told_on_top(stage: Stage, opened: Opened) -> None:
    stage.scene.house["service"] = None
    stage.scene.house["disk_full"] = "There are only 12 MB left on the disk of the home."
    page = opened()
    expect(page.get_by_text("Nobody works on this home")).to_be_visible()
    expect(page.get_by_text("only 12 MB left")).to_be_visible()


def test_what_is_not_there_yet_has_a_shape_on_every_screen(stage: Stage, opened: Opened) -> None:
    fill(stage)
    held = {"status", "tasks", f"tasks/{TASK}"}
    stage.scene.held = set(held)
    page = opened()
    for address in SCREENS:
        walk(page, address)
        expect(page.locator("[aria-busy=true]").first).to_be_visible()
    for path in held:
        stage.let_go(path)
    for address in SCREENS:
        walk(page, address)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)


def test_a_failure_is_told_in_the_services_words_and_can_be_tried_again(
    stage: Stage, opened: Opened
) -> None:
    error = {"what": "The database is busy.", "safe": "Nothing was changed.", "remedy": "Wait."}
    stage.scene.failures = {"status": (503, error), "tasks": (503, error)}
    page = opened()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The database is busy.")
    expect(alert).to_contain_text("Nothing was changed.")
    stage.scene.failures = {}
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("No agent is at work.")).to_be_visible()


SIZES = {"phone": (360, 740, 1), "phone with large letters": (320, 640, 2), "200 %": (640, 400, 2)}


@pytest.mark.parametrize("name", SIZES)
def test_nothing_scrolls_sideways(name: str, stage: Stage, opened: Opened) -> None:
    """200 % of a window of 1280: half as many pixels of CSS, and larger ones."""
    fill(stage)
    width, height, factor = SIZES[name]
    page = opened(width=width, height=height, device_scale_factor=factor, color_scheme="dark")
    for address in SCREENS:
        walk(page, address)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address


def test_the_switch_turns_light_to_dark_and_stays(stage: Stage, opened: Opened) -> None:
    page = opened(color_scheme="light")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html[data-theme=dark]")).to_be_attached()
    assert page.evaluate(ground) != light
    page.reload()
    expect(page.locator("html[data-theme=dark]")).to_be_attached()
    page.get_by_role("button", name="Light").click()
    expect(page.locator("html[data-theme=light]")).to_be_attached()
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html[data-theme=dark]")).to_be_attached()


def test_a_change_moves_nothing_that_stayed(stage: Stage, opened: Opened) -> None:
    fill(stage)
    page = opened()
    expect(page.locator(".card")).to_have_count(3)
    moved = ".card, .gauge, .figure"
    before = looked(page, "places", moved)
    for card in stage.scene.house["at_work"]:
        card.update(seconds=99_999.0, input_tokens=99_999_999, usd=1234.56, idle_seconds=4000.0)
    stage.scene.house["governor"]["pools"][0].update(active=4)
    stage.tell()
    expect(page.locator(".card").first).to_contain_text("1d 03h")
    assert looked(page, "places", moved) == before
