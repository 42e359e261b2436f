"""What `hostler doctor` says of GitHub."""

from __future__ import annotations

import pytest

from hostler.forge.checks import github_answers
from hostler.health import Context, Status
from hostler.sandbox.auth import token_for

TOML = """
[github]
api_url = "{url}"
{github}
[repo.one]
owner = "{owner}"
name = "{name}"
"""


@pytest.fixture
def findings(house, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", token_for("bot"))
    monkeypatch.setenv("PATH", "")

    def look(name="", github=""):
        file = tmp_path / "hostler.toml"
        text = TOML.format(
            url=house.sandbox.url, github=github, owner="alice", name=name or house.name.name
        )
        file.write_text(text)
        found = list(github_answers(Context(tmp_path, file, house.clock)))
        return [(finding.status, finding.evidence, finding.remedy) for finding in found]

    return look


def test_all_is_well(house, findings):
    statuses = {status for status, _, _ in findings()}
    assert statuses == {Status.OK}
    assert "as bot" in findings()[0][1]


def test_a_repository_that_is_not_there_is_named(findings):
    status, evidence, remedy = findings("nothing")[-1]
    assert (status, "alice/nothing" in evidence, bool(remedy)) == (Status.FAILED, True, True)


def test_a_token_without_rights_is_named(findings, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", token_for("carol"))
    status, evidence, remedy = findings()[-1]
    assert (status, "may not push" in evidence, bool(remedy)) == (Status.FAILED, True, True)


def test_a_wrong_token_is_named_and_not_shown(findings, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_wrong_wrong_wrong")
    ((status, evidence, remedy),) = findings()
    assert (status, bool(remedy)) == (Status.FAILED, True)
    assert "ghp_" not in evidence + remedy


def test_no_token_is_named(findings, monkeypatch):
    monkeypatch.delenv("GITHUB_TOKEN")
    ((status, _, remedy),) = findings()
    assert (status, bool(remedy)) == (Status.FAILED, True)


def test_a_renamed_repository_is_named_with_its_new_name(house, findings):
    new = f"{house.name.name}-new"
    house.do("PATCH", f"/repos/{house.name}", name=new)
    assert any(new in remedy and status is Status.WARNING for status, _, remedy in findings())


def test_a_clock_that_goes_wrong_is_noticed(house, findings):
    house.clock.jump(600)
    assert any("clock differs" in evidence for _, evidence, _ in findings())


def test_a_host_that_is_away_is_named(house, findings):
    house.fault("cut", count=None)
    ((status, _, _),) = findings()
    assert status is Status.FAILED


def test_nothing_is_asked_without_repositories(house, tmp_path):
    (tmp_path / "hostler.toml").write_text("")
    found = list(github_answers(Context(tmp_path, tmp_path / "hostler.toml", house.clock)))
    assert [finding.status for finding in found] == [Status.SKIPPED]
    assert house.ledger() == []
