"""The dashboard with the real program, API, database and an agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_data import (
    FINDINGS,
    NOW,
    brief,
    full_snapshot,
    message,
    objective,
    pool_history,
    run,
    task,
)
from playwright.sync_api import Browser, expect
from task_program import Home

LISTEN = "127.0.0.1:0"
# It asks a question; after the answer it waits for the gate, and is done.
WORK = """Greet
told = pathlib.Path("told")
if not told.exists():
    told.touch()
    print("\\033[33mlooking\\033[0m around", flush=True)
    hostler("ask", "In which language?")
else:
    print("working on it", flush=True)
    hold("gate")
    done()
"""


@pytest.fixture
def home_fixture(tmp_path: Path, environment: dict[str, str]) -> Iterator[Home]:
    made = Home(tmp_path, environment)
    yield made
    made.clean()


def program_of(text: str) -> str:
    """Return a prompt that is a program, with its first line as the title."""
    first, _, rest = text.partition("\n")
    return f"# {first}\n{rest}"


def start_service(home_fixture: Home) -> str:
    """Start a service and return its URL."""
    service = home_fixture.start("service", "--web-listen", LISTEN)
    said = home_fixture.heard(service, "Dashboard: ")
    return said.rpartition("Dashboard: ")[2].partition(" ")[0]


@pytest.mark.long
@pytest.mark.slow
def test_submit_run_question_answer_done_for_real(home_fixture: Home, browser: Browser) -> None:
    os.mkfifo(home_fixture.yard / "gate")
    url = start_service(home_fixture)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{url}/#/overview")
    page.get_by_label("Token").fill(home_fixture.ok("web", "token").strip())
    page.get_by_role("button", name="Log in").click()
    expect(page.locator(".connection")).to_have_text("live")

    page.get_by_role("button", name="New task").click()
    page.get_by_label("What should the agent do?").fill(program_of(WORK))
    page.get_by_label("Or a folder on this machine").fill(str(home_fixture.yard))
    page.get_by_role("button", name="Submit").click()
    requests = page.get_by_role("region", name="Question")
    expect(requests).to_contain_text("In which language?")
    expect(page.locator(".output-line .fg-yellow")).to_have_text("looking")

    page.get_by_label("Your answer").fill("In Breton.")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".output-line")).to_have_text(["working on it"])
    expect(page.locator(".task-state")).to_contain_text("running")
    (home_fixture.yard / "gate").write_text("")
    expect(page.locator(".task-state")).to_contain_text("done")
    story = page.get_by_role("region", name="Timeline")
    for words in ("Attempt", "answered the question", "In Breton.", "In which language?"):
        expect(story).to_contain_text(words)
    page.get_by_role("link", name="Work").click()
    expect(page.get_by_role("region", name="Done").locator(".board-card")).to_contain_text("Greet")
    page.get_by_role("link", name="Health").click()
    expect(page.locator(".finding").first).to_be_visible()
    page.context.close()


class Api:
    """A client of the real API."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/api/v1/"
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> Any:
        answer = httpx.get(self._url + path, headers=self._headers, timeout=30)
        return answer.raise_for_status().json()


def test_the_test_data_has_the_fields_of_the_api(home_fixture: Home) -> None:
    api = Api(start_service(home_fixture), home_fixture.ok("web", "token").strip())
    name = home_fixture.submit("done()")
    home_fixture.ok("task", "wait", name)
    home_fixture.ok("bus", "post", "--project", "yard", "--task", name, "--create", "hello")
    ours, theirs = full_snapshot(), api.get("status")
    assert set(ours) == set(theirs)
    for part in ("service", "cost", "github", "governor", "history"):
        assert set(ours[part]) == set(theirs[part])
    assert set(ours["governor"]["pools"][0]) == set(theirs["governor"]["pools"][0])
    assert set(objective("", "", "share", 1.0, 0, 0, None)) == set(theirs["objectives"][0])
    assert set(pool_history()) == set(api.get("pool-history"))
    noted = api.get("pool-history")["pools"]["anthropic"]["samples"][0]
    assert set(noted) == set(pool_history()["pools"]["anthropic"]["samples"][0])
    assert set(brief(name, "", "done", NOW)) == set(api.get("tasks")["tasks"][0])
    shown = api.get(f"tasks/{name}")
    assert set(task(name)) == set(shown)
    assert set(run(name, 1, NOW)) == set(shown["runs"][0])
    assert set(message(1, "FACT", "", NOW)) == set(api.get(f"tasks/{name}/bus")["messages"][-1])
    assert set(api.get(f"runs/{shown['runs'][0]['run']}")["output_bytes"]) == {"stdout", "stderr"}
    assert set(FINDINGS[0]) == set(api.get("doctor")["findings"][0])
    assert "csrf" in api.get("session")
    assert "agent" in api.get("config")
