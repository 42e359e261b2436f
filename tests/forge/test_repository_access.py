"""Where we stand with a repository: each refusal in words of its own."""

from __future__ import annotations

import pytest

from hostler.config.settings import GitHub as Settings
from hostler.errors import CredentialsMissing, ForgeError, RateLimited, Unreachable
from hostler.forge.github.hub import open_github, read_repository_access
from hostler.model import RepoName
from hostler.sandbox.auth import token_for


@pytest.fixture
def ask(sandbox_repo, monkeypatch):
    """Ask with the token of somebody, or with another text as token."""

    def run(who="bot", name=None, token=None, **more):
        monkeypatch.setenv("GITHUB_TOKEN", token_for(who) if token is None else token)
        settings = Settings(**{"api_url": sandbox_repo.sandbox.url} | more)
        hub = open_github(settings, sandbox_repo.clock, pauses=(0.0,))
        try:
            return read_repository_access(hub, name or sandbox_repo.name)
        finally:
            hub.close()

    return run


def test_who_may_push_gets_the_repository_and_its_own_name(ask, sandbox_repo):
    found = ask()
    assert (found.login, found.repository.name) == ("bot", sandbox_repo.name)
    assert found.repository.default_branch == "main"


def test_a_renamed_repository_is_told_under_its_present_name(ask, sandbox_repo):
    new = f"{sandbox_repo.name.name}-new"
    sandbox_repo.do("PATCH", f"/repos/{sandbox_repo.name}", name=new)
    assert ask().repository.name == RepoName("alice", new)


REFUSED = [
    ({"who": "carol"}, "carol may not push to alice/house"),
    ({"name": RepoName("alice", "nothing")}, "does not exist on GitHub, or bot may not see it"),
    ({"token": "ghp_wrong_wrong_wrong"}, "rejected the token"),
]


@pytest.mark.parametrize(("how", "words"), REFUSED, ids=["rights", "missing", "token"])
def test_each_refusal_says_what_to_do(ask, how, words):
    with pytest.raises(ForgeError, match=words) as caught:
        ask(**how)
    assert caught.value.safe == "Nothing was changed." and caught.value.remedy
    assert "ghp_" not in "".join(caught.value.lines())


def test_without_credentials_it_says_where_they_come_from(ask, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CredentialsMissing) as caught:
        ask(token="")
    assert "GITHUB_TOKEN" in caught.value.remedy and caught.value.safe


@pytest.mark.parametrize(
    ("fault", "kind", "error"),
    [
        ("cut", {"count": None}, Unreachable),
        ("limit", {"limit": "secondary"}, RateLimited),
        ("fail_before", {"count": None, "status": 403, "route": "/repos/*"}, ForgeError),
    ],
)
def test_a_host_that_does_not_answer_well_changes_nothing(ask, sandbox_repo, fault, kind, error):
    sandbox_repo.fault(fault, **kind)
    with pytest.raises(error) as caught:
        ask()
    assert caught.value.safe == "Nothing was changed."


def test_a_host_that_is_not_there_is_told(ask):
    with pytest.raises(Unreachable):
        ask(api_url="http://127.0.0.1:1")
