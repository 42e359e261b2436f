"""Many runs in a row leave nothing behind but their rows and folders."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from hostler.shim import run_files
from hostler.store.runs import RunState


def belongings(house):
    """What a process can leak: descriptors, threads, children."""
    names = os.listdir("/proc/self/fd")  # noqa: PTH208
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len(names), threading.active_count(), len(children)


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.soak)])
def test_many_runs_in_a_row_leak_nothing(house, count):
    house.how = "quick"
    house.boss.supervise(house.admit_run())
    before = belongings(house)
    for _ in range(count):
        assert house.boss.supervise(house.admit_run()).outcome == "success"
    assert belongings(house) == before
    runs = house.runs()
    assert len(runs) == count + 1
    assert {run.state for run in runs} == {RunState.ENDED}
    assert [run.fence for run in runs] == [run.attempt for run in runs] == list(range(1, count + 2))
    assert house.begun() == count + 1
    assert not house.left()
    folders = list((house.home / "projects/p/tasks/t1/runs").iterdir())
    assert {folder.name for folder in folders} == {run.run for run in runs}
    for folder in folders:
        assert not list(folder.glob("*.new"))
        assert not (folder / run_files.STOP_FILE).exists()
    for run in runs:
        assert house.effects(run) == ["attached", "ended", "released"]


def test_runs_that_are_stopped_or_never_start_leak_nothing_either(house):
    def fail(run):
        if run.fence % 2:
            house.program = "/nowhere/agent"

    house.launched = fail
    house.how = "quick"
    house.boss.supervise(house.admit_run())
    before = belongings(house)
    for _ in range(10):
        house.boss.supervise(house.admit_run())
    assert belongings(house) == before
