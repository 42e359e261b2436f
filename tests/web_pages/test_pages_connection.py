"""Lost and restored connections, and the login page."""

from __future__ import annotations

from api_data import NOW, brief, full_snapshot, run, task
from browser_pages import PageOpener
from fake_web_service import FakeWebService
from playwright.sync_api import expect

TASK = "20260301-113012-stable-12-bugfix"


def test_a_lost_connection_is_shown_and_resumed(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    web_service.state.snapshot = full_snapshot()
    web_service.state.tasks[TASK] = task(TASK, runs=[run(TASK, 1, NOW)])
    web_service.state.outputs[f"{TASK}-r1 stdout"] = "before\n"
    page = open_page(f"#/task/{TASK}")
    expect(page.locator(".connection")).to_have_text("live")
    expect(page.locator(".output-line")).to_have_text(["before"])
    web_service.send_event("task", brief(TASK, "Leap years", "running", NOW))
    web_service.wait_for_request(f"tasks/{TASK}", 2)

    web_service.stop()
    expect(page.locator(".connection")).to_have_text("disconnected")
    expect(page.locator(".notice").first).to_contain_text("Showing data from 12:00")
    expect(page.locator(".output-bar")).to_contain_text("disconnected")
    expect(page.get_by_role("heading", name="Leap years")).to_be_visible()

    # Changes without a connection must be reported once afterwards.
    web_service.state.outputs[f"{TASK}-r1 stdout"] += "meanwhile\n"
    web_service.state.tasks[TASK] = task(TASK, state="done", runs=[run(TASK, 1, NOW)])
    web_service.state.events.append(("task", brief(TASK, "Leap years", "done", NOW)))
    web_service.requests.clear()
    web_service.start()
    page.get_by_role("button", name="Retry now").click()
    expect(page.locator(".connection")).to_have_text("live")
    expect(page.locator(".notice.is-bad")).to_have_count(0)
    expect(page.locator(".task-state")).to_contain_text("done")
    expect(page.locator(".output-line")).to_have_text(["before", "meanwhile"])
    assert ("live/tasks", "e-1") in web_service.requests
    assert (f"live/runs/{TASK}-r1", "7") in web_service.requests


def test_the_page_reconnects_automatically(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    page = open_page()
    expect(page.locator(".connection")).to_have_text("live")
    web_service.stop()
    expect(page.locator(".connection")).to_have_text("disconnected")
    web_service.start()
    expect(page.locator(".connection")).to_have_text("live")


def test_a_reset_reloads_the_list(web_service: FakeWebService, open_page: PageOpener) -> None:
    page = open_page("#/work")
    expect(page.get_by_text("No agent is running.")).to_be_visible()
    web_service.state.briefs = [brief("t1", "Came unseen", "running", NOW)]
    web_service.send_event("reset")
    expect(page.locator(".board-card")).to_contain_text("Came unseen")


def test_a_task_that_changes_moves_on_the_board(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    web_service.state.briefs = [brief("t1", "Moves", "queued", NOW)]
    page = open_page("#/work")
    expect(page.get_by_role("region", name="Queued").locator(".board-card")).to_have_count(1)
    web_service.change_task(brief("t1", "Moves", "awaiting_feedback", NOW, pr_number=5))
    expect(page.get_by_role("region", name="In review").locator(".board-card")).to_contain_text(
        "PR #5"
    )
    expect(page.get_by_role("region", name="Queued").locator(".board-card")).to_have_count(0)


def test_without_a_session_the_login_page_leads_back(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    web_service.state.token = "the right one"
    page = open_page("#/health")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    field = page.get_by_label("Token")
    expect(field).to_be_focused()
    assert field.get_attribute("type") == "password"
    field.fill("a wrong one")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Wrong token.")
    field.fill("the right one")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    assert "right" not in page.url


def test_an_ended_session_leads_to_the_login_page(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    page = open_page("#/governor")
    expect(page.get_by_role("heading", name="Governor")).to_be_visible()
    web_service.state.token = "new"
    web_service.send_event()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.url.endswith("#/governor")


def test_the_login_page_shows_that_the_service_is_down(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    page = open_page("", path="/login")
    web_service.stop()
    page.get_by_label("Token").fill("x")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("The service is not responding.")
    web_service.start()
