"""What agents are told and where they work, on the whole way of an issue."""

from __future__ import annotations

import base64
import os

from service_town import ALICE, Town
from test_service_walk import to_review

from hostler.agents.sandbox import find_sandbox_problem
from hostler.store.tasks import TaskState
from missing_tools import needs

WHY = find_sandbox_problem(os.environ)


def put(town: Town, path: str, text: str) -> None:
    content = base64.b64encode(text.encode()).decode()
    town.person(ALICE)("PUT", f"/contents/{path}", message="Say how", content=content)


def test_a_repository_says_itself_what_agents_are_told(town):
    put(town, "AGENTS.md", "Be kind.")
    put(town, ".hostler/prompts/small_job.md", "Our own words: $issue")
    put(town, ".hostler/prompts/comments.md", "$nobody")
    with town.service() as service:
        number, _ = to_review(town, service)
        (run,) = service.runs(service.task(number))
    prompt = (town.home / run.folder / "prompt.md").read_text()
    assert prompt.startswith(
        f"Our own words: <<< issue #{number}, written by {ALICE} (allowed user"
    )
    assert "- Follow `AGENTS.md`.\n" in prompt and "A small job" not in prompt
    assert sum("has the unknown placeholder $nobody" in line for line in service.told) == 1


@needs("bubblewrap", WHY)
def test_work_in_a_sandbox_becomes_a_pull_request(town):
    town.agent = {"kind": "scripted", "script": str(town.script), "sandbox": "bubblewrap"}
    with town.service() as service:
        number, pull = to_review(town, service)
        opened = town.person(ALICE)("GET", f"/pulls/{pull}")
        read = town.person(ALICE).read("notes.md", opened["head"]["ref"])
        assert read == f"For #{number}\n"


def test_without_a_sandbox_that_was_asked_for_nothing_runs(town, monkeypatch, tmp_path):
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'not allowed here' >&2\nexit 1\n")
    fake.chmod(0o700)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    town.agent = {"kind": "scripted", "script": str(town.script), "sandbox": "bubblewrap"}
    number = town.person(ALICE).file("Notes", "agent:small-job")
    with town.service() as service:
        service.poll()
        task = service.task(number, TaskState.PARKED)
        (run,) = service.until(lambda: [run for run in service.runs(task) if run.outcome])
    assert run.outcome == "config" and "not allowed here" in task.reason
    assert not (town.home / run.folder / "stdout").exists()
