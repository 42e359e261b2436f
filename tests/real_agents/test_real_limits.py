"""What providers say to real programs reaches us: while these live, and when they end by it."""

from __future__ import annotations

import pytest
from model_api import Drop, Held, Refuse, Text
from real_agents_fixture import WORK

from hostler.store.governor import Source
from hostler.store.tasks import TaskState

TOO_MANY = Refuse(429, "rate_limit_error", retry_after=1)
TOO_MUCH = Refuse(529, "overloaded_error")
KEYLESS = Refuse(401, "authentication_error")


@pytest.mark.parametrize(
    ("kind", "refusal", "reason"),
    [
        ("claude", TOO_MANY, "rate_limited"),
        ("claude", TOO_MUCH, "overloaded"),
        ("codex", TOO_MANY, "rate_limited"),
        ("gemini", TOO_MANY, "rate_limited"),
    ],
)
def test_a_limit_is_heard_of_while_the_agent_lives_and_it_gets_through(
    kind, refusal, reason, live_in
):
    real = live_in(kind)
    answer = Held(WORK)
    real.api.play(refusal, answer, Text("The notes are there."))
    with real.town.service() as service:
        issue = real.file()
        service.poll()
        real.api.until_asked(2)
        (run,) = service.runs(service.task(issue))
        (heard,) = service.until(lambda: real.signals(service, run), "a signal")
        assert (heard.source, heard.reason, heard.status) == (Source.LIVE, reason, refusal.status)
        answer.go.set()
        task = real.reach(service, issue, TaskState.AWAITING_FEEDBACK)
        (run,) = service.runs(task)
        assert run.outcome == "success" and len(real.signals(service, run)) == 1


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_a_cut_connection_is_no_limit(kind, live_in):
    real = live_in(kind)
    real.api.play(Drop(), WORK, Text("The notes are there."))
    with real.town.service() as service:
        issue = real.file()
        service.poll()
        task = real.reach(service, issue, TaskState.AWAITING_FEEDBACK)
        (run,) = service.runs(task)
        assert run.outcome == "success" and real.signals(service, run) == []


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini", "opencode"])
def test_a_refused_key_waits_for_a_person(kind, live_in):
    # By itself, it would ask again for minutes.
    real = live_in(kind, CLAUDE_CODE_MAX_RETRIES="1")
    real.api.play(*[KEYLESS] * 20)
    with real.town.service() as service:
        issue = real.file()
        service.poll()
        task = real.reach(service, issue, TaskState.PARKED)
        (run,) = real.until_runs(service, task, 1)
        assert (run.outcome, run.decided_by) == ("auth", "stream")
        assert not real.alive(run)


def test_opencode_gives_up_at_a_limit_and_is_believed(live_in):
    """It tries again without a word: nothing is heard of before its end."""
    real = live_in("opencode")
    real.api.play(*[TOO_MANY] * 50)
    with real.town.service() as service:
        issue = real.file()
        service.poll()
        task = real.reach(service, issue, TaskState.PARKED)
        (run,) = real.until_runs(service, task, 1)
        assert (run.outcome, run.decided_by) == ("rate_limited", "stream")
        assert len(real.api.asked) > 1
        heard = real.signals(service, run)[-1]
        assert (heard.source, heard.reason, heard.status) == (Source.DEATH, "rate_limited", 429)
