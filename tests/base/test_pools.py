from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config.pools import DEFAULT_POOL, PoolCaps, load_pools
from hostler.errors import ConfigError


@pytest.fixture
def governor(tmp_path):
    def write(value: object) -> dict[str, PoolCaps]:
        path = tmp_path / "governor.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return load_pools(path)

    return write


def test_no_file_means_no_caps_of_its_own(tmp_path):
    assert load_pools(tmp_path / "governor.json") == {}


def test_each_pool_has_its_caps(governor):
    pools = governor(
        {"pools": {"anthropic": {"max_global_agents": 4, "adaptive": True}, "openai": {}}}
    )
    assert pools["anthropic"].max_global_agents == 4
    assert pools["anthropic"].adaptive
    assert (pools["openai"].settle_seconds, pools["openai"].break_seconds) == (120, 300)
    assert pools["openai"].min_dispatch_interval_seconds == 3


def test_the_older_flat_shape_means_the_default_pool(governor):
    assert governor({"max_global_agents": 3}) == {DEFAULT_POOL: PoolCaps(max_global_agents=3)}
    assert list(governor({"pools": {"": {"hard_max": 2}}})) == [DEFAULT_POOL]


def test_keys_of_others_are_kept(governor):
    pool = governor({"max_global_agents": 3, "their_key": [1]})[DEFAULT_POOL]
    assert pool.model_dump()["their_key"] == [1]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", '{"pools": 3}', '{"pools": {"a": 3}}', "[" * 100_000,
                '{"max_global_agents": "8"}', '{"max_global_agents": -1}', "\x00"],
)  # fmt: skip
def test_a_damaged_file_is_an_error_and_never_a_wider_cap(governor, content):
    with pytest.raises(ConfigError):
        governor(content)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.dictionaries(st.text(max_size=9), inner, max_size=3),
)


@given(json_like)
def test_whatever_the_file_holds_caps_are_never_negative(value):
    from pathlib import Path
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "governor.json"
        path.write_text(json.dumps(value))
        try:
            assert all(pool.max_global_agents >= 0 for pool in load_pools(path).values())
        except ConfigError as error:
            assert error.problems


def test_the_default_pool_under_both_its_names_is_a_mistake(governor):
    with pytest.raises(ConfigError):
        governor({"pools": {"": {"max_global_agents": 1}, "anthropic": {"max_global_agents": 9}}})


def test_a_ceiling_below_the_cap_is_read_as_it_stands(governor):
    pool = governor({"max_global_agents": 9, "hard_max": 3})[DEFAULT_POOL]
    assert (pool.max_global_agents, pool.hard_max) == (9, 3)


SPELT = {"MaxGlobalAgents": 3, "Adaptive": True, "HardMax": 7, "SettleSeconds": 60}


@pytest.mark.parametrize("flat", [True, False])
def test_our_keys_as_older_programs_spelt_them(governor, flat):
    told = SPELT | {"BreakSeconds": 0, "MinDispatchIntervalSeconds": 1.5, "TheirKey": 1}
    pool = governor(told if flat else {"pools": {DEFAULT_POOL: told}})[DEFAULT_POOL]
    assert (pool.max_global_agents, pool.adaptive, pool.hard_max) == (3, True, 7)
    assert (pool.settle_seconds, pool.break_seconds) == (60, 300)
    assert pool.min_dispatch_interval_seconds == 1.5
    assert pool.model_dump()["TheirKey"] == 1


@pytest.mark.parametrize(
    "told", [{"MaxGlobalAgents": "8"}, {"MaxGlobalAgents": 2, "max_global_agents": 9}]
)
def test_a_mistake_in_another_spelling_is_one_too(governor, told):
    with pytest.raises(ConfigError) as refused:
        governor(told)
    assert refused.value.problems[0].key == f"pools.{DEFAULT_POOL}.max_global_agents"


def test_zero_means_the_default(governor):
    pool = governor({"settle_seconds": 0, "break_seconds": 0, "hard_max": 0})[DEFAULT_POOL]
    assert (pool.settle_seconds, pool.break_seconds, pool.hard_max) == (120, 300, 0)
