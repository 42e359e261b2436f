"""Five hundred tasks that change all the time do not keep the browser busy."""

from __future__ import annotations

import pytest
from pages_browser import Opened, looked
from pages_data import NOW, agent, brief, full_house, queued
from pages_stage import Stage
from playwright.sync_api import CDPSession, expect

COUNT = 500


def crowd(stage: Stage) -> None:
    house = full_house()
    house["queue"] = [queued(n + 1, f"t{n:04}", f"Task number {n}", n, NOW) for n in range(COUNT)]
    house["queue_total"] = COUNT
    house["at_work"] = [agent(f"w{n:03}", f"Working {n}", n, NOW) for n in range(50)]
    house["at_work_total"] = 50
    stage.scene.house = house
    stage.scene.briefs = [
        brief(f"t{n:04}", f"Task number {n}", "queued", NOW) for n in range(COUNT)
    ]


@pytest.mark.parametrize(("address", "row"), [("#/stable", ".wait"), ("#/work", ".board-card")])
def test_a_long_list_is_drawn_in_part_until_more_is_asked_for(
    address: str, row: str, stage: Stage, opened: Opened
) -> None:
    crowd(stage)
    page = opened(address)
    expect(page.locator(row).first).to_be_visible()
    assert page.locator(row).count() <= 100
    page.get_by_role("button", name="more").last.click()
    expect(page.locator(row)).to_have_count(COUNT)


def test_one_change_among_five_hundred_touches_little(stage: Stage, opened: Opened) -> None:
    crowd(stage)
    page = opened("#/work")
    page.get_by_role("button", name="more").click()
    expect(page.locator(".board-card")).to_have_count(COUNT)
    # A busy machine stretches every clock; what is touched can be counted.
    looked(page, "count")
    stage.change(brief("t0250", "Another title", "queued", NOW))
    expect(page.get_by_text("Another title")).to_be_attached()
    assert page.evaluate("window.touched") < 40


def busy(session: CDPSession) -> float:
    """How long the page's thread has worked so far, in milliseconds of its own time."""
    found = session.send("Performance.getMetrics")["metrics"]
    return next(one["value"] for one in found if one["name"] == "TaskDuration") * 1000


@pytest.mark.soak
@pytest.mark.parametrize("address", ["#/stable", "#/work", "#/work/graph"])
def test_five_hundred_tasks_change_without_a_long_task(
    address: str, stage: Stage, opened: Opened
) -> None:
    """All tasks of one change together take less than one may. The best of three rounds counts."""
    crowd(stage)
    page = opened(address)
    expect(page.locator(".pulse")).to_have_text("live")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    rounds = []
    for number in range(3):
        before = busy(session)
        for task in range(0, COUNT, 5):
            stage.change(brief(f"t{task:04}", f"Round {number} of {task}", "queued", NOW))
        for row in stage.scene.house["queue"]:
            row.update(why=f"Round {number}", title=f"Round {number} of {row['position']}")
        stage.tell()
        looked(page, "shown", f"Round {number} of")
        rounds.append(busy(session) - before)
    assert min(rounds) < 100, rounds
