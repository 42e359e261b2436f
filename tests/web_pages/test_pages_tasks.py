"""One task through all its days, as somebody at a browser sees and steers it."""

from __future__ import annotations

import re

from pages_browser import Opened, looked
from pages_data import NOW, ago, brief, full_house, message, run, task
from pages_stage import Stage
from playwright.sync_api import Page, expect

TASK = "20260301-115900-tools-tidy-up"
HAND = {"repo_full_name": None, "issue_number": None, "issue_url": None, "project": "tools"}


def stand(stage: Stage, state: str, **more: object) -> None:
    """The task is in this state from now on, and everybody hears it."""
    stage.scene.tasks[TASK] = task(TASK, title="Tidy up", state=state, **HAND, **more)
    stage.change(
        brief(TASK, "Tidy up", state, NOW, project="tools", repo_full_name=None, issue_number=None)
    )


def test_submit_run_question_answer_done(stage: Stage, opened: Opened) -> None:
    stage.scene.house = full_house()
    stage.replies["tasks"] = {
        "id": TASK,
        "status": "queued",
        "why": "The pool is full.",
        "gate": "cap",
    }
    page = opened()
    page.get_by_role("button", name="New task").click()
    dialog = page.get_by_role("dialog", name="New task")
    expect(dialog.get_by_label("What is to be done")).to_be_focused()
    dialog.get_by_label("What is to be done").fill("Tidy up")
    dialog.get_by_label("Or a folder of this machine").fill("/tmp/some-folder")
    dialog.get_by_label("Agent").select_option("codex")
    dialog.get_by_label("Waits for").fill("octo/stable#16, 2026")
    stand(stage, "queued")
    stage.scene.whys[TASK] = {
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
    sent = stage.wait_sent("tasks")
    assert sent.body == {
        "prompt": "Tidy up",
        "agent": "codex",
        "title": "",
        "depends_on": ["octo/stable#16", "2026"],
        "cwd": "/tmp/some-folder",
    }
    expect(page.get_by_text("It is queued: The pool is full.")).to_be_visible()
    expect(page.get_by_role("heading", name="Tidy up")).to_be_visible()
    expect(page.get_by_role("region", name="Why")).to_contain_text("The pool is full.")

    del stage.scene.whys[TASK]
    stand(stage, "running", runs=[run(TASK, 1, NOW)])
    expect(page.locator(".task-state")).to_contain_text("at work")
    stage.print(f"{TASK}-r1 stdout", "Looking around\n")
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
    stand(stage, "needs_input", question="Which style?", runs=[ended])
    stage.end(f"{TASK}-r1")
    expect(page.get_by_role("region", name="Its question")).to_contain_text("Which style?")
    page.get_by_label("Your answer").fill("The old one.")
    page.get_by_role("button", name="Answer").click()
    assert stage.wait_sent(f"tasks/{TASK}/answer").body == {"text": "The old one."}

    stand(
        stage,
        "done",
        runs=[
            ended,
            run(TASK, 2, NOW, outcome="success", ended_at=ago(NOW, seconds=1), state="ended"),
        ],
    )
    expect(page.locator(".task-state")).to_contain_text("done")
    expect(page.get_by_role("region", name="Timeline")).to_contain_text("Attempt 2 ended well")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def test_the_page_says_of_a_start_what_the_queue_says(stage: Stage, opened: Opened) -> None:
    house = stage.scene.house = full_house()
    house["queue"][0]["task"] = TASK
    stand(stage, "queued")
    held = {"waits": True, "gate": "cap", "why": "The pool is full.", "until": None}
    stage.scene.whys[TASK] = {**held, "since": ago(NOW, minutes=2), "service": {}}
    page = opened(f"#/task/{TASK}", still=True)
    why = page.get_by_role("region", name="Why")
    expect(why).to_contain_text("since 11:58 (2m), starts in about 6m")
    house["queue"][0].update(starts_at=None, starts_about=None)
    page.reload()
    expect(why).to_contain_text(re.compile(r"\(2m\)$"))


def test_a_refused_submission_says_why_and_keeps_what_was_typed(
    stage: Stage, opened: Opened
) -> None:
    stage.scene.failures["tasks"] = (
        422,
        {"what": "There is no agent 'x'.", "remedy": "Choose one."},
    )
    page = opened()
    page.get_by_role("button", name="New task").click()
    page.get_by_label("What is to be done").fill("Something")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("alert")).to_contain_text("There is no agent 'x'.")
    expect(page.get_by_label("What is to be done")).to_have_value("Something")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="New task")).to_be_focused()


