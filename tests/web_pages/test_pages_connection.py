"""A service that goes away and comes back; and the door."""

from __future__ import annotations

from pages_browser import Opened
from pages_data import NOW, brief, full_house, run, task
from pages_stage import Stage
from playwright.sync_api import expect

TASK = "20260301-113012-stable-12-bugfix"


def test_away_is_told_and_back_goes_on_behind_what_was_seen(stage: Stage, opened: Opened) -> None:
    stage.scene.house = full_house()
    stage.scene.tasks[TASK] = task(TASK, runs=[run(TASK, 1, NOW)])
    stage.scene.outputs[f"{TASK}-r1 stdout"] = "before\n"
    page = opened(f"#/task/{TASK}")
    expect(page.locator(".pulse")).to_have_text("live")
    expect(page.locator(".output-line")).to_have_text(["before"])
    stage.tell("task", brief(TASK, "Leap years", "running", NOW))
    stage.wait_asked(f"tasks/{TASK}", 2)

    stage.go()
    expect(page.locator(".pulse")).to_have_text("away")
    expect(page.locator(".notice").first).to_contain_text("This is what was seen at 12:00")
    expect(page.locator(".output-bar")).to_contain_text("cut off")
    expect(page.get_by_role("heading", name="Leap years")).to_be_visible()

    # What happens meanwhile must be told afterwards, once.
    stage.scene.outputs[f"{TASK}-r1 stdout"] += "meanwhile\n"
    stage.scene.tasks[TASK] = task(TASK, state="done", runs=[run(TASK, 1, NOW)])
    stage.scene.events.append(("task", brief(TASK, "Leap years", "done", NOW)))
    stage.asked.clear()
    stage.come()
    page.get_by_role("button", name="Try now").click()
    expect(page.locator(".pulse")).to_have_text("live")
    expect(page.locator(".notice.is-bad")).to_have_count(0)
    expect(page.locator(".task-state")).to_contain_text("done")
    expect(page.locator(".output-line")).to_have_text(["before", "meanwhile"])
    assert ("live/tasks", "e-1") in stage.asked
    assert (f"live/runs/{TASK}-r1", "7") in stage.asked


def test_it_comes_back_by_itself(stage: Stage, opened: Opened) -> None:
    page = opened()
    expect(page.locator(".pulse")).to_have_text("live")
    stage.go()
    expect(page.locator(".pulse")).to_have_text("away")
    stage.come()
    expect(page.locator(".pulse")).to_have_text("live")


def test_a_reset_reads_the_list_again(stage: Stage, opened: Opened) -> None:
    page = opened("#/work")
    expect(page.get_by_text("No agent is at work.")).to_be_visible()
    stage.scene.briefs = [brief("t1", "Came unseen", "running", NOW)]
    stage.tell("reset")
    expect(page.locator(".board-card")).to_contain_text("Came unseen")


def test_a_task_that_changes_moves_on_the_board(stage: Stage, opened: Opened) -> None:
    stage.scene.briefs = [brief("t1", "Moves", "queued", NOW)]
    page = opened("#/work")
    expect(page.get_by_role("region", name="Waiting").locator(".board-card")).to_have_count(1)
    stage.change(brief("t1", "Moves", "awaiting_feedback", NOW, pr_number=5))
    expect(page.get_by_role("region", name="In review").locator(".board-card")).to_contain_text(
        "PR #5"
    )
    expect(page.get_by_role("region", name="Waiting").locator(".board-card")).to_have_count(0)


def test_without_a_session_one_is_led_to_the_door_and_back(stage: Stage, opened: Opened) -> None:
    stage.scene.token = "the right one"
    page = opened("#/health")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    field = page.get_by_label("Token")
    expect(field).to_be_focused()
    assert field.get_attribute("type") == "password"
    field.fill("a wrong one")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("This is not the token.")
    field.fill("the right one")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    assert "right" not in page.url


def test_a_session_that_ends_leads_to_the_door(stage: Stage, opened: Opened) -> None:
    page = opened("#/governor")
    expect(page.get_by_role("heading", name="Governor")).to_be_visible()
    stage.scene.token = "new"
    stage.tell()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.url.endswith("#/governor")


def test_the_door_says_when_nobody_is_behind_it(stage: Stage, opened: Opened) -> None:
    page = opened("", path="/login")
    stage.go()
    page.get_by_label("Token").fill("x")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("The service does not answer.")
    stage.come()
