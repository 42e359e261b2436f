"""Accessibility: keyboard, screen readers and contrast."""

from __future__ import annotations

import pytest
from api_data import FINDINGS, NOW, briefs, full_snapshot, run, task
from browser_pages import PageOpener, call_inspector
from fake_web_service import FakeWebService
from playwright.sync_api import Page, expect

TASK = "20260301-113012-stable-12-bugfix"
# Two key presses before the next render.
TWO_ARROWS = """() => {
  for (let n = 0; n < 2; n += 1) {
    const arrow = new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true });
    document.activeElement.dispatchEvent(arrow);
  }
}"""
SCREENS = ["#/overview", "#/work", "#/work/graph", "#/governor", "#/health", f"#/task/{TASK}"]


def fill_state(web_service: FakeWebService) -> None:
    state = web_service.state
    state.snapshot, state.briefs, state.findings = full_snapshot(), briefs(), FINDINGS
    state.tasks[TASK] = task(TASK, runs=[run(TASK, 1, NOW)])
    state.outputs[f"{TASK}-r1 stdout"] = "".join(f"\x1b[3{n}mcolour {n}\x1b[0m\n" for n in range(8))


def test_the_first_tab_stop_skips_the_header(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    fill_state(web_service)
    page = open_page("#/work")
    expect(page.locator(".board-card").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()
    # The browser moves the focus before the page restores its URL.
    expect(page).to_have_url(f"{web_service.url}/#/work")


def test_every_tab_stop_shows_its_focus(web_service: FakeWebService, open_page: PageOpener) -> None:
    fill_state(web_service)
    page = open_page()
    for address in SCREENS:
        page.goto(f"{web_service.url}/{address}")
        page.reload()
        expect(page.locator(".connection")).to_have_text("live")
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        require_visible_stops(page, address)


def require_visible_stops(page: Page, address: str) -> None:
    call_inspector(page, "recordFocus")
    for _ in range(14):
        page.keyboard.press("Tab")
    stops = page.evaluate("window.stops")
    assert [tag for tag, shown in stops if not shown] == [], address
    assert len(stops) > 6


def test_arrow_keys_switch_tabs(web_service: FakeWebService, open_page: PageOpener) -> None:
    fill_state(web_service)
    page = open_page(f"#/task/{TASK}")
    page.get_by_role("tab", name="Output").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Bus")).to_be_focused()
    expect(page.get_by_role("tab", name="Bus")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Prompt")).to_be_focused()


def test_two_quick_arrow_keys_switch_twice(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    fill_state(web_service)
    page = open_page(f"#/task/{TASK}")
    page.get_by_role("tab", name="Bus").focus()
    page.evaluate(TWO_ARROWS)
    expect(page.get_by_role("tab", name="Prompt")).to_be_focused()
    expect(page.get_by_role("tab", name="Prompt")).to_have_attribute("aria-selected", "true")


def test_focus_and_input_survive_changes(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    fill_state(web_service)
    page = open_page(f"#/task/{TASK}")
    page.get_by_role("tab", name="Bus").click()
    page.get_by_label("Message", exact=True).fill("half a sent")
    web_service.state.tasks[TASK] = task(TASK, state="awaiting_feedback", pr_number=4, runs=[])
    web_service.send_event("task", {**briefs()[0], "state": "awaiting_feedback"})
    expect(page.locator(".task-state")).to_contain_text("in review")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    expect(page.get_by_label("Message", exact=True)).to_have_value("half a sent")


def test_tasks_that_need_a_person_are_announced(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    page = open_page()
    expect(page.locator(".connection")).to_have_text("live")
    expect(page.get_by_text("No agent is running.")).to_be_visible()
    web_service.state.snapshot = full_snapshot()
    web_service.send_event()
    expect(page.locator("#announcer")).to_have_text(
        "Needs you: Add the harbour of Brest and 1 more"
    )


def test_every_control_has_an_accessible_name(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    fill_state(web_service)
    page = open_page()
    for address in SCREENS:
        page.goto(f"{web_service.url}/{address}")
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert call_inspector(page, "unnamedControls") == []
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("main")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(
    scheme: str, web_service: FakeWebService, open_page: PageOpener
) -> None:
    fill_state(web_service)
    page = open_page(color_scheme=scheme)
    for address in SCREENS:
        page.goto(f"{web_service.url}/{address}")
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        if "task" in address:
            expect(page.locator(".output-line")).to_have_count(8)
        assert call_inspector(page, "lowContrastTexts") == [], address
