"""By keyboard, by ear, and with eyes that need contrast."""

from __future__ import annotations

import pytest
from pages_browser import Opened, looked
from pages_data import FINDINGS, NOW, briefs, full_house, run, task
from pages_stage import Stage
from playwright.sync_api import Page, expect

TASK = "20260301-113012-stable-12-bugfix"
# Two keys before anything is drawn.
TWO_ARROWS = """() => {
  for (let n = 0; n < 2; n += 1) {
    const arrow = new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true });
    document.activeElement.dispatchEvent(arrow);
  }
}"""
SCREENS = ["#/stable", "#/work", "#/work/graph", "#/governor", "#/health", f"#/task/{TASK}"]


def fill(stage: Stage) -> None:
    scene = stage.scene
    scene.house, scene.briefs, scene.findings = full_house(), briefs(), FINDINGS
    scene.tasks[TASK] = task(TASK, runs=[run(TASK, 1, NOW)])
    scene.outputs[f"{TASK}-r1 stdout"] = "".join(f"\x1b[3{n}mcolour {n}\x1b[0m\n" for n in range(8))


def test_the_first_stop_leads_past_the_head(stage: Stage, opened: Opened) -> None:
    fill(stage)
    page = opened("#/work")
    expect(page.locator(".board-card").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#room")).to_be_focused()
    # The browser moves the focus by itself, before the page puts its address back.
    expect(page).to_have_url(f"{stage.url}/#/work")


def test_every_stop_shows_where_it_is(stage: Stage, opened: Opened) -> None:
    fill(stage)
    page = opened()
    for address in SCREENS:
        page.goto(f"{stage.url}/{address}")
        page.reload()
        expect(page.locator(".pulse")).to_have_text("live")
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        require_visible_stops(page, address)


def require_visible_stops(page: Page, address: str) -> None:
    looked(page, "noteStops")
    for _ in range(14):
        page.keyboard.press("Tab")
    stops = page.evaluate("window.stops")
    assert [tag for tag, shown in stops if not shown] == [], address
    assert len(stops) > 6


def test_tabs_turn_by_arrows(stage: Stage, opened: Opened) -> None:
    fill(stage)
    page = opened(f"#/task/{TASK}")
    page.get_by_role("tab", name="Output").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Bus")).to_be_focused()
    expect(page.get_by_role("tab", name="Bus")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Prompt")).to_be_focused()


def test_two_quick_arrows_turn_twice(stage: Stage, opened: Opened) -> None:
    fill(stage)
    page = opened(f"#/task/{TASK}")
    page.get_by_role("tab", name="Bus").focus()
    page.evaluate(TWO_ARROWS)
    expect(page.get_by_role("tab", name="Prompt")).to_be_focused()
    expect(page.get_by_role("tab", name="Prompt")).to_have_attribute("aria-selected", "true")


def test_focus_and_what_is_typed_survive_changes(stage: Stage, opened: Opened) -> None:
    fill(stage)
    page = opened(f"#/task/{TASK}")
    page.get_by_role("tab", name="Bus").click()
    page.get_by_label("Message", exact=True).fill("half a sent")
    stage.scene.tasks[TASK] = task(TASK, state="awaiting_feedback", pr_number=4, runs=[])
    stage.tell("task", {**briefs()[0], "state": "awaiting_feedback"})
    expect(page.locator(".task-state")).to_contain_text("in review")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    expect(page.get_by_label("Message", exact=True)).to_have_value("half a sent")


def test_what_needs_a_person_is_announced(stage: Stage, opened: Opened) -> None:
    page = opened()
    expect(page.locator(".pulse")).to_have_text("live")
    expect(page.get_by_text("No agent is at work.")).to_be_visible()
    stage.scene.house = full_house()
    stage.tell()
    expect(page.locator("#voice")).to_have_text("Needs you: Add the harbour of Brest and 1 more")


def test_everything_that_can_be_used_has_a_name(stage: Stage, opened: Opened) -> None:
    fill(stage)
    page = opened()
    for address in SCREENS:
        page.goto(f"{stage.url}/{address}")
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert looked(page, "nameless") == []
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("main")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(scheme: str, stage: Stage, opened: Opened) -> None:
    fill(stage)
    page = opened(color_scheme=scheme)
    for address in SCREENS:
        page.goto(f"{stage.url}/{address}")
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        if "task" in address:
            expect(page.locator(".output-line")).to_have_count(8)
        assert looked(page, "pale") == [], address
