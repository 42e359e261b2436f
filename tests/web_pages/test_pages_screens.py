"""Each screen with data, empty, loading and failed; narrow, dark and enlarged."""

from __future__ import annotations

import pytest
from api_data import FINDINGS, NOW, briefs, full_snapshot, run, task
from browser_pages import PageOpener, call_inspector
from fake_web_service import FakeWebService
from playwright.sync_api import Page, expect

TASK = "20260301-113012-stable-12-bugfix"
SCREENS = ["#/overview", "#/work", "#/work/graph", "#/governor", "#/health", f"#/task/{TASK}"]


def fill_state(web_service: FakeWebService) -> None:
    state = web_service.state
    state.snapshot, state.briefs, state.findings = full_snapshot(), briefs(), FINDINGS
    state.tasks[TASK] = task(TASK, runs=[run(TASK, 1, NOW)])


def go_to_screen(page: Page, address: str) -> None:
    """Open another screen as a link does."""
    page.evaluate("(address) => { location.hash = address; }", address)
    way = "Work" if "task" in address else address.split("/")[1].capitalize()
    expect(page.locator(".nav [aria-current=page]")).to_contain_text(way)


def test_the_overview_shows_agents_pools_and_the_queue(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    fill_state(web_service)
    page = open_page(fixed_clock=True)
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
    expect(pools.nth(0)).to_contain_text("adaptive cap 4, maximum 8")
    expect(pools.nth(1)).to_contain_text("parked until 14:00")
    expect(pools.nth(2)).to_contain_text("breaker open")
    rows = page.locator(".queue-row")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("4 of 4 agents of pool anthropic are running.")
    expect(rows.nth(0)).to_contain_text("in about 6m")
    expect(rows.nth(0)).to_contain_text("waiting40m")  # though at this gate for 5 minutes only
    expect(rows.nth(1)).to_contain_text("in 4m (12:04)")
    expect(rows.nth(2)).to_contain_text("not known")
    expect(rows.nth(3)).to_contain_text("next")
    expect(page.locator(".needs-you-row").first).to_contain_text("Shall old files be converted")
    expect(page.locator(".notice")).to_contain_text("almanac was paused by ada at 11:10")
    expect(page).to_have_title("(2) Overview – Hostler")
    page.get_by_role("button", name="Pause: octo/stable").click()
    page.get_by_label("Reason").fill("a release")
    page.get_by_role("button", name="Pause repository").click()
    assert web_service.wait_for_change("repositories/stable/pause").body == {"why": "a release"}
    web_service.responses["repositories/almanac/resume"] = {
        "still_paused": ["Everything is paused."]
    }
    page.get_by_role("button", name="Unpause: octo/almanac").click()
    page.get_by_role("dialog").get_by_role("button", name="Unpause repository").click()
    web_service.wait_for_change("repositories/almanac/resume")
    expect(page.get_by_text("Still paused: Everything is paused.")).to_be_visible()


def test_the_board_has_every_task_in_its_column(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    fill_state(web_service)
    page = open_page("#/work")
    for name, count in {
        "Queued": 5,
        "Running": 2,
        "Needs you": 2,
        "In review": 1,
        "Done": 2,
    }.items():
        column = page.get_by_role("region", name=name, exact=True)
        expect(column.locator(".board-card")).to_have_count(count)
    link = page.get_by_role("link", name="PR #31")
    expect(link).to_have_attribute("href", "https://github.example/octo/stable/pull/31")
    gone = next(one for one in briefs() if one["state"] == "awaiting_feedback")
    web_service.send_event("task", {"id": gone["id"], "deleted": True})
    review = page.get_by_role("region", name="In review", exact=True)
    expect(review.locator(".board-card")).to_have_count(0)
    expect(page.locator(".board-card")).to_have_count(11)
    page.get_by_label("Filter tasks").fill("harbour")
    expect(page.locator(".board-card")).to_have_count(3)
    page.get_by_label("Project").select_option("tools")
    expect(page.locator(".board-card")).to_have_count(1)
    page.get_by_label("Filter tasks").fill("nothing has this")
    expect(page.get_by_text("No task matches this filter.")).to_be_visible()


def test_health_shows_problems_first(web_service: FakeWebService, open_page: PageOpener) -> None:
    fill_state(web_service)
    page = open_page("#/health", fixed_clock=True)
    rows = page.locator(".finding")
    expect(rows).to_have_count(7)
    expect(rows.nth(0)).to_contain_text("agents.gemini")
    expect(rows.nth(1)).to_contain_text("Give it Actions: read")
    expect(page.get_by_text("2 of 7 need attention")).to_be_visible()
    expect(page.get_by_role("meter", name="requests per hour")).to_have_attribute(
        "aria-valuenow", "3"
    )
    limits = page.get_by_role("region", name="GitHub", exact=True)
    expect(limits.locator(".chip")).to_have_text("within limits")
    snapshot = full_snapshot()
    snapshot["github"]["worst"] |= {"primary_per_hour": 10_000.0, "fits": False}
    web_service.state.snapshot = snapshot
    web_service.send_event()
    expect(limits.locator(".chip")).to_have_text("slows down at peak")
    expect(page.get_by_role("region", name="Cost today")).to_contain_text("$11.37")
    expect(page.get_by_role("region", name="Run statistics")).to_contain_text("5 (12\u00a0%)")
    objectives = page.locator(".objective")
    expect(objectives.nth(0)).to_contain_text(
        "99.8\u00a0%target: at least 99\u00a0%, 2.9k measured"
    )
    expect(objectives.nth(1)).to_contain_text("missed")
    expect(objectives.nth(1)).to_contain_text("1m 14starget: at most 1m 00s")
    expect(objectives.nth(2)).to_contain_text("no data")
    polls = page.get_by_role("region", name="Polls")
    expect(polls).to_contain_text("1.3s late (worst 44s); 4 of 2880 late or incomplete")
    feeds = page.get_by_role("region", name="Newest change read per list")
    expect(feeds).to_contain_text("40s ago")


EMPTY = {
    "#/overview": ["No agent is running.", "The queue is empty.", "No repositories yet."],
    "#/work": ["The queue is empty.", "No finished tasks yet."],
    "#/work/graph": ["No tasks yet."],
    "#/governor": ["No project is using this pool."],
    "#/health": ["No run has ended in the last 30 days.", "No findings."],
}


def test_every_screen_has_an_empty_state(open_page: PageOpener) -> None:
    page = open_page()
    for address, sentences in EMPTY.items():
        go_to_screen(page, address)
        for words in sentences:
            expect(page.get_by_text(words)).to_be_visible()


def test_a_stopped_service_is_shown_at_the_top(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    web_service.state.snapshot["service"] = None
    web_service.state.snapshot["disk_full"] = "There are only 12 MB left on the disk of the home."
    page = open_page()
    expect(page.get_by_text("The service is not running")).to_be_visible()
    expect(page.get_by_text("only 12 MB left")).to_be_visible()


def test_every_screen_has_a_loading_state(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    fill_state(web_service)
    delayed = {"status", "tasks", f"tasks/{TASK}"}
    web_service.state.delayed = set(delayed)
    page = open_page()
    for address in SCREENS:
        go_to_screen(page, address)
        expect(page.locator("[aria-busy=true]").first).to_be_visible()
    for path in delayed:
        web_service.release(path)
    for address in SCREENS:
        go_to_screen(page, address)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)


def test_a_failure_shows_the_error_and_a_retry_button(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    error = {"what": "The database is busy.", "safe": "Nothing was changed.", "remedy": "Wait."}
    web_service.state.failures = {"status": (503, error), "tasks": (503, error)}
    page = open_page()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The database is busy.")
    expect(alert).to_contain_text("Nothing was changed.")
    web_service.state.failures = {}
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("No agent is running.")).to_be_visible()


SIZES = {"phone": (360, 740, 1), "phone with large letters": (320, 640, 2), "200 %": (640, 400, 2)}


@pytest.mark.parametrize("name", SIZES)
def test_nothing_scrolls_sideways(
    name: str, web_service: FakeWebService, open_page: PageOpener
) -> None:
    """200 % of a window of 1280: half as many pixels of CSS, and larger ones."""
    fill_state(web_service)
    width, height, factor = SIZES[name]
    page = open_page(width=width, height=height, device_scale_factor=factor, color_scheme="dark")
    for address in SCREENS:
        go_to_screen(page, address)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address


def test_the_theme_switch_is_remembered(web_service: FakeWebService, open_page: PageOpener) -> None:
    page = open_page(color_scheme="light")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark theme").click()
    expect(page.locator("html[data-theme=dark]")).to_be_attached()
    assert page.evaluate(ground) != light
    page.reload()
    expect(page.locator("html[data-theme=dark]")).to_be_attached()
    page.get_by_role("button", name="Light theme").click()
    expect(page.locator("html[data-theme=light]")).to_be_attached()
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html[data-theme=dark]")).to_be_attached()


def test_a_change_does_not_move_other_elements(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    fill_state(web_service)
    page = open_page()
    expect(page.locator(".card")).to_have_count(3)
    moved = ".card, .gauge, .figure"
    before = call_inspector(page, "places", moved)
    for card in web_service.state.snapshot["at_work"]:
        card.update(seconds=99_999.0, input_tokens=99_999_999, usd=1234.56, idle_seconds=4000.0)
    web_service.state.snapshot["governor"]["pools"][0].update(active=4)
    web_service.send_event()
    expect(page.locator(".card").first).to_contain_text("1d 03h")
    assert call_inspector(page, "places", moved) == before
