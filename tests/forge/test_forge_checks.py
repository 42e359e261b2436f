"""What `hostler doctor` says of GitHub."""

from __future__ import annotations

import pytest

from hostler.forge.checks import github_answers, polls_fit
from hostler.health import CheckContext, CheckStatus
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
def findings(sandbox_repo, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", token_for("bot"))
    monkeypatch.setenv("PATH", "")

    def look(name="", github="", repo=""):
        file = tmp_path / "hostler.toml"
        text = TOML.format(
            url=sandbox_repo.sandbox.url,
            github=github,
            owner="alice",
            name=name or sandbox_repo.name.name,
        )
        file.write_text(text + repo)
        found = list(github_answers(CheckContext(tmp_path, file, sandbox_repo.clock)))
        return [(finding.status, finding.evidence, finding.remedy) for finding in found]

    return look


def test_all_is_well(sandbox_repo, findings):
    statuses = {status for status, _, _ in findings()}
    assert statuses == {CheckStatus.OK}
    assert "login: bot" in findings()[0][1]


def test_a_repository_that_is_not_there_is_named(findings):
    status, evidence, remedy = findings("nothing")[-1]
    assert (status, "alice/nothing" in evidence, bool(remedy)) == (CheckStatus.FAILED, True, True)


def test_an_operations_issue_that_is_closed_or_not_there_is_named(sandbox_repo, findings):
    number = sandbox_repo.issue("Operations")
    named = 'operator_logins = ["ann"]\noperations_issue_number = {}\n'
    assert {status for status, _, _ in findings(repo=named.format(number))} == {CheckStatus.OK}
    sandbox_repo.do("PATCH", f"issues/{number}", state="closed")
    for which, what in ((number, "is closed"), (999, "does not exist, or access is denied")):
        status, evidence, remedy = findings(repo=named.format(which))[-1]
        assert (status, what in evidence, bool(remedy)) == (CheckStatus.WARNING, True, True)


def test_a_token_without_rights_is_named(findings, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", token_for("carol"))
    status, evidence, remedy = findings()[-1]
    assert (status, "no permission to push" in evidence, bool(remedy)) == (
        CheckStatus.FAILED,
        True,
        True,
    )


def test_a_wrong_token_is_named_and_not_shown(findings, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_wrong_wrong_wrong")
    ((status, evidence, remedy),) = findings()
    assert (status, bool(remedy)) == (CheckStatus.FAILED, True)
    assert "ghp_" not in evidence + remedy


def test_no_token_is_named(findings, monkeypatch):
    monkeypatch.delenv("GITHUB_TOKEN")
    ((status, _, remedy),) = findings()
    assert (status, bool(remedy)) == (CheckStatus.FAILED, True)


def test_a_renamed_repository_is_named_with_its_new_name(sandbox_repo, findings):
    new = f"{sandbox_repo.name.name}-new"
    sandbox_repo.do("PATCH", f"/repos/{sandbox_repo.name}", name=new)
    assert any(new in remedy and status is CheckStatus.WARNING for status, _, remedy in findings())


def test_a_clock_that_goes_wrong_is_noticed(sandbox_repo, findings):
    sandbox_repo.clock.jump(600)
    assert any("clock differs" in evidence for _, evidence, _ in findings())


def test_a_host_that_is_away_is_named(sandbox_repo, findings):
    sandbox_repo.fault("cut", count=None)
    ((status, _, _),) = findings()
    assert status is CheckStatus.FAILED


def test_nothing_is_asked_without_repositories(sandbox_repo, tmp_path):
    (tmp_path / "hostler.toml").write_text("")
    found = list(
        github_answers(CheckContext(tmp_path, tmp_path / "hostler.toml", sandbox_repo.clock))
    )
    assert [finding.status for finding in found] == [CheckStatus.SKIPPED]
    assert sandbox_repo.ledger() == []


def test_what_is_left_is_told(sandbox_repo, findings):
    sandbox_repo.tune(primary_limit=5000)
    status, evidence, _ = findings()[1]
    assert (status, "token: 4,998 of 5,000 requests are left" in evidence) == (CheckStatus.OK, True)


def test_little_that_is_left_is_told_before_it_is_gone(sandbox_repo, findings):
    sandbox_repo.tune(primary_limit=5000)
    for _ in range(2):
        findings()
    account = next(iter(sandbox_repo.sandbox.app.pipeline.limits._accounts.values()))
    account.used = 3700
    status, evidence, remedy = findings()[1]
    assert (status, bool(remedy)) == (CheckStatus.WARNING, True)
    assert "298 of them for us" in evidence
    account.used = 3500
    assert findings()[1][0] is CheckStatus.OK
    account.used = 4000
    ((status, evidence, _),) = findings()[1:]
    assert (status, "our share is used up" in evidence) == (CheckStatus.WARNING, True)


@pytest.mark.parametrize("limit", ["primary", "secondary"])
def test_a_refusal_is_told_with_its_end(sandbox_repo, findings, limit):
    sandbox_repo.tune(primary_limit=5000)
    sandbox_repo.fault("limit", limit=limit)
    ((status, evidence, remedy),) = findings()
    assert (status, bool(remedy)) == (CheckStatus.WARNING, True)
    assert f"{limit} limit" in evidence and "UTC" in evidence


FLEET = """
[runtime]
poll_interval_seconds = {interval}
""" + "".join(f'[repo.r{n}]\nowner = "alice"\nname = "r{n}"\n' for n in range(100))


@pytest.fixture
def fit(tmp_path, sandbox_repo):
    def look(text):
        (tmp_path / "hostler.toml").write_text(text)
        found = list(
            polls_fit(CheckContext(tmp_path, tmp_path / "hostler.toml", sandbox_repo.clock))
        )
        return [(finding.status, finding.evidence, finding.remedy) for finding in found]

    return look


def test_settings_that_fit_are_told_with_their_cost(fit, sandbox_repo):
    ((status, evidence, _),) = fit(FLEET.format(interval=60))
    assert status is CheckStatus.OK
    assert "140 of 720 points a minute, 0 of 4,000 requests an hour" in evidence
    assert "in the worst case" in evidence
    ((status, evidence, _),) = fit(FLEET.format(interval=3600))
    assert (status, "worst" in evidence) == (CheckStatus.OK, False)
    assert sandbox_repo.ledger() == []


def test_settings_that_cannot_fit_are_told_with_what_to_change(fit):
    ((status, evidence, remedy),) = fit(FLEET.format(interval=10))
    assert (status, "polls stretch 1.3 times" in evidence) == (CheckStatus.WARNING, True)
    assert "poll_interval_seconds to 13" in remedy


def test_without_repositories_or_with_broken_settings_there_is_no_cost(fit):
    assert [status for status, _, _ in fit("")] == [CheckStatus.SKIPPED]
    assert fit("[runtime]\npoll_interval_seconds = 1\n") == []