def test_a_stop_is_asked_for_first(stage: Stage, opened: Opened) -> None:
    stand(stage, "running", runs=[run(TASK, 1, NOW)])
    page = opened(f"#/task/{TASK}")
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog", name="Stop this task?")
    dialog.get_by_role("button", name="Leave it").click()
    expect(dialog).to_have_count(0)
    assert stage.sent == []
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog.get_by_label("Why").fill("not needed")
    dialog.get_by_role("button", name="Stop it").click()
    assert stage.wait_sent(f"tasks/{TASK}/stop").body == {"why": "not needed"}
    stand(stage, "stopped", runs=[])
    expect(page.locator(".task-state")).to_contain_text("stopped")
    for name in ("Resume", "Retry"):
        expect(page.get_by_role("button", name=name)).to_be_visible()


def test_a_refused_stop_stays_in_its_dialog(stage: Stage, opened: Opened) -> None:
    stand(stage, "running", runs=[])
    stage.scene.failures[f"tasks/{TASK}/stop"] = (409, {"what": "It is over already."})
    page = opened(f"#/task/{TASK}")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop it").click()
    expect(page.get_by_role("alert")).to_contain_text("It is over already.")


def test_a_question_of_an_issue_is_answered_on_github(stage: Stage, opened: Opened) -> None:
    stage.scene.tasks[TASK] = task(TASK, state="needs_input", question="Which?")
    page = opened(f"#/task/{TASK}")
    asked = page.get_by_role("region", name="Its question")
    expect(asked).to_contain_text("Answer with a comment on octo/stable#12")
    expect(asked.get_by_role("textbox")).to_have_count(0)


def running(stage: Stage, opened: Opened, text: str) -> Page:
    stage.scene.outputs[f"{TASK}-r1 stdout"] = text
    stand(stage, "running", runs=[run(TASK, 1, NOW)])
    return opened(f"#/task/{TASK}")


def test_output_comes_as_it_is_printed_with_its_colours(stage: Stage, opened: Opened) -> None:
    page = running(stage, opened, "\x1b[31mred\x1b[0m plain\n")
    expect(page.locator(".output-line .fg-red")).to_have_text("red")
    stage.print(f"{TASK}-r1 stdout", "half")
    stage.print(f"{TASK}-r1 stdout", " a line\n<b>not bold</b>\n")
    expect(page.locator(".output-line")).to_have_text(
        ["red plain", "half a line", "<b>not bold</b>"]
    )
    stage.print(f"{TASK}-r1 stdout", "without an end")
    stage.end(f"{TASK}-r1")
    expect(page.locator(".output-line").last).to_have_text("without an end")
    expect(page.locator(".output-bar")).to_contain_text("ended")


BODY = "document.querySelector('.output-body')"


def test_who_follows_stays_at_the_end_and_who_reads_is_left_alone(
    stage: Stage, opened: Opened
) -> None:
    page = running(stage, opened, "".join(f"line {n}\n" for n in range(300)))
    expect(page.locator(".output-line")).to_have_count(300)
    looked(page, "atEnd")
    stage.print(f"{TASK}-r1 stdout", "more\n" * 50)
    expect(page.locator(".output-line")).to_have_count(350)
    looked(page, "atEnd")
    page.evaluate(f"{BODY}.scrollTop = 500")
    follow = page.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "false")
    stage.print(f"{TASK}-r1 stdout", "more\n" * 50)
    expect(page.locator(".output-line")).to_have_count(400)
    assert page.evaluate(f"{BODY}.scrollTop") == 500
    follow.click()
    looked(page, "atEnd")


