"""Many runs in a row through the whole house: nothing is left behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from service_town import ALICE

from hostler.store.runs import live_runs
from hostler.store.tasks import TaskState
from started_processes import started_with

PLAY = """
version = 1
steps = [
  {{ child = {{ seconds = 600, session = true }} }},
  {{ fail = {{ times = {times}, say = "Not yet." }} }},
  {{ write = {{ path = "notes.md", text = "At last\\n" }} }},
  {{ result = {{ status = "done", summary = "Done." }} }},
]
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "runs", [4, pytest.param(300, marks=pytest.mark.soak)], ids=["some", "three hundred"]
)
def test_runs_in_a_row_leave_nothing_behind(found_town, runs):
    limits = {"exits_without_progress": 1000, "max_restarts": 1000}
    town = found_town(play=PLAY.format(times=runs - 1), tasks=limits)
    alice = town.person(ALICE)
    counts = []

    def count(step: str, _run: str) -> None:
        if step == "admitted":
            counts.append((len(list(Path("/proc/self/fd").iterdir())), threading.active_count()))

    with town.service(observe=count) as service:
        number = alice.file("Try", "agent:small-job")
        service.poll()
        task = service.until(
            lambda: next(
                (t for t in service.all_tasks() if t.state is TaskState.AWAITING_FEEDBACK), None
            ),
            seconds=60 + 5 * runs,
        )
        service.rested()
        assert task.number == number
        found = service.runs(task)
        assert [run.outcome for run in found] == ["crash"] * (runs - 1) + ["success"]
        with service.app.store.read() as tx:
            assert live_runs(tx) == []
        # Every process that carried a run's mark is gone, also those in sessions of their own.
        assert started_with(f"HOSTLER_TASK={task.id}") == []
        folders = list((town.home / f"projects/stable/tasks/{task.id}/runs").iterdir())
        assert sorted(folder.name for folder in folders) == [run.run for run in found]
        assert [p.name for p in (town.home / "checkouts/stable").iterdir()] == [task.id]
        views = town.home / "mirrors/alice/stable.git/views"
        assert not views.exists() or list(views.iterdir()) == []
        assert no_strays(town.home)
    # Idle threads and connections are kept for the next run; they do not grow with each.
    early, late = counts[2], counts[-1]
    assert late[0] <= early[0] + 6 and late[1] <= early[1] + 3, counts


def no_strays(home: Path) -> bool:
    """No temporary file of ours outlives its use."""
    return not [path for path in home.rglob(".*.new") if "objects" not in path.parts]
