"""The graph and the charts, as they stand in the page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pages_browser import Opened, looked
from pages_data import NOW, briefs, full_house, overlay, pool_history, stamp, task
from pages_stage import Stage
from playwright.sync_api import expect


def test_the_graph_shows_who_waits_for_whom(stage: Stage, opened: Opened) -> None:
    stage.scene.house, stage.scene.briefs = full_house(), briefs()
    page = opened("#/work/graph")
    expect(page.locator(".graph-node")).to_have_count(13)
    expect(page.locator(".graph-edge.is-needs")).to_have_count(4)
    expect(page.locator(".graph-edge.is-child")).to_have_count(1)
    expect(page.locator(".graph-node.is-stranger")).to_contain_text("octo/other#3")
    days, sort, show = (
        looked(page, "nodeAt", name) for name in ("how many days", "Sort harb", "Print the")
    )
    assert days < sort < show


def test_a_node_leads_to_its_task_by_mouse_and_by_keyboard(stage: Stage, opened: Opened) -> None:
    stage.scene.briefs = briefs()
    name = "20260301-115203-stable-18-bugfix"
    stage.scene.tasks[name] = task(name, title="Sort harbours by name")
    page = opened("#/work/graph")
    node = page.get_by_role("link", name="Sort harbours by name")
    node.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Sort harbours by name")).to_be_visible()
    page.go_back()
    node.click()
    expect(page.get_by_role("heading", name="Sort harbours by name")).to_be_visible()


def test_charts_draw_what_the_page_has_seen(stage: Stage, opened: Opened) -> None:
    stage.scene.house = full_house()
    stage.scene.failures = {"pool-history": (503, {"what": "The database is busy."})}
    page = opened("#/governor")
    pool = page.get_by_role("region", name="Pool anthropic")
    cap = pool.locator(".chart-line.is-cap")
    expect(cap).to_be_attached()
    assert "V" not in (cap.get_attribute("d") or "")
    later = NOW + timedelta(seconds=30)
    house = full_house(later)
    house["governor"]["pools"][0].update(
        cap=2,
        active=1,
        overlay=overlay(
            later,
            rate_limit_events=5,
            last_rate_limit_at=stamp(later - timedelta(seconds=5)),
            breaker={"state": "half_open"},
        ),
    )
    stage.scene.house = house
    stage.tell()
    expect(pool.locator(".chart-limit")).to_have_count(1)
    expect(pool.locator(".chart-band.is-half_open")).to_have_count(1)
    assert "V" in (cap.get_attribute("d") or "")
    expect(pool.get_by_role("img").first).to_have_attribute(
        "aria-label",
        "Pool anthropic: 1 agent at work, cap 2, hard max 8, 1 limit met so far",
    )
    expect(page.get_by_text("Charts show what this page has seen since 12:00")).to_be_visible()
    # A screen that is entered again asks again: what the service has noted stands before it.
    stage.scene.failures, stage.scene.past = {}, pool_history()
    page.evaluate("location.hash = '#/stable'")
    page.evaluate("location.hash = '#/governor'")
    expect(page.get_by_text("Charts show what the service has noted since 09:00")).to_be_visible()
    told = "What was before 12:00, when this page was opened, is noted once a minute."
    expect(pool.get_by_text(told)).to_be_visible()
    assert (cap.get_attribute("d") or "").count("M") == 3  # nobody looked in between, twice
    expect(pool.locator(".chart-limit")).to_have_count(2)
    expect(pool.locator(".chart-band.is-half_open")).to_have_count(1)
    expect(pool.locator(".chart-band.is-open")).to_have_count(1)


def test_shares_are_bars_with_numbers(stage: Stage, opened: Opened) -> None:
    stage.scene.house = full_house()
    page = opened("#/governor")
    pool = page.get_by_role("region", name="Pool anthropic")
    row = pool.get_by_role("row").filter(has_text="stable")
    expect(row).to_contain_text("Its share is used.")
    held, whole = (
        float(row.locator(f".share-{name}").get_attribute("width") or 0) for name in ("held", "all")
    )
    assert held / whole == pytest.approx(2 / 3)  # of its share, which is less than the cap


def test_an_older_service_that_tells_no_projects_is_drawn_too(stage: Stage, opened: Opened) -> None:
    stage.scene.house = full_house()
    pool = stage.scene.house["governor"]["pools"][0]
    for name in ("projects", "overlay", "cap", "adaptive", "policy"):
        del pool[name]
    pool["leases"] = [{"project": "stable", "lent": None}, {"project": "stable", "lent": "x"}]
    page = opened("#/governor")
    row = (
        page.get_by_role("region", name="Pool anthropic")
        .get_by_role("row")
        .filter(has_text="stable")
    )
    expect(row.get_by_role("cell").nth(1)).to_have_text("1")
    expect(page.get_by_text("fixed by the operator").first).to_be_visible()


def test_a_cap_is_set_and_a_pool_parked_and_opened(stage: Stage, opened: Opened) -> None:
    stage.scene.house = full_house()
    page = opened("#/governor")
    pool = page.get_by_role("region", name="Pool anthropic")
    pool.get_by_role("button", name="Set cap").click()
    page.get_by_label("At most so many agents at once").fill("5")
    page.get_by_role("button", name="Set", exact=True).click()
    assert stage.wait_sent("pools/anthropic").body == {"max_global_agents": 5}
    pool.get_by_role("button", name="Park").click()
    page.get_by_label("Minutes").fill("10")
    page.get_by_role("button", name="Park it").click()
    assert stage.wait_sent("pools/anthropic/park").body == {"minutes": 10, "why": ""}
    page.get_by_role("region", name="Pool google").get_by_role("button", name="Open it").click()
    stage.wait_sent("pools/google/resume")
