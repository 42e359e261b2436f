from __future__ import annotations

import json

import pytest
from intake_yard import lay_database

from hostler.agents.adapters.claude import PROGRAM
from hostler.sandbox.auth import token_for
from hostler.sandbox.server import running


def findings(done) -> dict[str, list[dict[str, str]]]:
    grouped: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(done.out)["findings"]:
        grouped.setdefault(finding["check"], []).append(finding)
    return grouped


@pytest.fixture
def on_sandbox(home):
    """Settings that ask a GitHub of our own, where octo/hello is."""
    with running({"repos": [{"name": "octo/hello"}]}) as sandbox:

        def change(**settings: str) -> None:
            path = home / "hostler.toml"
            lines = {"api_url": sandbox.url, **settings}
            text = "".join(f'{key} = "{value}"\n' for key, value in lines.items())
            path.write_text(path.read_text().replace("[github]\n", f"[github]\n{text}", 1))

        yield change


def test_without_settings_it_warns_and_says_what_to_do(hostler, environment):
    done = hostler("doctor", "--json")
    found = findings(done)
    assert found["settings"][0]["status"] == "warning"
    assert "hostler init" in found["settings"][0]["remedy"]
    assert found["git"][0]["status"] == "ok"
    assert json.loads(done.out)["exit_code"] == done.code == 1


def test_broken_settings_are_a_failure_with_each_mistake(hostler, home):
    home.mkdir()
    (home / "hostler.toml").write_text("[runtime]\nworker_count = 0\nx = 1\n")
    done = hostler("doctor", "--json")
    assert done.code == 2
    assert len(findings(done)["settings"]) == 2


def test_missing_tools_and_credentials_are_named(hostler, home, tmp_path):
    hostler("init", "--yes", "--repo", "octo/hello", "--agent", "claude")
    found = findings(hostler("doctor", "--json"))
    assert "claude not found" in found["agents"][0]["evidence"]
    assert found["credentials"][0]["status"] == "failed"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert (
        findings(hostler("doctor", "--json", env={"PATH": str(empty)}))["git"][0]["status"]
        == "failed"
    )


def test_a_token_file_that_others_can_read_is_a_warning(hostler, home, tmp_path, on_sandbox):
    secret = tmp_path / "token"
    secret.write_text("ghp_not-shown-anywhere-000000000000")
    secret.chmod(0o644)
    hostler("init", "--yes", "--repo", "octo/hello", "--agent", "none")
    on_sandbox(token_file=str(secret))
    done = hostler("doctor", "--json")
    assert any("can be read by other users" in f["evidence"] for f in findings(done)["credentials"])
    assert "ghp_" not in done.out


def test_all_well_is_exit_code_zero(hostler, home, tmp_path, environment, on_sandbox):
    hostler("init", "--yes", "--repo", "octo/hello", "--agent", "claude")
    on_sandbox()
    lay_database(home)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "claude").write_text(f"#!/bin/sh\necho '{PROGRAM.known} (Claude Code)'\n")
    (tools / "claude").chmod(0o755)
    path = {"PATH": f"{tools}:{environment['PATH']}", "GITHUB_TOKEN": token_for("octo")}
    done = hostler("doctor", env=path)
    assert done.code == 0, done.out


def test_a_home_that_is_a_file_is_a_failure_not_a_traceback(hostler, home):
    home.write_text("")
    done = hostler("doctor", "--json")
    assert done.code == 2
    assert findings(done)["home"][0]["status"] == "failed"


def test_credentials_are_looked_for_where_the_settings_say(hostler, home, tmp_path, environment):
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "gh").write_text("#!/bin/sh\nexit 1\n")
    (tools / "gh").chmod(0o755)
    env = {"PATH": f"{tools}:{environment['PATH']}", "GITHUB_TOKEN": "x"}
    hostler("init", "--yes", "--repo", "octo/hello", "--agent", "none")
    path = home / "hostler.toml"
    written = path.read_text()
    for auth, status in (("gh", "failed"), ("token", "ok"), ("auto", "ok")):
        path.write_text(written.replace('auth = "auto"', f'auth = "{auth}"'))
        found = findings(hostler("doctor", "--json", "--quick", env=env))
        assert found["credentials"][0]["status"] == status, auth


def test_safe_fixes_are_applied_and_checked_again(hostler, home):
    hostler("init", "--yes", "--repo", "octo/hello", "--agent", "claude")
    home.chmod(0o777)
    before = hostler("doctor", "--quick", "--json")
    assert "writable by all users" in str(findings(before)["home"])
    assert json.loads(before.out)["fixed"] == []
    done = hostler("doctor", "--quick", "--fix", "--json")
    (fixed,) = json.loads(done.out)["fixed"]
    assert fixed["check"] == "home" and fixed["done"] and "became 775" in fixed["what"]
    assert "writable by all users" not in str(findings(done)["home"])
    home.chmod(0o777)
    assert "fixed    home:" in hostler("doctor", "--quick", "--fix").out
