"""Untrusted text is never markup or script, and nothing is loaded from other hosts."""

from __future__ import annotations

import re

from api_data import NOW, agent, brief, full_snapshot, message, queued, run, task, task_reference
from browser_pages import PageOpener
from fake_web_service import FakeWebService
from playwright.sync_api import Page, Request, expect

from hostler.web.pages import STATIC_FOLDER, read_static_files

EVIL = (
    "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>'\"`&amp;"
)
ADDRESS = "javascript:document.title='taken'"
TASK = "20260301-115900-evil"


def fill_with_hostile_text(web_service: FakeWebService) -> None:
    snapshot = full_snapshot()
    wrong = {"issue_url": ADDRESS, "pull_url": ADDRESS, "pull": 3, "repo": EVIL}
    snapshot["at_work"] = [{**agent(TASK, EVIL, 1, NOW), **wrong, "agent": EVIL}]
    snapshot["queue"] = [{**queued(1, TASK, EVIL, 1, NOW), **wrong, "why": EVIL, "gate": EVIL}]
    snapshot["needs_person"] = [
        {
            **task_reference(TASK, EVIL, 1, "blocked"),
            **wrong,
            "seconds": 1.0,
            "question": EVIL,
            "by_hand": True,
            "what": EVIL,
            "then": EVIL,
        }
    ]
    snapshot["pauses"] = [
        {"scope": f"project:{EVIL}", "since": snapshot["now"], "by": EVIL, "why": EVIL}
    ]
    snapshot["governor"]["pools"][0]["pool"] = EVIL
    web_service.state.snapshot = snapshot
    web_service.state.briefs = [
        brief(TASK, EVIL, "running", NOW, project=EVIL, depends_on=[EVIL], repo_full_name=EVIL)
    ]
    web_service.state.findings = [
        {"check": EVIL, "status": "failed", "evidence": EVIL, "remedy": EVIL}
    ]
    web_service.state.tasks[TASK] = task(
        TASK,
        title=EVIL,
        state="needs_input",
        question=EVIL,
        author=EVIL,
        prompt=EVIL,
        branch=EVIL,
        issue_url=ADDRESS,
        pull_url=ADDRESS,
        pr_number=3,
        runs=[run(TASK, 1, NOW, agent=EVIL, why=EVIL, outcome="error", ended_at=snapshot["now"])],
    )
    web_service.state.outputs[f"{TASK}-r1 stdout"] = (
        f"{EVIL}\n\x1b]8;;{ADDRESS}\x1b\\link\x1b]8;;\x1b\\\n"
    )
    web_service.state.buses[TASK] = [
        message(1, "FACT", EVIL, NOW, sender={"kind": "person", "name": EVIL})
    ]


SCREENS = ["#/overview", "#/work", "#/work/graph", "#/governor", "#/health", f"#/task/{TASK}"]


def test_untrusted_text_stays_text(web_service: FakeWebService, open_page: PageOpener) -> None:
    fill_with_hostile_text(web_service)
    page = open_page()
    requests: list[str] = []

    def note(request: Request) -> None:
        requests.append(request.url)

    page.on("request", note)
    for address in SCREENS:
        page.goto(f"{web_service.url}/{address}")
        expect(page.get_by_text("<script>").first).to_be_attached()
        if "task" in address:
            read_everything(page)
        check_text_only(page)
    page.remove_listener("request", note)
    assert [url for url in requests if not url.startswith(web_service.url)] == []


def read_everything(page: Page) -> None:
    expect(page.locator(".output-line").first).to_have_text(EVIL)
    page.get_by_role("tab", name="Bus").click()
    expect(page.locator(".message-body")).to_have_text(EVIL)
    page.get_by_role("tab", name="Prompt").click()
    expect(page.locator(".prompt")).to_have_text(EVIL)


def check_text_only(page: Page) -> None:
    assert page.locator("#page img, #page script").count() == 0
    links = page.locator("a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
    assert [
        one for one in links if one and not re.match(r"https?://|#|/api/v1/|/static/", one)
    ] == []
    assert page.evaluate("document.title === 'taken'") is False


TEXTS = sorted(STATIC_FOLDER.rglob("*.*"))


def test_no_file_inserts_markup_or_loads_from_other_hosts() -> None:
    wrong = re.compile(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|\beval\b|new Function|"
        r"setAttribute\(.style|@import|url\((?!#)|srcdoc|\bstyle="
    )
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        assert not wrong.search(text), path.name
        outside = [one for one in re.findall(r"https?://[^\s\"'`)]+", text) if "w3.org" not in one]
        assert outside == [], path.name


def test_nothing_is_inline() -> None:
    for name in ("index.html", "login.html"):
        text = read_static_files()[name].body.decode()
        assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\son\w+=", text) == []