def test_a_word_is_found_in_the_output(stage: Stage, opened: Opened) -> None:
    page = running(stage, opened, "one\nTwo \x1b[32mtw\x1b[0mo\nthree\n")
    expect(page.locator(".output-line")).to_have_count(3)
    field = page.get_by_label("Search in the output")
    field.fill("two")
    expect(page.locator(".output-hits")).to_have_text("1 of 1")
    expect(page.locator(".output-line mark")).to_have_text(["Two", "tw", "o"])
    stage.print(f"{TASK}-r1 stdout", "two again\n")
    expect(page.locator(".output-hits")).to_have_text("1 of 2")
    field.press("Enter")
    expect(page.locator(".output-hits")).to_have_text("2 of 2")
    expect(page.locator(".output-line.is-here")).to_have_text("two again")
    field.fill("nowhere")
    expect(page.locator(".output-hits")).to_have_text("none")
    expect(page.locator(".output-line mark")).to_have_count(0)


def test_an_output_keeps_its_last_lines(stage: Stage, opened: Opened) -> None:
    page = running(stage, opened, "")
    expect(page.locator(".output-body.is-empty")).to_be_visible()
    stage.print(f"{TASK}-r1 stdout", "".join(f"line {n}\n" for n in range(6000)))
    expect(page.locator(".output-line").last).to_have_text("line 5999")
    expect(page.locator(".output-line")).to_have_count(5000)
    expect(page.locator(".output-bar")).to_contain_text("5000 lines")


def test_a_new_attempt_is_shown_by_itself(stage: Stage, opened: Opened) -> None:
    page = running(stage, opened, "first\n")
    expect(page.locator(".output-line")).to_have_text(["first"])
    stage.scene.outputs[f"{TASK}-r2 stdout"] = "second\n"
    stand(
        stage,
        "running",
        runs=[run(TASK, 1, NOW, outcome="error", ended_at=ago(NOW, minutes=1)), run(TASK, 2, NOW)],
    )
    expect(page.locator(".output-line")).to_have_text(["second"])
    page.locator(".run").nth(1).click()
    expect(page.locator(".output-line")).to_have_text(["first"])


def test_the_bus_is_read_live_and_written_to(stage: Stage, opened: Opened) -> None:
    stage.scene.buses[TASK] = [message(1, "QUESTION", "Keep the old name?", NOW)]
    stage.replies[f"tasks/{TASK}/bus"] = lambda body: message(
        5,
        body["type"],
        body["text"],
        NOW,
        sender={"kind": "person", "name": "ada"},
        thread=body.get("thread", ""),
    )
    stand(stage, "running", runs=[run(TASK, 1, NOW)])
    page = opened(f"#/task/{TASK}")
    page.get_by_role("tab", name="Bus").click()
    expect(page.locator(".message")).to_have_count(1)
    stage.post(TASK, message(2, "PROGRESS", "Half way.", NOW))
    expect(page.locator(".message-body")).to_have_text(["Keep the old name?", "Half way."])
    page.get_by_role("button", name="Reply to agent").first.click()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.get_by_label("Message", exact=True).fill("Yes.")
    page.get_by_role("button", name="Post").click()
    sent = stage.wait_sent(f"tasks/{TASK}/bus")
    assert sent.body == {"text": "Yes.", "type": "USER", "thread": "20260301-120001-000000"}
    expect(page.locator(".message-body").last).to_have_text("Yes.")
    expect(page.get_by_label("Message", exact=True)).to_have_value("")


def test_children_and_runs_are_a_tree(stage: Stage, opened: Opened) -> None:
    below = [
        {
            "id": "child-1",
            "state": "done",
            "children": [{"id": "child-2", "state": "running", "children": []}],
        }
    ]
    stand(stage, "running", runs=[run(TASK, 1, NOW)], children=below)
    page = opened(f"#/task/{TASK}")
    expect(page.locator(".tree .tree a")).to_have_text("child-2")
    stage.scene.tasks["child-2"] = task("child-2", title="The second child")
    page.locator(".tree .tree a").click()
    expect(page.get_by_role("heading", name="The second child")).to_be_visible()


def test_a_task_that_is_not_there_says_so(opened: Opened) -> None:
    expect(opened("#/task/nobody").get_by_role("alert")).to_contain_text(
        "There is no tasks/nobody."
    )
