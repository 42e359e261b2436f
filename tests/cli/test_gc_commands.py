"""`hostler gc`: what it says, asks and refuses, on a home that is a hundred days old."""

from __future__ import annotations

import json
import os
import pty
from contextlib import closing
from datetime import timedelta

import pytest
from intake_yard import lay_database

from hostler.cli.commands.gc import GcKindOption, format_bytes
from hostler.clock import FakeClock, SystemClock
from hostler.service.gc.context import GcKind
from hostler.store import open_store
from hostler.store.engine.locks import home_lock
from hostler.store.runs import Run, RunState, add_run
from hostler.store.tasks import Flow, Task, TaskState, add_task, find_task
from hostler_program import Started


def add(home, name, state, *runs):
    with (
        closing(open_store(home, clock=FakeClock(SystemClock().now() - timedelta(days=100)))) as db,
        db.write() as tx,
    ):
        about = {"title": "Tidy", "author": "ann", "flow": Flow.TASK, "order": 1}
        task = Task(
            id=name,
            project="stable",
            repo_full_name=None,
            issue_number=None,
            state=state,
            state_since=tx.stamp(),
            **about,
        )
        add_task(tx, task)
        for fence, run in enumerate(runs, 1):
            folder = f"projects/stable/tasks/{name}/runs/{run}"
            kind = ("work", "helper", "command", "p", folder, tx.stamp())
            row = Run(run, name, "stable", fence, fence, *kind)
            ended = {"state": RunState.ENDED, "ended_at": tx.stamp()}
            add_run(tx, Run(**{**_fields(row), **ended}))
            (home / folder).mkdir(parents=True)
            (home / folder / "stdout").write_text("x" * 5000)


def _fields(run):
    return {name: getattr(run, name) for name in Run.__slots__}


@pytest.fixture
def old_home(home):
    lay_database(home)
    add(home, "t1", TaskState.DONE, "r1", "r2")
    add(home, "t2", TaskState.NEEDS_INPUT, "r3")
    return home


def known(home):
    with closing(open_store(home)) as store, store.read() as tx:
        return [name for name in ("t1", "t2") if find_task(tx, name)]


def test_the_kinds_of_the_command_are_those_of_the_service():
    assert [one.value for one in GcKindOption] == [one.value for one in GcKind]


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (2_500_000, "2.5 MB")],
)
def test_sizes_in_words(size, words):
    assert format_bytes(size) == words
    assert format_bytes(10**13) == "10000.0 GB"


def test_a_dry_run_says_what_would_go_and_what_stays(hostler, old_home):
    done = hostler("gc", "--dry-run")
    assert done.code == 0 and done.err == ""
    lines = [line.split() for line in done.out.splitlines()]
    assert ["tasks", "1", "would", "be", "deleted,", "10.0", "kB"] in lines
    assert "1 kept: its task is not finished (t2)" in done.out
    assert "Would delete 1 item, 10.0 kB. Nothing was deleted." in done.out
    assert known(old_home) == ["t1", "t2"]
    assert not (old_home / "logs").exists()


def test_yes_removes_without_asking_and_leaves_a_line_in_the_log(hostler, old_home):
    done = hostler("gc", "--yes")
    assert done.code == 0 and "Deleted 1 item, 10.0 kB." in done.out
    assert "hostler db vacuum" in done.out
    assert known(old_home) == ["t2"]
    (log,) = (old_home / "logs").iterdir()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(one["event"], one["kind"], one["count"]) for one in events] == [
        ("gc_swept", "tasks", 1)
    ]
    assert hostler("gc", "--yes").out.endswith("Deleted 0 items, 0 bytes.\n")


