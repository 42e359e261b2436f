"""Which repository is meant, and a free id for a new one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config import Agent, Repo, read
from hostler.config.repos import (
    chosen_agent,
    id_of,
    meant,
    new_id,
    parse_name,
    require_id,
    require_login,
)
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
    assert meant(REPOS, text) == "other"


@pytest.mark.parametrize("text", ["Other", "octo/other", "", "/", "a/b/c", "[", "\x00/\x00"])
def test_what_nobody_knows_is_told_with_what_there_is(text):
    with pytest.raises(HostlerError) as caught:
        meant(REPOS, text)
    assert "owner/name" in caught.value.remedy or "octo/stable" in caught.value.remedy


@given(st.text())
def test_any_text_is_a_repository_or_one_clear_error(text):
    asks = (lambda text: meant(REPOS, text), parse_name, require_id, require_login)
    for ask in asks:
        try:
            ask(text)
        except HostlerError as error:
            assert error.safe and error.remedy


@given(OWNERS, NAMES)
def test_a_new_id_is_free_and_can_be_a_table(owner, name):
    chosen = new_id(REPOS, RepoName(owner, name))
    assert chosen not in REPOS and require_id(chosen) == chosen


def test_ids_follow_the_name_then_the_owner_then_the_person():
    name = RepoName("ann", "stable")
    assert new_id(REPOS, RepoName("ann", "new.site")) == "new-site"
    assert new_id(REPOS, name) == "ann-stable"
    assert new_id(REPOS, name, "mine") == "mine"
    with pytest.raises(HostlerError, match="octo/stable"):
        new_id(REPOS, name, "stable")
    taken = REPOS | {"ann-stable": Repo(owner="bob", name="stable")}
    with pytest.raises(HostlerError, match="in use"):
        new_id(taken, name)


def test_a_repository_has_one_id_whatever_its_spelling():
    assert id_of(REPOS, RepoName("OCTO", "STABLE")) == "stable"
    assert id_of(REPOS, RepoName("octo", "stables")) is None


def test_an_agent_is_named_where_there_is_a_choice():
    one = {"claude": Agent(kind="claude")}
    two = one | {"codex": Agent(kind="codex")}
    assert [chosen_agent({}, ""), chosen_agent(one, ""), chosen_agent(two, "codex")] == [
        "",
        "",
        "codex",
    ]
    for agents, wanted in (({}, "hal"), (one, "hal"), (two, "")):
        with pytest.raises(HostlerError, match="agent"):
            chosen_agent(agents, wanted)


def test_a_table_name_with_a_line_end_is_a_mistake(tmp_path):
    path = tmp_path / "hostler.toml"
    path.write_text('[repo."x\\n"]\nowner = "octo"\nname = "stable"\n')
    with pytest.raises(ConfigError, match="1 mistake"):
        read(path)


@pytest.mark.parametrize("owner", ["x[bot]", "a-b" * 20])
def test_what_cannot_own_a_repository_is_a_mistake(tmp_path, owner):
    path = tmp_path / "hostler.toml"
    path.write_text(f'[repo.x]\nowner = "{owner}"\nname = "stable"\n')
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert caught.value.problems[0].key == "repo.x.owner"
