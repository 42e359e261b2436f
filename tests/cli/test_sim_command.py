"""`hostler sim governor`: table, JSON, drawings, mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostler.cli.commands.dev_tools import PolicyOption
from hostler.sim.metrics import METRICS
from hostler.sim.policies import CONTESTANTS


@pytest.fixture
def short(tmp_path: Path) -> Path:
    path = tmp_path / "short.toml"
    rise = "ceilings = [[[0, 3], [0.1, 6]]]\nrecovery_from = 0.1\n"
    path.write_text(f"hours = 0.2\nwork_median = 10\n{rise}")
    return path


def test_the_command_knows_every_policy():
    assert [name.value for name in PolicyOption] == list(CONTESTANTS)


def test_a_table_with_all_metrics_and_the_model(hostler, short, home):
    done = hostler("sim", "governor", "--scenario", short, "--seeds", "2", "--jobs", "1")
    assert done.code == 0, done.err
    head, *rows = done.out.splitlines()
    assert head.split() == ["policy", *METRICS]
    assert [row.split()[0] for row in rows[: len(CONTESTANTS)]] == list(CONTESTANTS)
    assert "Averages of 2 seeds" in done.out and "work_median = 10" in done.out
    assert "Simulated" in done.err
    assert not home.exists()


def test_json_for_programs_and_drawings_for_people(hostler, short, tmp_path):
    folder = tmp_path / "new" / "plots"
    told = ("--policy", "served", "--policy", "aimd", "--policy", "aimd", "--plot", folder)
    done = hostler("sim", "governor", "--scenario", short, "--seeds", "1", "--json", *told)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert list(found["policies"]) == ["served", "aimd"]
    assert found["scenario"]["work_median"] == 10
    assert set(found["policies"]["aimd"]["mean"]) == set(METRICS)
    alone = ("--policy", "fixed_8", "--seeds", "1", "--jobs", "1")
    assert "\nOne seed. The model:" in hostler("sim", "governor", "--scenario", short, *alone).out
    assert found["policies"]["aimd"]["by_seed"][0]["seed"] == 1
    assert sorted(path.name for path in folder.iterdir()) == [
        f"governor-{name}.svg" for name in ("aimd", "served")
    ]


def test_a_wrong_scenario_and_a_folder_that_cannot_be(hostler, short, tmp_path):
    done = hostler("sim", "governor", "--scenario", "nonsense")
    assert done.code == 2 and "nonsense is no scenario" in done.err and "slow_drift" in done.err
    (tmp_path / "file").write_text("")
    done = hostler("sim", "governor", "--scenario", short, "--plot", tmp_path / "file" / "x")
    assert done.code == 1 and "Cannot write plots" in done.err