def test_json_for_programs(hostler, old_home):
    said = json.loads(hostler("gc", "--dry-run", "--json").out)
    assert (said["dry_run"], said["older_than_days"]) == (True, 30)
    assert [one["kind"] for one in said["kinds"]] == [kind.value for kind in GcKind]
    done = json.loads(hostler("gc", "--yes", "--json").out)
    by_kind = {one["kind"]: one for one in done["kinds"]}
    (gone,) = by_kind["tasks"]["gone"]
    assert gone["name"] == "t1" and by_kind["tasks"]["bytes"] == gone["bytes"] > 10_000
    (kept,) = by_kind["tasks"]["kept"]
    assert (kept["name"], kept["why"]) == ("t2", "unfinished") and kept["reason"]
    assert done["bytes"] == said["bytes"]


def test_only_some_kinds_and_another_age(hostler, old_home):
    done = hostler("gc", "--only", "runs", "--only", "logs", "--yes", "--json")
    assert [one["kind"] for one in json.loads(done.out)["kinds"]] == ["runs", "logs"]
    assert known(old_home) == ["t1", "t2"]
    assert not (old_home / "projects/stable/tasks/t1/runs/r1").exists()
    assert hostler("gc", "--older-than", "101", "--yes").code == 0
    assert known(old_home) == ["t1", "t2"]
    assert hostler("gc", "--older-than", "99", "--yes").code == 0
    assert known(old_home) == ["t2"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_without_a_terminal_nothing_goes_unless_it_is_said(hostler, old_home, options):
    done = hostler("gc", *options)
    assert done.code == 1 and done.out == ""
    assert "--yes" in done.err and "Nothing was deleted." in done.err
    assert known(old_home) == ["t1", "t2"]


def converse(environment, folder, answer):
    """On a real terminal: what is on the screen after the answer."""
    main, other = pty.openpty()
    child = Started(["gc"], cwd=folder, env=environment, terminal=other)
    os.close(other)
    screen = ""
    while True:
        try:
            screen += os.read(main, 4096).decode()
        except OSError:  # the program has ended
            break
        if screen.endswith("[y/N]: "):
            os.write(main, f"{answer}\n".encode())
    os.close(main)
    return child.wait(30), screen


def test_on_a_terminal_it_shows_what_would_go_and_asks(old_home, environment, tmp_path):
    code, screen = converse(environment, tmp_path, "n")
    assert code == 1 and "Delete 1 item, 10.0 kB?" in screen and "Nothing was deleted" in screen
    assert known(old_home) == ["t1", "t2"]
    code, screen = converse(environment, tmp_path, "y")
    assert code == 0 and "Deleted 1 item" in screen
    assert known(old_home) == ["t2"]
    code, screen = converse(environment, tmp_path, "y")
    assert code == 0 and "Nothing to delete." in screen and "[y/N]" not in screen


def test_it_runs_while_somebody_works_on_the_home(hostler, old_home):
    with home_lock(old_home, SystemClock()):
        assert hostler("gc", "--yes").code == 0
    assert known(old_home) == ["t2"]


@pytest.mark.parametrize(
    "options",
    [("--older-than", "0"), ("--older-than", "soon"), ("--only", "everything"), ("--older-than",)],
)
def test_bad_input_is_one_clear_error(hostler, old_home, options):
    done = hostler("gc", "--yes", *options)
    assert done.code == 2 and "Traceback" not in done.err
    assert known(old_home) == ["t1", "t2"]


def test_a_home_without_a_database_is_not_made(hostler, home):
    done = hostler("gc", "--yes")
    assert done.code == 1 and "hostler db upgrade" in done.err
    assert not (home / "hostler.db").exists()


def test_what_could_not_be_removed_is_an_exit_code(hostler, old_home):
    """Its folder's folder is a link: it is not followed, and the task stays."""
    tasks = old_home / "projects" / "stable" / "tasks"
    elsewhere = old_home / "elsewhere"
    tasks.rename(elsewhere)
    tasks.symlink_to(elsewhere)
    done = hostler("gc", "--yes", "--only", "tasks")
    assert done.code == 1 and "1 kept: it could not be removed (t1)" in done.out
    assert known(old_home) == ["t1", "t2"] and (elsewhere / "t1" / "runs" / "r1").exists()
