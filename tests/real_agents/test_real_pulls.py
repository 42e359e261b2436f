"""Real programs do the work of an issue, and go on with it when they are asked."""

from __future__ import annotations

import os
import shutil

import pytest
from model_api import Text
from model_dialects import CACHED, INPUT, OUTPUT
from real_agents_fixture import MORE, SUMMARY, WORK
from service_town import US

from hostler.agents.sandbox import find_sandbox_problem
from hostler.store.tasks import TaskState
from missing_tools import skip_without

ALL = ("claude", "codex", "gemini", "opencode")
# Where each keeps its conversations, below HOME.
SESSIONS = {
    "claude": ".claude/projects",
    "codex": ".codex/sessions",
    "gemini": ".gemini/tmp",
    "opencode": ".local/share/opencode",
}


def with_pull(real, service):
    """An issue whose pull request waits for what people say."""
    issue = real.file()
    service.poll()
    task = real.reach(service, issue, TaskState.AWAITING_FEEDBACK)
    service.rested()
    (pull,) = real.alice.pulls()
    return task, pull


@pytest.mark.parametrize("kind", ALL)
def test_it_opens_a_pull_request_and_goes_on_with_the_conversation(kind, live_in):
    real = live_in(kind)
    real.api.play(WORK, Text("The notes are there."), MORE, Text("The review is answered."))
    with real.town.service() as service:
        task, pull = with_pull(real, service)
        assert (pull["title"], pull["user"]["login"]) == ("Add notes", US)
        assert real.alice.read("notes.md", pull["head"]["ref"]) == "Real notes.\n"
        (first,) = service.runs(task)
        assert (first.outcome, first.decided_by) == ("success", "result") and first.session
        assert "Notes about mares" in real.api.asked[0]

        real.alice.remark(pull["number"], "Say more of foals.")
        service.poll()
        first, second = real.until_runs(service, task, 2)
        assert second.outcome == "success" and second.session == first.session
        assert "Say more of foals." in real.api.asked[2]
        # The whole conversation came with it, and not its summary.
        assert (
            "The notes are there." in real.api.asked[2] and "Notes about mares" in real.api.asked[2]
        )
        service.rested()
        assert real.alice.read("notes.md", pull["head"]["ref"]) == 2 * "Real notes.\n"
        # Of claude's words, what a cache had stands beside the rest.
        read = INPUT + CACHED if kind == "claude" else INPUT
        for run in (first, second):
            assert (run.input_tokens, run.output_tokens) == (2 * read, 2 * OUTPUT)
            assert not real.alive(run)
        # What a program counts through a conversation is counted once.
        assert second.usd == pytest.approx(first.usd)
        assert (kind == "claude") == (first.usd > 0)


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_conversation_that_is_gone_is_begun_anew_with_what_was_done(kind, live_in):
    real = live_in(kind)
    real.api.play(WORK, Text("The notes are there."), MORE, Text("The review is answered."))
    with real.town.service() as service:
        task, pull = with_pull(real, service)
        shutil.rmtree(real.user / SESSIONS[kind])
        real.alice.remark(pull["number"], "Say more of foals.")
        service.poll()
        first, refused, anew = real.until_runs(service, task, 3)
        assert (refused.outcome, anew.outcome) == ("config", "success")
        assert anew.session and anew.session != first.session
        asked = real.api.asked[2]
        assert "Say more of foals." in asked and SUMMARY in asked
        assert "The notes are there." not in asked


def test_in_a_sandbox_and_a_home_of_its_own_it_works_and_remembers(live_in):
    if why := find_sandbox_problem(os.environ):
        skip_without("bubblewrap", why)
    real = live_in("claude", {"sandbox": "bubblewrap", "own_home": True})
    real.api.play(WORK, Text("The notes are there."), MORE, Text("The review is answered."))
    with real.town.service() as service:
        task, pull = with_pull(real, service)
        real.alice.remark(pull["number"], "Say more of foals.")
        service.poll()
        first, second = real.until_runs(service, task, 2)
        assert (first.decided_by, second.decided_by) == ("result", "result")
        assert second.session == first.session and "The notes are there." in real.api.asked[2]
        # It left nothing in the home of the user.
        assert not any(real.user.iterdir())
