"""Which repository is meant, and a free id for a new one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config.loader import read_settings
from hostler.config.repositories import (
    choose_agent,
    choose_repo_id,
    find_repo_id,
    parse_repo_name,
    require_login,
    require_repo_id,
    resolve_repo_id,
)
from hostler.config.settings import Agent, Repo
from hostler.errors import ConfigError, HostlerError
from hostler.model import RepoName

REPOS = {
    "stable": Repo(owner="octo", name="stable"),
    "other": Repo(owner="Octo", name="Hay.Loft"),
}
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,100}", fullmatch=True).filter(
    lambda name: name not in {".", ".."}
)
OWNERS = st.from_regex(r"[A-Za-z0-9](-?[A-Za-z0-9]){0,19}", fullmatch=True)


@pytest.mark.parametrize("text", ["other", "octo/hay.loft", " OCTO/Hay.Loft "])
def test_a_repository_is_meant_by_its_id_or_its_name(text):
    assert resolve_repo_id(REPOS, text) == "other"


@pytest.mark.parametrize("text", ["Other", "octo/other", "", "/", "a/b/c", "[", "\x00/\x00"])
def test_what_nobody_knows_is_told_with_what_there_is(text):
    with pytest.raises(HostlerError) as caught:
        resolve_repo_id(REPOS, text)
    assert "owner/name" in caught.value.remedy or "octo/stable" in caught.value.remedy


@given(st.text())
def test_any_text_is_a_repository_or_one_clear_error(text):
    asks = (
        lambda text: resolve_repo_id(REPOS, text),
        parse_repo_name,
        require_repo_id,
        require_login,
    )
    for ask in asks:
        try:
            ask(text)
        except HostlerError as error:
            assert error.safe and error.remedy


@given(OWNERS, NAMES)
def test_a_new_id_is_free_and_can_be_a_table(owner, name):
    chosen = choose_repo_id(REPOS, RepoName(owner, name))
    assert chosen not in REPOS and require_repo_id(chosen) == chosen


def test_ids_follow_the_name_then_the_owner_then_the_person():
    name = RepoName("ann", "stable")
    assert choose_repo_id(REPOS, RepoName("ann", "new.site")) == "new-site"
    assert choose_repo_id(REPOS, name) == "ann-stable"
    assert choose_repo_id(REPOS, name, "mine") == "mine"
    with pytest.raises(HostlerError, match="octo/stable"):
        choose_repo_id(REPOS, name, "stable")
    taken = REPOS | {"ann-stable": Repo(owner="bob", name="stable")}
    with pytest.raises(HostlerError, match="in use"):
        choose_repo_id(taken, name)


def test_a_repository_has_one_id_whatever_its_spelling():
    assert find_repo_id(REPOS, RepoName("OCTO", "STABLE")) == "stable"
    assert find_repo_id(REPOS, RepoName("octo", "stables")) is None


def test_an_agent_is_named_where_there_is_a_choice():
    one = {"claude": Agent(kind="claude")}
    two = one | {"codex": Agent(kind="codex")}
    assert [choose_agent({}, ""), choose_agent(one, ""), choose_agent(two, "codex")] == [
        "",
        "",
        "codex",
    ]
    for agents, wanted in (({}, "hal"), (one, "hal"), (two, "")):
        with pytest.raises(HostlerError, match="agent"):
            choose_agent(agents, wanted)


def test_a_table_name_with_a_line_end_is_a_mistake(tmp_path):
    path = tmp_path / "hostler.toml"
    path.write_text('[repo."x\\n"]\nowner = "octo"\nname = "stable"\n')
    with pytest.raises(ConfigError, match="1 mistake"):
        read_settings(path)


@pytest.mark.parametrize("owner", ["x[bot]", "a-b" * 20])
def test_what_cannot_own_a_repository_is_a_mistake(tmp_path, owner):
    path = tmp_path / "hostler.toml"
    path.write_text(f'[repo.x]\nowner = "{owner}"\nname = "stable"\n')
    with pytest.raises(ConfigError) as caught:
        read_settings(path)
    assert caught.value.problems[0].key == "repo.x.owner"
