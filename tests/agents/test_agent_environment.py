"""What an agent may see: little, and never a secret of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hostler.agents.errors import SecretRefused
from hostler.agents.prepare import (
    GITHUB_TOKEN_VARIABLES,
    PASSED_VARIABLES,
    append_to_path,
    build_agent_environment,
    secret_variables,
    set_own_home,
)
from hostler.config.settings import Settings

PLACE = Path("/opt/hostler/bin")
TOKEN = "ghp_" + "a1B2c3D4" * 5
names = st.sampled_from(
    [
        *PASSED_VARIABLES,
        *("LC_ALL", "LC_TIME", "LCX", "EDITOR", "ANTHROPIC_API_KEY", "HOSTLER_RUN", "LD_PRELOAD"),
        *(*sorted(GITHUB_TOKEN_VARIABLES), "MY_HOOK_SECRET", "github_token"),
    ]
)
values = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
environments = st.dictionaries(names, values)
SECRETS = GITHUB_TOKEN_VARIABLES | {"MY_HOOK_SECRET"}
WORDS = {"HOSTLER_RUN": "r1", "HOSTLER_RUN_DIR": "/runs/r1"}


@given(environments, st.lists(names))
def test_nothing_passes_but_what_is_allowed_listed_or_ours(ours, listed):
    try:
        env = build_agent_environment(ours, listed, WORDS, SECRETS)
    except SecretRefused as error:
        assert set(error.names) <= {*ours, *listed}
        return
    for name, value in env.items():
        if name in WORDS:
            assert value == WORDS[name]
        else:
            assert name in PASSED_VARIABLES or name.startswith("LC_") or name in listed
            assert ours.get(name, value) == value
    assert not {name.upper() for name in env} & SECRETS
    assert set(WORDS) <= set(env)


@given(environments, st.lists(names))
def test_a_secret_value_passes_under_no_name(ours, listed):
    secret = "s3cret-value-of-ours"
    ours = {**ours, "GITHUB_TOKEN": secret}
    try:
        env = build_agent_environment(ours, listed, WORDS, SECRETS)
    except SecretRefused:
        return
    assert all(secret not in value for value in env.values())


@given(st.sampled_from(sorted(SECRETS)), environments)
def test_listing_a_secret_is_refused_even_where_it_is_not_set(name, ours):
    with pytest.raises(SecretRefused) as refused:
        build_agent_environment(ours, [name], WORDS, SECRETS)
    assert name in refused.value.names
    assert name in refused.value.what


@pytest.mark.parametrize(
    "value", [TOKEN, f"https://x:{TOKEN}@github.com", "github_pat_" + "a" * 30]
)
def test_a_variable_that_carries_a_github_token_is_refused_without_showing_it(value):
    with pytest.raises(SecretRefused) as refused:
        build_agent_environment({"MINE": value}, ["MINE"], WORDS)
    assert "MINE" in refused.value.what
    assert all(value not in line for line in refused.value.lines())


def test_a_copy_of_our_token_under_another_name_is_refused():
    ours = {"GH_TOKEN": "opaque-secret", "COPY": "Bearer opaque-secret"}
    assert "COPY" not in build_agent_environment(ours, [], WORDS)
    with pytest.raises(SecretRefused):
        build_agent_environment(ours, ["COPY"], WORDS)


def test_an_agents_own_key_passes_when_it_is_listed():
    ours = {"ANTHROPIC_API_KEY": "sk-ant-" + "x" * 30, "OTHER": "1"}
    env = build_agent_environment(ours, ["ANTHROPIC_API_KEY"], WORDS)
    assert env["ANTHROPIC_API_KEY"] == ours["ANTHROPIC_API_KEY"]
    assert "OTHER" not in env


def test_a_secret_named_in_the_settings_is_known_as_one():
    settings = Settings.model_validate(
        {
            "github": {"token_env": "WORK_TOKEN", "webhook_secret_env": "HOOK"},
            "web": {"token_env": "WEB"},
            "notify": {"url_env": "URL", "secret_env": "SIGN"},
        }
    )
    found = secret_variables(settings)
    assert found == GITHUB_TOKEN_VARIABLES | {"WORK_TOKEN", "HOOK", "WEB", "URL", "SIGN"}
    assert "" not in secret_variables(Settings())


@given(environments)
def test_there_is_always_a_path_and_our_command_comes_last(ours):
    assume(not GITHUB_TOKEN_VARIABLES & {name.upper() for name in ours})
    env = append_to_path(build_agent_environment(ours, [], WORDS), PLACE)
    assert env["PATH"].split(":")[-1] == str(PLACE)
    assert append_to_path(env, PLACE) == env


def test_a_home_of_its_own_replaces_home_and_temporary_folder(tmp_path):
    env = build_agent_environment({"HOME": "/home/me", "TMPDIR": "/tmp"}, [], WORDS)
    own = set_own_home(env, tmp_path / "home", tmp_path / "tmp")
    assert own == {**env, "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
