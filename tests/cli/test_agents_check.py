"""`hostler agents list` and `check`: what is there, and whether it can work."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from hostler.agents.adapters.registry import KINDS
from hostler.agents.checks import versions_are_known
from hostler.cli.main import app, keep_named_command
from hostler.clock import SystemClock
from hostler.health import CheckContext

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CODEX_API_KEY")


class Desk:
    """Settings, and programs that answer as they are told."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "hostler.toml"

    def program(self, name, body):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o700)
        return path

    def agent(self, name, kind, program=None, more=""):
        command = f'command = ["{program}"]\n' if program else ""
        with self.path.open("a") as file:
            file.write(f'[agent.{name}]\nkind = "{kind}"\n{command}{more}\n')

    def run(self, *words):
        argv = ["--home", self.folder / "home", "--config", self.path, "agents", *words]
        argv = [*map(str, argv)]
        return CliRunner().invoke(keep_named_command(app, argv), argv)

    def json(self, *words):
        return json.loads(self.run(*words, "--json").stdout)["agents"]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    made = Desk(tmp_path)
    made.path.write_text("")
    return made


def claude(desk, version="2.1.300", logged_in="true"):
    answer = f"""case "$*" in
--version) echo "{version} (Claude Code)";;
"auth status") echo '{{"loggedIn": {logged_in}}}';;
*) exit 64;;
esac"""
    return desk.program("claude", answer)


def statuses(findings):
    return {one["check"]: one["status"] for one in findings}


def test_an_empty_file_has_no_agents(desk):
    assert "No agent" in desk.run("list").stdout
    assert desk.json("list") == []
    assert desk.run("check").exit_code == 0


def test_every_agent_is_listed_with_what_it_is(desk):
    program = claude(desk)
    desk.agent("main", "claude", program, 'model = "big"\nfallback = "spare"\n')
    desk.agent("spare", "codex", "/no/such/codex", 'pool = "openai:work"\n')
    desk.agent("mine", "command", "sh")
    first, second, third = desk.json("list")
    assert first == {
        "name": "main",
        "kind": "claude",
        "model": "big",
        "pool": "anthropic",
        "program": str(program),
        "path": str(program),
        "version": "2.1.300",
        "fallback": "spare",
    }
    assert (second["pool"], second["path"], second["version"]) == ("openai:work", None, "")
    assert third["path"] and third["version"] == ""
    people = desk.run("list").stdout
    assert "/no/such/codex: missing" in people and "2.1.300" in people


def test_one_that_can_work_is_well(desk):
    desk.agent("main", "claude", claude(desk))
    found = desk.run("check", "main", "--json")
    assert found.exit_code == 0
    told = statuses(json.loads(found.stdout)["agents"]["main"])
    assert set(told) == {"environment", "installed", "version", "login"}
    assert set(told.values()) == {"ok"}


def test_one_that_lists_a_setting_which_is_not_set_can_be_asked(desk, monkeypatch):
    monkeypatch.delenv("DISABLE_AUTOUPDATER", raising=False)
    desk.agent("main", "claude", claude(desk), 'env = ["DISABLE_AUTOUPDATER"]\n')
    assert desk.run("check", "main").exit_code == 0


def test_a_newer_version_is_a_hint(desk):
    desk.agent("main", "claude", claude(desk, version="99.1"))
    found = desk.run("check")
    assert found.exit_code == 0
    assert "99.1 is newer than" in found.stdout and "may not be understood" in found.stdout


def test_nobody_logged_in_cannot_work_but_a_key_will_do(desk, monkeypatch):
    desk.agent("main", "claude", claude(desk, logged_in="false"))
    assert desk.run("check").exit_code == 1
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-very-secret")
    found = desk.run("check")
    assert found.exit_code == 0 and "sk-ant-very-secret" not in found.stdout


def test_a_login_elsewhere_is_none_in_a_home_of_its_own(desk, monkeypatch):
    body = 'case "$*" in --version) echo 1.0;; *) echo "{\\"loggedIn\\": $SEEN}";; esac'
    by_home = desk.program("claude", f'[ "$HOME" = "$OURS" ] && SEEN=true || SEEN=false\n{body}')
    monkeypatch.setenv("OURS", str(desk.folder))
    monkeypatch.setenv("HOME", str(desk.folder))
    desk.agent("here", "claude", by_home, 'env = ["OURS"]\n')
    desk.agent("apart", "claude", by_home, 'env = ["OURS"]\nown_home = true\n')
    told = desk.json("check")
    assert statuses(told["here"])["login"] == "ok"
    assert statuses(told["apart"])["login"] == "failed"


def test_what_cannot_be_known_is_said_to_be_unknown(desk):
    desk.agent("main", "gemini", desk.program("gemini", "echo 0.61.0"))
    found = desk.run("check")
    assert found.exit_code == 0 and "not known" in found.stdout


def test_a_missing_program_and_a_secret_cannot_work(desk, monkeypatch):
    desk.agent("missing", "codex", "/no/such/codex")
    desk.agent("leaky", "command", "sh", 'env = ["GH_TOKEN"]\n')
    found = desk.run("check", "--json")
    assert found.exit_code == 1
    told = json.loads(found.stdout)["agents"]
    assert statuses(told["missing"])["installed"] == "failed"
    assert statuses(told["leaky"]) == {"environment": "failed"}
    # A list refuses nobody.
    assert [one["name"] for one in desk.json("list")] == ["missing", "leaky"]


def test_a_fallback_of_the_same_pool_is_worth_a_look(desk):
    program = claude(desk)
    desk.agent("one", "claude", program, 'fallback = "two"\n')
    desk.agent("two", "claude", program, 'fallback = "three"\npool = "anthropic:two"\n')
    desk.agent("three", "claude", program)
    told = desk.json("check")
    assert statuses(told["one"])["fallback"] == "warning"
    assert statuses(told["two"])["fallback"] == "ok"
    assert "fallback" not in statuses(told["three"])


@pytest.mark.parametrize("words", [("check", "nobody"), ("try", "nobody", "--yes")])
def test_an_agent_that_is_not_there_is_refused(desk, words):
    desk.agent("main", "claude")
    found = desk.run(*words)
    assert found.exit_code != 0 and "Configured agents: main." in str(found.exception.lines())


def test_doctor_tells_versions_in_short_and_asks_each_program_once(desk):
    count = desk.folder / "asked"
    body = f'echo x >> {count}\necho "{KINDS["codex"].program.known}"'
    program = desk.program("codex", body)
    desk.agent("one", "codex", program)
    desk.agent("two", "codex", program)
    desk.agent("gone", "codex", "/no/such/codex")
    found = list(versions_are_known(CheckContext(desk.folder, desk.path, SystemClock())))
    assert [one.status for one in found] == ["ok"]
    assert count.read_text() == "x\n"
