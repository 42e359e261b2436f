"""Whether somebody is logged in, as the real programs say it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.adapters.registry import KINDS
from hostler.agents.program_check import check_login, judge_login_output
from hostler.agents.program_query import ProgramOutput
from hostler.config.settings import Agent
from hostler.health import CheckStatus

YES, NO, UNKNOWN = CheckStatus.OK, CheckStatus.FAILED, CheckStatus.SKIPPED
CODEX_WARNING = "WARNING: proceeding, even though we could not create PATH aliases: …\n"
NOBODY_IN_OPENCODE = (
    "┌  Credentials \x1b[90m~/.local/share/opencode/auth.json\n│\n└  0 credentials\n"
)
A_VARIABLE = (
    "\n┌  Environment\n│\n●  Anthropic \x1b[90mANTHROPIC_API_KEY\n│\n└  1 environment variable\n"
)


def claude(logged_in, code):
    told = {"loggedIn": logged_in, "authMethod": "none", "apiProvider": "firstParty"}
    return ProgramOutput(code, json.dumps(told, indent=2) + "\n")


@pytest.mark.parametrize(
    ("kind", "answer", "status"),
    [
        ("claude", claude(False, 1), NO),
        ("claude", claude(True, 0), YES),
        ("claude", ProgramOutput(1, "", "error: unknown command 'auth'\n"), UNKNOWN),
        ("claude", ProgramOutput(0, '{"loggedIn": "perhaps"}'), UNKNOWN),
        ("codex", ProgramOutput(1, "", f"{CODEX_WARNING}Not logged in\n"), NO),
        ("codex", ProgramOutput(0, "", "Logged in using ChatGPT\n"), YES),
        ("codex", ProgramOutput(2, "", "error: unrecognized subcommand 'status'\n"), UNKNOWN),
        ("opencode", ProgramOutput(0, NOBODY_IN_OPENCODE), UNKNOWN),
        ("opencode", ProgramOutput(0, NOBODY_IN_OPENCODE + A_VARIABLE), YES),
        ("opencode", ProgramOutput(0, NOBODY_IN_OPENCODE.replace("0 c", "2 c")), YES),
        ("gemini", ProgramOutput(0, "yes"), UNKNOWN),
        ("claude", ProgramOutput(None, problem="it gave no answer within 30 s"), UNKNOWN),
    ],
)
def test_answers_of_the_programs(kind, answer, status):
    assert judge_login_output(KINDS[kind].program, answer).status is status


@given(st.sampled_from(["claude", "codex", "opencode"]), st.integers(1, 255), st.text(), st.text())
def test_any_other_answer_is_never_a_no(kind, code, out, err):
    found = judge_login_output(KINDS[kind].program, ProgramOutput(code, out, err)).status
    assert found is not NO or "Not logged in" in err or "loggedIn" in out


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini"])
def test_a_key_in_its_environment_is_enough_and_nothing_is_started(kind, tmp_path):
    key = KINDS[kind].program.keys[0]
    agent = Agent(kind=kind, command=["/no/such/program"])
    (found,) = check_login(agent, {key: "a key", "PATH": "/nowhere"}, tmp_path)
    assert found.status is YES and key in found.evidence and "a key" not in found.evidence


def test_codex_does_not_work_with_the_key_of_others(tmp_path):
    agent = Agent(kind="codex", command=["/no/such/program"])
    (found,) = check_login(agent, {"OPENAI_API_KEY": "k", "PATH": "/nowhere"}, tmp_path)
    assert found.status is UNKNOWN and "CODEX_API_KEY" in found.remedy


def test_where_home_is_its_own_nobody_is_sent_to_log_in(tmp_path):
    for more in ({"own_home": True}, {"sandbox": "bubblewrap"}):
        agent = Agent(kind="gemini", command=["/no/such/program"], **more)
        (found,) = check_login(agent, {"PATH": "/nowhere"}, tmp_path)
        assert found.remedy.startswith("Set GEMINI_API_KEY or GOOGLE_API_KEY:")


def test_of_any_command_nothing_is_asked(tmp_path):
    assert check_login(Agent(kind="command", command=["sh"]), {}, tmp_path) == []
