"""The dependency graph and the charts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from api_data import NOW, briefs, full_snapshot, overlay, pool_history, stamp, task
from browser_pages import PageOpener, call_inspector
from fake_web_service import FakeWebService
from playwright.sync_api import expect


def test_the_graph_shows_dependencies(web_service: FakeWebService, open_page: PageOpener) -> None:
    web_service.state.snapshot, web_service.state.briefs = full_snapshot(), briefs()
    page = open_page("#/work/graph")
    expect(page.locator(".graph-node")).to_have_count(13)
    expect(page.locator(".graph-edge.is-needs")).to_have_count(4)
    expect(page.locator(".graph-edge.is-child")).to_have_count(1)
    expect(page.locator(".graph-node.is-external")).to_contain_text("octo/other#3")
    days, sort, show = (
        call_inspector(page, "nodeAt", name) for name in ("how many days", "Sort harb", "Print the")
    )
    assert days < sort < show


def test_a_node_opens_its_task_by_mouse_and_keyboard(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    web_service.state.briefs = briefs()
    name = "20260301-115203-stable-18-bugfix"
    web_service.state.tasks[name] = task(name, title="Sort harbours by name")
    page = open_page("#/work/graph")
    node = page.get_by_role("link", name="Sort harbours by name")
    node.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Sort harbours by name")).to_be_visible()
    page.go_back()
    node.click()
    expect(page.get_by_role("heading", name="Sort harbours by name")).to_be_visible()


def test_charts_show_recorded_samples(web_service: FakeWebService, open_page: PageOpener) -> None:
    web_service.state.snapshot = full_snapshot()
    web_service.state.failures = {"pool-history": (503, {"what": "The database is busy."})}
    page = open_page("#/governor")
    pool = page.get_by_role("region", name="Pool anthropic")
    cap = pool.locator(".chart-line.is-cap")
    expect(cap).to_be_attached()
    assert "V" not in (cap.get_attribute("d") or "")
    later = NOW + timedelta(seconds=30)
    snapshot = full_snapshot(later)
    snapshot["governor"]["pools"][0].update(
        cap=2,
        active=1,
        overlay=overlay(
            later,
            rate_limit_events=5,
            last_rate_limit_at=stamp(later - timedelta(seconds=5)),
            breaker={"state": "half_open"},
        ),
    )
    web_service.state.snapshot = snapshot
    web_service.send_event()
    expect(pool.locator(".chart-limit")).to_have_count(1)
    expect(pool.locator(".chart-band.is-half_open")).to_have_count(1)
    assert "V" in (cap.get_attribute("d") or "")
    expect(pool.get_by_role("img").first).to_have_attribute(
        "aria-label",
        "Pool anthropic: 1 running agent, cap 2, hard max 8, 1 rate limit hit",
    )
    expect(page.get_by_text("Recorded by this page since 12:00")).to_be_visible()
    # Opening the screen again reads the recorded history.
    web_service.state.failures, web_service.state.past = {}, pool_history()
    page.evaluate("location.hash = '#/overview'")
    page.evaluate("location.hash = '#/governor'")
    expect(page.get_by_text("Recorded by the service since 09:00")).to_be_visible()
    told = "Before 12:00, when this page was opened: one sample per minute."
    expect(pool.get_by_text(told)).to_be_visible()
    assert (cap.get_attribute("d") or "").count("M") == 3  # nobody looked in between, twice
    expect(pool.locator(".chart-limit")).to_have_count(2)
    expect(pool.locator(".chart-band.is-half_open")).to_have_count(1)
    expect(pool.locator(".chart-band.is-open")).to_have_count(1)


def test_shares_are_bars_with_numbers(web_service: FakeWebService, open_page: PageOpener) -> None:
    web_service.state.snapshot = full_snapshot()
    page = open_page("#/governor")
    pool = page.get_by_role("region", name="Pool anthropic")
    row = pool.get_by_role("row").filter(has_text="stable")
    expect(row).to_contain_text("Its share is used.")
    used, whole = (
        float(row.locator(f".share-{name}").get_attribute("width") or 0) for name in ("used", "all")
    )
    assert used / whole == pytest.approx(2 / 3)  # of its share, which is less than the cap


def test_an_older_service_without_projects_is_shown(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    web_service.state.snapshot = full_snapshot()
    pool = web_service.state.snapshot["governor"]["pools"][0]
    for name in ("projects", "overlay", "cap", "adaptive", "policy"):
        del pool[name]
    pool["leases"] = [
        {"project": "stable", "released": False},
        {"project": "stable", "released": True},
    ]
    page = open_page("#/governor")
    row = (
        page.get_by_role("region", name="Pool anthropic")
        .get_by_role("row")
        .filter(has_text="stable")
    )
    expect(row.get_by_role("cell").nth(1)).to_have_text("1")
    expect(page.get_by_text("fixed", exact=True).first).to_be_visible()


def test_a_cap_is_set_and_a_pool_parked_and_resumed(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    web_service.state.snapshot = full_snapshot()
    page = open_page("#/governor")
    pool = page.get_by_role("region", name="Pool anthropic")
    pool.get_by_role("button", name="Set cap").click()
    page.get_by_label("Maximum agents at once").fill("5")
    page.get_by_role("button", name="Set cap", exact=True).click()
    assert web_service.wait_for_change("pools/anthropic").body == {"max_global_agents": 5}
    pool.get_by_role("button", name="Park").click()
    page.get_by_label("Minutes").fill("10")
    page.get_by_role("button", name="Park pool").click()
    assert web_service.wait_for_change("pools/anthropic/park").body == {"minutes": 10, "why": ""}
    page.get_by_role("region", name="Pool google").get_by_role("button", name="Resume pool").click()
    web_service.wait_for_change("pools/google/resume")
