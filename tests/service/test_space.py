"""Room on disk: nothing begins without it, everything says so, and it goes on by itself."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from intake_yard import database
from mounts import fill, small_disk
from typer.testing import CliRunner
from why_stage import SERVED, Stage

from hostler.cli.main import app
from hostler.clock import FakeClock
from hostler.service.scheduling.admission import Admission, AdmissionDeps
from hostler.service.scheduling.explain import ExplainInputs, explain_task
from hostler.service.scheduling.gates import (
    DISK_FULL_REMEDY,
    DiskSpace,
    HomeGate,
    disk_full_text,
    find_full_disk,
    read_disk_space,
    required_mb,
)
from hostler.store.tasks import TaskState, require_task

sizes = st.floats(0, 10**7)
rooms = st.lists(st.builds(DiskSpace, st.sampled_from(["/a", "/b"]), sizes, sizes), max_size=4)


@given(rooms, st.integers(0, 10**7))
def test_the_fullest_of_those_that_are_too_full_is_named(found, floor):
    short = find_full_disk(found, floor)
    bad = [room for room in found if room.free_mb < min(floor, room.total_mb * 0.05)]
    assert (short is not None) == bool(bad)
    if short is not None:
        assert short in bad and short.free_mb == min(room.free_mb for room in bad)
        assert short.where in disk_full_text(short, floor)
    assert find_full_disk(found, 0) is None


def test_a_small_disk_needs_less():
    assert required_mb(DiskSpace("/", 1, 100), 512) == 5
    assert required_mb(DiskSpace("/", 1, 10**6), 512) == 512


def test_each_disk_of_a_home_is_asked_once(tmp_path):
    (tmp_path / "checkouts").mkdir()
    (found,) = read_disk_space(tmp_path)
    assert found.where == str(tmp_path) and 0 < found.free_mb <= found.total_mb
    assert read_disk_space(tmp_path / "gone") == ()


@pytest.fixture
def stage():
    clock = FakeClock()
    with database(clock) as store:
        yield Stage(store, clock)


def test_nothing_begins_on_a_full_disk_and_what_is_finishing_goes_on(stage):
    full, room = (DiskSpace("/home", 1, 10**6),), (DiskSpace("/home", 10**5, 10**6),)
    waits = stage.put()
    here = stage.here(1)

    def deps(found):
        return AdmissionDeps(
            stage.store,
            stage.settings(),
            stage.policy,
            lambda: set(),
            lambda: here,
            read_disks=lambda: found,
        )

    held = Admission(deps(full))
    seen = held.evaluate()
    assert seen.choice.task is None and held.admit_next() is None
    # Nobody tells us that there is room again: it is looked at now and then.
    assert held.note_gates(seen, None).recheck_seconds
    assert stage.why(waits.id).would_start
    with stage.store.read() as tx:
        inputs = ExplainInputs(stage.store, stage.settings(), stage.policy(), here, SERVED, full)
        told = explain_task(tx, inputs, require_task(tx, waits.id)).denial
    assert (
        told.gate is HomeGate.DISK and "1.0 MB free" in told.why and told.remedy == DISK_FULL_REMEDY
    )
    done = stage.put(state=TaskState.PARKED, finishing=True)
    assert held.evaluate().choice.task.id == done.id
    assert Admission(deps(room)).evaluate().choice.task is not None


def test_status_says_that_a_disk_is_full_and_nothing_is_lost(tmp_path):
    with small_disk(tmp_path / "home", "16m") as home:
        (tmp_path / "hostler.toml").write_text("")
        given_ = ["--home", str(home), "--config", str(tmp_path / "hostler.toml")]
        order = ["task", "submit", "--cwd", str(tmp_path), "Tidy up."]
        agent = '[agent.helper]\nkind = "command"\ncommand = ["true"]\n'
        (tmp_path / "hostler.toml").write_text(agent)
        run = CliRunner()
        assert run.invoke(app, [*given_, *order]).exit_code == 0
        assert "disk " not in run.invoke(app, [*given_, "status"]).stdout
        filler = fill(home)
        # Nearly full: the database can still be opened.
        os.truncate(filler, filler.stat().st_size - 400_000)
        said = run.invoke(app, [*given_, "status", "--json"])
        found = json.loads(said.stdout)
        assert "nothing new starts" in found["disk_full"] and found["tasks"] == {"queued": 1}
        assert "disk " in run.invoke(app, [*given_, "status"]).stdout
        filler.unlink()
        assert (
            json.loads(run.invoke(app, [*given_, "status", "--json"]).stdout)["disk_full"] is None
        )
