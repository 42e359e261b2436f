"""The task screen, from submission to the end."""

from __future__ import annotations

import re

from api_data import NOW, ago, brief, full_snapshot, message, run, task
from browser_pages import PageOpener, call_inspector
from fake_web_service import FakeWebService
from playwright.sync_api import Page, expect

TASK = "20260301-115900-tools-tidy-up"
MANUAL_TASK = {"repo_full_name": None, "issue_number": None, "issue_url": None, "project": "tools"}


def set_task_state(web_service: FakeWebService, state: str, **more: object) -> None:
    """Change the task's state and send the event."""
    web_service.state.tasks[TASK] = task(TASK, title="Tidy up", state=state, **MANUAL_TASK, **more)
    web_service.change_task(
        brief(TASK, "Tidy up", state, NOW, project="tools", repo_full_name=None, issue_number=None)
    )


def test_submit_run_question_answer_done(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    web_service.state.snapshot = full_snapshot()
    web_service.responses["tasks"] = {
        "id": TASK,
        "status": "queued",
        "why": "The pool is full.",
        "gate": "cap",
    }
    page = open_page()
    page.get_by_role("button", name="New task").click()
    dialog = page.get_by_role("dialog", name="New task")
    expect(dialog.get_by_label("What should the agent do?")).to_be_focused()
    dialog.get_by_label("What should the agent do?").fill("Tidy up")
    dialog.get_by_label("Or a folder on this machine").fill("/tmp/some-folder")
    dialog.get_by_label("Agent", exact=True).select_option("codex")
    dialog.get_by_label("Depends on").fill("octo/stable#16, 2026")
    set_task_state(web_service, "queued")
    web_service.state.waiting_reasons[TASK] = {
        "waits": True,
        "would_start": False,
        "gate": "cap",
        "why": "The pool is full.",
        "remedy": "Wait.",
        "since": ago(NOW, minutes=2),
        "until": None,
        "service": {},
    }
    dialog.get_by_role("button", name="Submit").click()
    changes = web_service.wait_for_change("tasks")
    assert changes.body == {
        "prompt": "Tidy up",
        "agent": "codex",
        "title": "",
        "depends_on": ["octo/stable#16", "2026"],
        "cwd": "/tmp/some-folder",
    }
    expect(page.get_by_text("Task queued: The pool is full.")).to_be_visible()
    expect(page.get_by_role("heading", name="Tidy up")).to_be_visible()
    expect(page.get_by_role("region", name="Waiting reason")).to_contain_text("The pool is full.")

    del web_service.state.waiting_reasons[TASK]
    set_task_state(web_service, "running", runs=[run(TASK, 1, NOW)])
    expect(page.locator(".task-state")).to_contain_text("running")
    web_service.print_output(f"{TASK}-r1 stdout", "Looking around\n")
    expect(page.locator(".output-line")).to_have_text(["Looking around"])

    ended = run(
        TASK,
        1,
        NOW,
        outcome="needs_input",
        exited_at=ago(NOW, minutes=1),
        ended_at=ago(NOW, minutes=1),
        state="ended",
    )
    set_task_state(web_service, "needs_input", question="Which style?", runs=[ended])
    web_service.end_run(f"{TASK}-r1")
    expect(page.get_by_role("region", name="Question")).to_contain_text("Which style?")
    page.get_by_label("Your answer").fill("The old one.")
    page.get_by_role("button", name="Answer").click()
    assert web_service.wait_for_change(f"tasks/{TASK}/answer").body == {"text": "The old one."}

    set_task_state(
        web_service,
        "done",
        runs=[
            ended,
            run(TASK, 2, NOW, outcome="success", ended_at=ago(NOW, seconds=1), state="ended"),
        ],
    )
    expect(page.locator(".task-state")).to_contain_text("done")
    expect(page.get_by_role("region", name="Timeline")).to_contain_text("Attempt 2 succeeded")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def test_the_task_page_shows_the_start_time_of_the_queue(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    snapshot = web_service.state.snapshot = full_snapshot()
    snapshot["queue"][0]["task"] = TASK
    set_task_state(web_service, "queued")
    delayed = {"waits": True, "gate": "cap", "why": "The pool is full.", "until": None}
    web_service.state.waiting_reasons[TASK] = {
        **delayed,
        "since": ago(NOW, minutes=2),
        "service": {},
    }
    page = open_page(f"#/task/{TASK}", fixed_clock=True)
    why = page.get_by_role("region", name="Waiting reason")
    expect(why).to_contain_text("since 11:58 (2m), starts in about 6m")
    snapshot["queue"][0].update(starts_at=None, starts_about=None)
    page.reload()
    expect(why).to_contain_text(re.compile(r"\(2m\)$"))


def test_a_refused_submission_shows_why_and_keeps_the_input(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    web_service.state.failures["tasks"] = (
        422,
        {"what": "There is no agent 'x'.", "remedy": "Choose one."},
    )
    page = open_page()
    page.get_by_role("button", name="New task").click()
    page.get_by_label("What should the agent do?").fill("Something")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("alert")).to_contain_text("There is no agent 'x'.")
    expect(page.get_by_label("What should the agent do?")).to_have_value("Something")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="New task")).to_be_focused()


