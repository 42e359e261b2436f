"""`kill -9` after every step of a round: what is left breaks nobody, and the next finishes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from gc_yard import HERE, Fields, Yard

from hostler.checkouts.checkout import fetch_task_head
from hostler.checkouts.push import push_commit
from hostler.clock import FakeClock
from hostler.config.settings import Settings
from hostler.store import Store, open_store
from hostler.store.admin.inspect import inspect_database
from hostler.store.engine.sqlite import Patience
from hostler.store.schema import metadata
from hostler.store.tasks import OVER, TaskState, tasks_in

pytestmark = pytest.mark.slow
CHILD = Path(__file__).with_name("gc_child.py")


def furnish(yard: Yard, fields: Fields) -> None:
    """Something of every kind that goes, and something that stays."""
    for name in ("t1", "t2"):
        task = yard.task(name, repo_full_name=str(HERE))
        yard.run(task, f"{name}-r1")
        yard.run(task, f"{name}-r2")
    checkout = fields.checkout(task)
    push_commit(checkout.mirror, fields.remote, checkout.branch, fetch_task_head(checkout), None)
    kept = yard.of_issue("t3", 7)
    yard.issue(7, "open", "agent:bugfix")
    for number in range(3):
        yard.run(kept, f"t3-r{number}")
    yard.run(yard.task("t4", TaskState.QUEUED), "t4-r1")
    yard.issue(8)
    yard.sent("status:gone:1", 8, result_id=50)
    yard.sent("status:gone:2", 8, kind="edit_comment", result_id=50)
    yard.write(yard.home / "logs" / "2020-01-01.jsonl", "{}\n")
    yard.age()
    yard.issue(9, "open")
    yard.cursors()


def rows(store: Store) -> dict[str, list[str]]:
    with store.read() as tx:
        return {
            table.name: sorted(str(tuple(row)) for row in tx.execute(table.select()))
            for table in metadata.sorted_tables
        }


def files(home: Path) -> list[str]:
    return sorted(
        str(path.relative_to(home)) for path in home.rglob("*") if "hostler.db" not in path.name
    )


@contextmanager
def rounds() -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait()


def sweep(child: subprocess.Popen[str], home: Path, count: int, moment: datetime) -> str:
    child.stdin.write(f"{home} {count} {moment.isoformat()}\n")
    child.stdin.flush()
    return child.stdout.readline().strip()


def require_sound(home: Path, moment: datetime) -> None:
    """What anybody may rely on, whenever the round was cut off."""
    with closing(open_store(home, clock=FakeClock(moment))) as store:
        with store.read() as tx:
            going = [task for task in tasks_in(tx, tuple(TaskState)) if task.state not in OVER]
        found = inspect_database(store.place, FakeClock(moment), Patience())
    assert found.sound
    assert [task.id for task in going] == ["t4"]
    for folder in ("t4/runs/t4-r1", "t3/runs/t3-r2"):
        assert (home / "projects/stable/tasks" / folder / "stdout").exists()
    # Whatever has no row has no folder of its name either.
    with closing(open_store(home)) as store, store.read() as tx:
        known = {task.id for task in tasks_in(tx, tuple(TaskState))}
    listed = (home / "projects/stable/tasks").iterdir()
    assert {path.name for path in listed if not path.name.startswith(".")} <= known


@pytest.mark.long
@pytest.mark.parametrize(
    "stride",
    [pytest.param(4, id="some steps"), pytest.param(1, id="every step", marks=pytest.mark.soak)],
)
def test_a_round_that_is_killed_after_any_step_is_finished_by_the_next(
    yard, fields, tmp_path, stride
):
    furnish(yard, fields)
    yard.settings = Settings()
    yard.store.close()
    moment = yard.clock.now()
    template = tmp_path / "template"
    yard.home.rename(template)

    def fresh() -> Path:
        # Checkouts name their mirror by its whole path: a copy has to be where it was.
        shutil.rmtree(yard.home, ignore_errors=True)
        shutil.copytree(template, yard.home, symlinks=True)
        return yard.home

    with rounds() as child:
        assert sweep(child, fresh(), 0, moment) == "through"
        with closing(open_store(yard.home, clock=FakeClock(moment))) as store:
            wanted = rows(store), files(yard.home)
        assert not (yard.home / "mirrors/octo/stable.git").exists()
        assert not (yard.home / "checkouts/stable/t2").exists()
        count = 1 - stride
        while True:
            count += stride
            ended = sweep(child, fresh(), count, moment)
            require_sound(yard.home, moment)
            if ended == "through":
                break
            assert ended == "killed"
            assert sweep(child, yard.home, 0, moment) == "through"
            with closing(open_store(yard.home, clock=FakeClock(moment))) as store:
                assert (rows(store), files(yard.home)) == wanted, f"after step {count}"
    # Folders aside, rows stored, folders deleted: of each there was more than one.
    assert count > 15


@pytest.mark.long
def test_two_rounds_at_once_do_not_disturb_each_other(yard):
    for number in range(15):
        task = yard.task(f"t{number}")
        yard.run(task, f"r{number}")
        kept = yard.of_issue(f"i{number}", number + 1)
        for run in range(3):
            yard.run(kept, f"i{number}-r{run}")
        yard.issue(number + 1, "open", "agent:bugfix")
    yard.age()
    moment = yard.clock.now()
    with rounds() as one, rounds() as other:
        for child in (one, other):
            child.stdin.write(f"{yard.home} 0 {moment.isoformat()}\n")
            child.stdin.flush()
        assert [child.stdout.readline() for child in (one, other)] == ["through\n"] * 2
        assert sweep(one, yard.home, 0, moment) == "through"
    with yard.store.read() as tx:
        left = tasks_in(tx, tuple(TaskState))
    assert {task.id for task in left} == {f"i{number}" for number in range(15)}
    listed = sorted(path.name for path in (yard.home / "projects/stable/tasks").iterdir())
    assert listed == sorted(task.id for task in left)
    for task in left:
        runs = yard.folder(task) / "runs"
        assert [path.name for path in runs.iterdir()] == [f"{task.id}-r2"]
