"""What doctor finds out about agents before one of them starts."""

from __future__ import annotations

import json

import pytest

from hostler.agents.checks import agents_can_start
from hostler.clock import SystemClock
from hostler.health import CheckContext, CheckStatus


@pytest.fixture
def findings(tmp_path):
    def ask(settings: str):
        path = tmp_path / "hostler.toml"
        path.write_text(settings)
        return list(agents_can_start(CheckContext(tmp_path / "home", path, SystemClock())))

    return ask


def test_agents_that_can_start_are_well(findings, tmp_path):
    (tmp_path / "play.json").write_text(json.dumps({"steps": []}))
    found = findings(
        '[agent.a]\nkind = "command"\ncommand = ["sh"]\n'
        f'[agent.b]\nkind = "scripted"\nscript = "{tmp_path}/play.json"\n'
    )
    assert [one.status for one in found] == [CheckStatus.OK, CheckStatus.OK]


def test_every_mistake_of_a_script_is_a_finding(findings, tmp_path):
    (tmp_path / "play.json").write_text(json.dumps({"steps": [{"sayy": 1}, {"exit": 300}]}))
    found = findings(f'[agent.b]\nkind = "scripted"\nscript = "{tmp_path}/play.json"\n')
    assert [one.status for one in found] == [CheckStatus.FAILED, CheckStatus.FAILED]


def test_an_agent_that_would_see_a_secret_is_a_finding(findings):
    found = findings('[agent.a]\nkind = "command"\ncommand = ["sh"]\nenv = ["GH_TOKEN"]\n')
    assert [one.status for one in found] == [CheckStatus.FAILED]
    assert "GH_TOKEN" in found[0].evidence


def test_bad_settings_are_left_to_their_own_check(findings):
    assert findings("nonsense = [") == []
