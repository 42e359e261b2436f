"""How real programs are called, and what they see of our environment."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import recordings

from hostler.agents.adapters.codex import classify_error
from hostler.agents.adapters.provider_errors import classify_status
from hostler.agents.adapters.registry import KINDS
from hostler.agents.agent_files import OutputLine, OutputStream
from hostler.agents.assignment import Assignment
from hostler.agents.errors import SecretRefused
from hostler.agents.events import LimitSignal, Noise, SessionEvent, tally_events
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome
from hostler.agents.prepare import GITHUB_TOKEN_VARIABLES, plan_launch
from hostler.agents.verdict import EndedBy, RunEnd, judge_run
from hostler.config.settings import Agent

pytest_plugins = ["scripted_runs"]
PROGRAMS = ("claude", "codex", "gemini", "opencode")
KEYS = {
    "claude": "ANTHROPIC_API_KEY",
    "codex": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "opencode": "OPENCODE_CONFIG",
}

UUID, SES = "0199a213-81c0-7800-8aa1-bbab2a035a53", "ses_e1f4e936dffeEq7pUtTpN0yaip"
SESSIONS = {"claude": UUID, "codex": UUID, "gemini": UUID, "opencode": SES}

WORK = Assignment("r", "t", "p", 1, *[Path("/nowhere")] * 4, "Work.")


def planned(kind, work, ours, **more):
    return plan_launch(Agent(kind=kind, **more), work, ours, GITHUB_TOKEN_VARIABLES)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_prompt_comes_on_standard_input_and_in_no_argument(kind, work, ours):
    launch = planned(kind, work, ours)
    assert launch.stdin == str(work.prompt_file)
    assert launch.argv[0] == kind
    assert all(work.prompt not in word for word in launch.argv)


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("sandbox", ["none", "bubblewrap"])
def test_tools_of_known_programs_are_told_from_what_belongs_to_them(kind, sandbox, work, ours):
    assert planned(kind, work, ours, sandbox=sandbox).spec("r")["tools_apart"] is True
    assert not planned("command", work, ours, command=["x"]).tools_apart


@pytest.mark.parametrize("kind", PROGRAMS)
def test_another_program_may_stand_in_its_place(kind, work, ours):
    launch = planned(kind, work, ours, command=["/opt/x", "--y"], extra_args=["--z"])
    assert launch.argv[:2] == ("/opt/x", "--y") and "--z" in launch.argv


@pytest.mark.parametrize(
    ("kind", "stream", "resume"),
    [
        ("claude", "-p --output-format stream-json --verbose", f"--resume {UUID}"),
        ("codex", "exec --json --disable plugins", f"resume {UUID} -"),
        ("gemini", "--output-format stream-json", f"--resume {UUID}"),
        ("opencode", "run --format json", f"--session {SES}"),
    ],
)
def test_each_is_asked_for_its_stream_a_model_and_a_session(kind, stream, resume, work, ours):
    fresh = " ".join(planned(kind, work, ours).argv)
    session = SESSIONS[kind]
    assert f"{kind} {stream}" in fresh and session not in fresh and "--model" not in fresh
    later = " ".join(planned(kind, replace(work, session=session), ours, model="m-1").argv)
    assert resume in later and "--model m-1" in later


forged = st.sampled_from(["-c", "--help", f"-{UUID}", f"{UUID}\n", f"{UUID} x", "ses_", "last"])


@given(st.sampled_from(PROGRAMS), forged | st.text() | st.text().map(lambda text: f"-{text}"))
def test_words_that_name_no_session_come_into_no_argument(kind, words):
    program = KINDS[kind].program
    assert not program.is_session_id(words)
    work = replace(WORK, session=words)
    agent = Agent(kind=kind)
    launched = KINDS[kind].launch(agent, work, {}).argv
    assert launched == KINDS[kind].launch(agent, replace(WORK, session=""), {}).argv


@pytest.mark.parametrize("one", recordings(), ids=lambda one: one.full_name)
def test_every_recorded_session_has_the_form_that_is_known(one):
    for text in one.stdout:
        raw = json.loads(text)
        events = KINDS[one.cli].events(OutputLine(OutputStream.STDOUT, text))
        named = raw.get("session_id") or raw.get("thread_id") or raw.get("sessionID")
        assert all(event.id == named for event in events if isinstance(event, SessionEvent))
        assert named is None or KINDS[one.cli].program.is_session_id(named)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("claude", {"type": "system", "subtype": "init", "session_id": "--help"}),
        ("codex", {"type": "thread.started", "thread_id": "-c model=x"}),
        ("gemini", {"type": "init", "session_id": "latest"}),
        ("opencode", {"type": "step_start", "sessionID": "ses_../x"}),
    ],
)
def test_a_forged_session_in_a_stream_is_noise(kind, line):
    events = KINDS[kind].events(OutputLine(OutputStream.STDOUT, json.dumps(line)))
    assert tally_events(events).session == ""
    assert Noise(json.dumps(line)) in events


@pytest.mark.parametrize("kind", PROGRAMS)
def test_it_asks_nobody_unless_its_own_settings_shall_decide(kind, work, ours):
    free = set(planned(kind, work, ours).argv)
    own = set(planned(kind, work, ours, permissions="own").argv)
    assert own < free


def test_as_root_claude_is_allowed_its_tools_one_by_one(work, ours, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--dangerously-skip-permissions" not in planned("claude", work, ours).argv
    assert "--allowed-tools" in planned("claude", work, ours).argv
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "--dangerously-skip-permissions" in planned("claude", work, ours).argv


@pytest.mark.parametrize("kind", PROGRAMS)
def test_each_sees_its_own_providers_key_and_no_other(kind, work, ours):
    keys = {name: f"value of {name}" for name in KEYS.values()}
    launch = planned(kind, work, {**ours, **keys})
    # By name only: a key stands in no file.
    assert launch.inherit == (KEYS[kind],)
    assert not any(value in str(launch.spec("r1")) for value in keys.values())
    assert not set(launch.env) & set(keys.values())


def test_a_key_that_is_our_github_token_is_refused(work, ours):
    secret = "ghp_" + "a" * 30
    with pytest.raises(SecretRefused):
        planned("claude", work, {**ours, "ANTHROPIC_API_KEY": secret})
    with pytest.raises(SecretRefused):
        planned("claude", work, {**ours, "GITHUB_TOKEN": "t" * 20, "ANTHROPIC_API_KEY": "t" * 20})


def test_signals_reach_gemini_itself_and_no_program_replaces_itself(work, ours):
    assert planned("gemini", work, ours).env["GEMINI_CLI_NO_RELAUNCH"] == "true"
    assert planned("claude", work, ours).env["DISABLE_AUTOUPDATER"] == "1"
    assert planned("opencode", work, ours).env["OPENCODE_DISABLE_AUTOUPDATE"] == "true"


def test_commands_of_codex_keep_the_path_that_they_were_given(work, ours):
    for permissions in ("all", "own"):
        argv = planned("codex", work, ours, permissions=permissions).argv
        assert argv[argv.index("-c") + 1] == "allow_login_shell=false"


def test_gemini_begins_in_a_folder_that_nobody_has_called_trusted(work, ours):
    assert "--skip-trust" in planned("gemini", work, ours).argv
    assert "--skip-trust" not in planned("gemini", work, ours, permissions="own").argv


def test_a_program_that_is_not_there_is_found_before_the_start():
    for kind in PROGRAMS:
        (problem,) = KINDS[kind].mistakes(Agent(kind=kind), "/nowhere")
        assert kind in problem.sentence()


@given(st.integers(-1000, 10_000))
def test_every_failing_status_has_a_class_and_no_other_has(status):
    found = classify_status(status)
    assert (found is not None) == (400 <= status < 600)
    assert (found is Outcome.RATE_LIMITED) == (status == 429)


@given(st.text())
def test_any_message_of_codex_is_a_class_or_nothing(text):
    assert classify_error(text) in {None, *Outcome}
    # Only at its beginning does a message say what it is.
    assert classify_error("x" + text) in {None, classify_error("x" + text.lower())}


OUT_OF_MONEY = {"error": {"message": "x", "code": "insufficient_quota"}}
UNPAID = json.dumps(OUT_OF_MONEY)


def codex_failed(text):
    return {"type": "turn.failed", "error": {"message": text}}


def claude_failed(**further):
    return {"type": "result", "is_error": True, "subtype": "success", **further}


def opencode_failed(status, body, **headers):
    data = {"statusCode": status, "responseBody": body, "responseHeaders": headers}
    return {"type": "error", "error": {"name": "APIError", "data": data}}


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("codex", codex_failed("Quota exceeded. Check")),
        ("codex", codex_failed("Your workspace is out of credits. Ask")),
        ("codex", codex_failed("You hit your spend cap.")),
        ("codex", codex_failed("unexpected status 402 Payment Required: pay, url: u")),
        ("codex", codex_failed(UNPAID)),
        ("codex", codex_failed(f"unexpected status 429 Too Many Requests: {UNPAID}, url: u")),
        ("claude", claude_failed(api_error_status=402)),
        ("claude", claude_failed(api_error_status=400, api_error_type="billing_error")),
        ("opencode", opencode_failed(402, "")),
        ("opencode", opencode_failed(429, UNPAID)),
        ("opencode", opencode_failed(429, UNPAID, **{"retry-after": "5"})),
    ],
)
def test_what_only_money_can_end_waits_for_a_person(kind, line):
    events = KINDS[kind].events(OutputLine(OutputStream.STDOUT, json.dumps(line)))
    (limit,) = [one for one in events if isinstance(one, LimitSignal)]
    assert limit.reason is Outcome.QUOTA and limit.person
    assert KINDS[kind].program_verdict(1, tally_events(events)).outcome is Outcome.QUOTA


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("codex", codex_failed(f"unexpected status 429 Too Many Requests: no {UNPAID}")),
        ("codex", codex_failed("You've hit your usage limit. Try again in 5 hours.")),
        ("opencode", opencode_failed(429, '{"error": {"code": "usage_limit_reached"}}')),
    ],
)
def test_what_time_ends_waits_for_nobody(kind, line):
    events = KINDS[kind].events(OutputLine(OutputStream.STDOUT, json.dumps(line)))
    (limit,) = [one for one in events if isinstance(one, LimitSignal)]
    assert not limit.person


def gemini_failed(message):
    return {"type": "result", "status": "error", "error": {"message": message}}


AGAIN = "\nSuggested retry after 30s."


@pytest.mark.parametrize(
    ("message", "code", "outcome", "seconds"),
    [
        ('[API Error: {"error": {"code": 500}}]' + AGAIN, 244, Outcome.SERVER_ERROR, None),
        (f"[API Error: Something new{AGAIN}]", 244, Outcome.SERVER_ERROR, None),
        (f"[API Error: Something new{AGAIN}]", 1, Outcome.CRASH, None),
        (f"[API Error: Something new{AGAIN}]", 173, Outcome.RATE_LIMITED, 30),
        ('[API Error: {"error": {"code": 429}}]' + AGAIN, 173, Outcome.RATE_LIMITED, 30),
    ],
)
def test_a_wait_of_gemini_is_a_limits_only_where_a_limit_is_named(message, code, outcome, seconds):
    kind, line = KINDS["gemini"], json.dumps(gemini_failed(message))
    heard = tally_events(kind.events(OutputLine(OutputStream.STDOUT, line)))
    assert heard.limit is None or heard.limit.reason in LIMIT_OUTCOMES
    found = judge_run(RunEnd(EndedBy.EXIT, code, heard), kind.program_verdict)
    assert found.outcome is outcome
    assert (found.limit.retry_after_seconds if found.limit else None) == seconds
