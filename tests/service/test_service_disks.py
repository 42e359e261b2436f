"""Disks that are full and a database that is busy: told, and gone on with when there is room."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from mounts import empty_wal, fill, small_disk
from rough_town import (
    REVIEW,
    Gate,
    MakeTown,
    Plot,
    in_state,
    python,
    require_no_defect,
    settle,
    written,
)

from hostler.service import context
from hostler.store.engine.sqlite import Patience
from hostler.store.tasks import TaskState
from hostler.workflows.outcomes import MAX_TASK_PARK

FILL_THE_DISK = """
import json, os
try:
    with open("filler", "wb", buffering=0) as file:
        while True:
            file.write(os.urandom(65536))
except OSError:
    pass
open(os.environ["HOSTLER_RESULT"], "w").write(json.dumps({"status": "done", "summary": "Big."}))
"""
HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


def test_an_agent_that_fills_its_disk_waits_for_space_alone(rough: MakeTown) -> None:
    town = rough(Plot("field", agent=python(FILL_THE_DISK)), Plot("meadow"))
    checkouts = town.home / "checkouts"
    checkouts.mkdir()
    with small_disk(checkouts / "field", "2m") as disk, town.service() as service:
        numbers = {name: town.file(name) for name in ("field", "meadow")}
        tasks = settle(service, *numbers)
        assert (tasks["field"].state, tasks["meadow"].state) == (TaskState.PARKED, REVIEW)
        (status,) = town.said("field", numbers["field"])
        assert "No space is left on the disk" in status and "Free some space" in status
        (filler,) = disk.rglob("filler")
        filler.write_bytes(b"not so large any more")
        # It may have been tried again meanwhile, and then waits longer.
        town.clock.jump(MAX_TASK_PARK.total_seconds())
        service.runner.wake()
        service.until(in_state(service, "field", REVIEW))
        service.rested()
        assert len(service.runs(tasks["field"])) == 1
        require_no_defect(service)


def test_a_home_without_space_is_told_and_goes_on_when_there_is_some(
    rough: MakeTown, tmp_path: Path
) -> None:
    gate = Gate(tmp_path, "field")
    with small_disk(tmp_path / "home", "24m") as disk:
        town = rough(Plot("field", agent=gate.agent()), Plot("meadow"))
        with town.service() as service:
            town.file("field")
            service.poll()
            with gate.held():
                service.until(lambda: written(service))
                empty_wal(town.home / "hostler.db")
                filler = fill(disk)
                town.file("meadow")
                service.poll()
                service.until(lambda: any("No space is left" in line for line in service.told))
                # A look at the disk may have been first: "has 0.0 MB free", and what to do.
                assert [line for line in service.told if "Free some space" not in line] == []
                filler.unlink()
            service.poll()
            for name in ("field", "meadow"):
                service.until(in_state(service, name, REVIEW), name)
            service.rested()
            require_no_defect(service)


def test_a_database_that_somebody_holds_is_waited_for(
    rough: MakeTown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = partial(context.open_store, patience=Patience(0.5, 0.5))
    monkeypatch.setattr(context, "open_store", impatient)
    gate = Gate(tmp_path, "field")
    town = rough(Plot("field", agent=gate.agent()), Plot("meadow"))
    with town.service() as service:
        town.file("field")
        service.poll()
        with gate.held():
            service.until(lambda: written(service))
            argv = [sys.executable, "-c", HOLD, str(town.home / "hostler.db")]
            holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert holder.stdout is not None and holder.stdin is not None
            assert holder.stdout.readline() == b"held\n"
            town.file("meadow")
            service.poll()
        # The agent is done, and its end cannot be stored.
        service.until(lambda: any(line.startswith("field: ") for line in service.told))
        # A writer that waited behind others of this process names this process first.
        service.until(lambda: any(f"pid {holder.pid}" in line for line in service.told))
        troubles = [line for line in service.told if "reached again" not in line]
        assert all("The database is busy" in line for line in troubles)
        holder.stdin.close()
        assert holder.wait() == 0
        holder.stdout.close()
        service.poll()
        for name in ("field", "meadow"):
            service.until(in_state(service, name, REVIEW), name)
        service.rested()
        require_no_defect(service)
