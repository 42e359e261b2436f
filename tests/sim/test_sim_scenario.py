"""Scenarios: those that are there, files, and mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.errors import HostlerError
from hostler.sim.scenario import HELD_OUT, MAIN, SCENARIOS, Scenario, find_scenario
from hostler.sim.tournament import parameters


def test_the_main_ceiling_falls_rises_and_is_gone_for_ten_minutes():
    heights = [MAIN.ceiling_at(0, hour * 3600) for hour in (0, 2.99, 3, 5, 8, 10, 10.16, 10.17, 12)]
    assert heights == [24, 24, 8, 24, 40, 0, 0, 24, 24]


def test_a_drift_is_a_straight_line():
    drift = Scenario(ceilings=(((0, 10), (2, 30)),), drift=True)
    assert [drift.ceiling_at(0, hour * 3600) for hour in (0, 0.5, 1, 2, 3)] == [10, 15, 20, 30, 30]


def test_those_held_back_are_found_by_name_and_differ_from_the_main_one():
    assert set(HELD_OUT) == {
        "two_pools",
        "two_projects",
        "twelve_projects",
        "low_ceiling",
        "slow_drift",
        "mixed_pace",
        "project_pace",
    }
    for name in SCENARIOS:
        assert find_scenario(name).name == name
        assert name == "main" or find_scenario(name) != MAIN


def test_a_file_says_what_differs(tmp_path: Path):
    path = tmp_path / "night.toml"
    path.write_text("hours = 2\nceilings = [[[0, 5], [1, 2]]]\nprojects = 2\n")
    found = find_scenario(str(path))
    assert (found.name, found.hours, found.projects) == ("night", 2, 2)
    assert found.ceiling_at(0, 3600) == 2
    assert found.noise == MAIN.noise
    assert "projects = 2" in parameters(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hours = 0", "hours"),
        ("colour = 'red'", "colour"),
        ("ceilings = []", "ceilings"),
        ("ceilings = [[[1, 5]]]", "begin with 0"),
        ("ceilings = [[[0, 5], [0, 6]]]", "grow"),
        ("stages = [4, 2]", "stages"),
        ("projects = 'many'", "projects"),
        ("hours = ", "not TOML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, says: str):
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(HostlerError) as caught:
        find_scenario(str(path))
    assert says in caught.value.what and caught.value.exit_code == 2


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path):
    (tmp_path / "raw.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("raw.toml", "none.toml", "."):
        with pytest.raises(HostlerError):
            find_scenario(str(tmp_path / name))