def test_a_stop_asks_for_confirmation(web_service: FakeWebService, open_page: PageOpener) -> None:
    set_task_state(web_service, "running", runs=[run(TASK, 1, NOW)])
    page = open_page(f"#/task/{TASK}")
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog", name="Stop this task?")
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    expect(dialog).to_have_count(0)
    assert web_service.changes == []
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog.get_by_label("Reason").fill("not needed")
    dialog.get_by_role("button", name="Stop task").click()
    assert web_service.wait_for_change(f"tasks/{TASK}/stop").body == {"why": "not needed"}
    set_task_state(web_service, "stopped", runs=[])
    expect(page.locator(".task-state")).to_contain_text("stopped")
    for name in ("Resume", "Retry"):
        expect(page.get_by_role("button", name=name)).to_be_visible()


def test_a_refused_stop_stays_in_its_dialog(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    set_task_state(web_service, "running", runs=[])
    web_service.state.failures[f"tasks/{TASK}/stop"] = (409, {"what": "It is over already."})
    page = open_page(f"#/task/{TASK}")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop task").click()
    expect(page.get_by_role("alert")).to_contain_text("It is over already.")


def test_a_question_of_an_issue_is_answered_on_github(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    web_service.state.tasks[TASK] = task(TASK, state="needs_input", question="Which?")
    page = open_page(f"#/task/{TASK}")
    requests = page.get_by_role("region", name="Question")
    expect(requests).to_contain_text("Answer with a comment on octo/stable#12")
    expect(requests.get_by_role("textbox")).to_have_count(0)


def running(web_service: FakeWebService, open_page: PageOpener, text: str) -> Page:
    web_service.state.outputs[f"{TASK}-r1 stdout"] = text
    set_task_state(web_service, "running", runs=[run(TASK, 1, NOW)])
    return open_page(f"#/task/{TASK}")


def test_output_is_shown_live_with_colours(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    page = running(web_service, open_page, "\x1b[31mred\x1b[0m plain\n")
    expect(page.locator(".output-line .fg-red")).to_have_text("red")
    web_service.print_output(f"{TASK}-r1 stdout", "half")
    web_service.print_output(f"{TASK}-r1 stdout", " a line\n<b>not bold</b>\n")
    expect(page.locator(".output-line")).to_have_text(
        ["red plain", "half a line", "<b>not bold</b>"]
    )
    web_service.print_output(f"{TASK}-r1 stdout", "without an end")
    web_service.end_run(f"{TASK}-r1")
    expect(page.locator(".output-line").last).to_have_text("without an end")
    expect(page.locator(".output-bar")).to_contain_text("ended")


BODY = "document.querySelector('.output-body')"


def test_following_stays_at_the_end_and_scrolling_up_stops_it(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    page = running(web_service, open_page, "".join(f"line {n}\n" for n in range(300)))
    expect(page.locator(".output-line")).to_have_count(300)
    call_inspector(page, "atEnd")
    web_service.print_output(f"{TASK}-r1 stdout", "more\n" * 50)
    expect(page.locator(".output-line")).to_have_count(350)
    call_inspector(page, "atEnd")
    page.evaluate(f"{BODY}.scrollTop = 500")
    follow = page.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "false")
    web_service.print_output(f"{TASK}-r1 stdout", "more\n" * 50)
    expect(page.locator(".output-line")).to_have_count(400)
    assert page.evaluate(f"{BODY}.scrollTop") == 500
    follow.click()
    call_inspector(page, "atEnd")


def test_the_output_can_be_searched(web_service: FakeWebService, open_page: PageOpener) -> None:
    page = running(web_service, open_page, "one\nTwo \x1b[32mtw\x1b[0mo\nthree\n")
    expect(page.locator(".output-line")).to_have_count(3)
    field = page.get_by_label("Search in the output")
    field.fill("two")
    expect(page.locator(".output-matches")).to_have_text("1 of 1")
    expect(page.locator(".output-line mark")).to_have_text(["Two", "tw", "o"])
    web_service.print_output(f"{TASK}-r1 stdout", "two again\n")
    expect(page.locator(".output-matches")).to_have_text("1 of 2")
    field.press("Enter")
    expect(page.locator(".output-matches")).to_have_text("2 of 2")
    expect(page.locator(".output-line.is-current")).to_have_text("two again")
    field.fill("nowhere")
    expect(page.locator(".output-matches")).to_have_text("no match")
    expect(page.locator(".output-line mark")).to_have_count(0)


def test_an_output_keeps_its_last_lines(web_service: FakeWebService, open_page: PageOpener) -> None:
    page = running(web_service, open_page, "")
    expect(page.locator(".output-body.is-empty")).to_be_visible()
    web_service.print_output(f"{TASK}-r1 stdout", "".join(f"line {n}\n" for n in range(6000)))
    expect(page.locator(".output-line").last).to_have_text("line 5999")
    expect(page.locator(".output-line")).to_have_count(5000)
    expect(page.locator(".output-bar")).to_contain_text("5000 lines")


def test_a_new_attempt_is_shown_automatically(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    page = running(web_service, open_page, "first\n")
    expect(page.locator(".output-line")).to_have_text(["first"])
    web_service.state.outputs[f"{TASK}-r2 stdout"] = "second\n"
    set_task_state(
        web_service,
        "running",
        runs=[run(TASK, 1, NOW, outcome="error", ended_at=ago(NOW, minutes=1)), run(TASK, 2, NOW)],
    )
    expect(page.locator(".output-line")).to_have_text(["second"])
    page.locator(".run").nth(1).click()
    expect(page.locator(".output-line")).to_have_text(["first"])


def test_the_bus_is_read_live_and_written_to(
    web_service: FakeWebService, open_page: PageOpener
) -> None:
    web_service.state.buses[TASK] = [message(1, "QUESTION", "Keep the old name?", NOW)]
    web_service.responses[f"tasks/{TASK}/bus"] = lambda body: message(
        5,
        body["type"],
        body["text"],
        NOW,
        sender={"kind": "person", "name": "ada"},
        thread=body.get("thread", ""),
    )
    set_task_state(web_service, "running", runs=[run(TASK, 1, NOW)])
    page = open_page(f"#/task/{TASK}")
    page.get_by_role("tab", name="Bus").click()
    expect(page.locator(".message")).to_have_count(1)
    web_service.post_message(TASK, message(2, "PROGRESS", "Half way.", NOW))
    expect(page.locator(".message-body")).to_have_text(["Keep the old name?", "Half way."])
    page.get_by_role("button", name="Reply to agent").first.click()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.get_by_label("Message", exact=True).fill("Yes.")
    page.get_by_role("button", name="Post").click()
    changes = web_service.wait_for_change(f"tasks/{TASK}/bus")
    assert changes.body == {"text": "Yes.", "type": "USER", "thread": "20260301-120001-000000"}
    expect(page.locator(".message-body").last).to_have_text("Yes.")
    expect(page.get_by_label("Message", exact=True)).to_have_value("")


def test_children_and_runs_are_a_tree(web_service: FakeWebService, open_page: PageOpener) -> None:
    below = [
        {
            "id": "child-1",
            "state": "done",
            "children": [{"id": "child-2", "state": "running", "children": []}],
        }
    ]
    set_task_state(web_service, "running", runs=[run(TASK, 1, NOW)], children=below)
    page = open_page(f"#/task/{TASK}")
    expect(page.locator(".tree .tree a")).to_have_text("child-2")
    web_service.state.tasks["child-2"] = task("child-2", title="The second child")
    page.locator(".tree .tree a").click()
    expect(page.get_by_role("heading", name="The second child")).to_be_visible()


def test_a_missing_task_shows_an_error(open_page: PageOpener) -> None:
    expect(open_page("#/task/nobody").get_by_role("alert")).to_contain_text(
        "There is no tasks/nobody."
    )
