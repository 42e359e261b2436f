"""Tasks by hand on real processes: the restart loop, DONE, children, repositories."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from service_town import ALICE, BOB, REPO, Service, Town

from hostler.bus.bus import open_task_bus
from hostler.store.tasks import Task, TaskState, require_task
from hostler.workflows import commands
from hostler.workflows.manual_tasks import TaskSubmission, submit_task
from hostler_program import HOSTLER

SCOPES = ("admission", "tasks", "outbox")


def agent(town: Town, text: str) -> None:
    """An agent that is a program of ours: one Python file."""
    program = town.root / "agent.py"
    program.write_text(f"import os, pathlib, subprocess, sys, time\n{text}")
    town.agent = {"kind": "command", "command": [sys.executable, str(program)]}


def order(town: Town, prompt: str = "Tidy up.", **more: object) -> TaskSubmission:
    folder = town.root / "folder"
    folder.mkdir(exist_ok=True)
    return TaskSubmission("yard", prompt, "ann", **{"cwd": str(folder), **more})


def put(service: Service, wanted: TaskSubmission) -> Task:
    with service.app.store.write(*SCOPES) as tx:
        return submit_task(tx, wanted)


def reach(service: Service, task: Task, *states: TaskState) -> Task:
    """The task, when it is in one of these states and at rest."""

    def seen() -> Task | None:
        with service.app.store.read() as tx:
            found = require_task(tx, task.id)
        return found if found.state in states else None

    found = service.until(seen, f"{task.id} {states}")
    service.rested()
    return found


def outcomes(service: Service, task: Task) -> list[str | None]:
    return [run.outcome for run in service.runs(task)]


def task_dir(town: Town, task: Task) -> Path:
    return town.home / "projects" / task.project / "tasks" / task.id


SAY_DONE = "pathlib.Path(os.environ['HOSTLER_DONE']).touch()\n"


def test_a_task_in_a_folder_is_done_when_it_says_so(town):
    agent(town, "pathlib.Path('made').write_text(sys.stdin.read())\n" + SAY_DONE)
    with town.service() as service:
        done = reach(service, put(service, order(town, "Make it.")), TaskState.DONE)
        assert outcomes(service, done) == ["success"]
        prompt = (town.root / "folder" / "made").read_text()
        assert prompt.startswith("# Your task\n\nMake it.")
        assert (task_dir(town, done) / "TASK.md").read_text() == "Make it.\n"
        # A finished task burns no restart.
        assert done.attempt == 1


def test_an_agent_finds_the_installed_program_on_its_path(town, agent_commands, monkeypatch):
    # The other tests give agents a `hostler` that needs no time to load.
    monkeypatch.setenv("PATH", os.environ["PATH"].removeprefix(f"{agent_commands}:"))
    post = "subprocess.run(['hostler', 'bus', 'post', 'Here.'], check=True)\n"
    found = "pathlib.Path('found').write_text(shutil.which('hostler'))\n"
    agent(town, f"import shutil\n{found}{post}{SAY_DONE}")
    with town.service() as service:
        done = reach(service, put(service, order(town)), TaskState.DONE)
        assert (town.root / "folder" / "found").read_text() == HOSTLER
        page = open_task_bus(town.home, done.project, done.id).since()
        assert "Here." in [message.body for message in page]


def test_exits_without_done_are_started_again_and_then_asked_about(town):
    agent(town, "pass\n")
    with town.service() as service:
        asked = reach(service, put(service, order(town)), TaskState.NEEDS_INPUT)
        assert outcomes(service, asked) == ["success"] * 3
        assert "3 times without progress" in asked.question


def test_progress_keeps_the_loop_going_and_the_prompt_says_what_was(town):
    agent(
        town,
        "n = len(list(pathlib.Path('.').glob('part*')))\n"
        "pathlib.Path(f'part{n}').write_text(sys.stdin.read())\n"
        "if n == 4: " + SAY_DONE + "sys.exit(0 if n % 2 else 1)\n",
    )
    with town.service() as service:
        done = reach(service, put(service, order(town)), TaskState.DONE)
        assert outcomes(service, done) == ["crash", "success", "crash", "success", "success"]
        folder = town.root / "folder"
        assert "How the last attempts ended" not in (folder / "part0").read_text()
        assert "Attempt 1 ended as crash" in (folder / "part1").read_text()


def test_done_before_the_first_attempt_starts_no_agent(town):
    agent(town, "pathlib.Path('made').touch()\n")
    marked: list[Task] = []

    def mark(step: str, _run: str) -> None:
        if step == "admitted":
            folder = task_dir(town, marked[0])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "DONE").touch()

    with town.service(mark) as service:
        with service.app.store.write(*SCOPES) as tx:
            marked.append(submit_task(tx, order(town)))
        done = reach(service, marked[0], TaskState.DONE)
        assert not (town.root / "folder" / "made").exists()
        assert done.reason == "A DONE file marked it as done."
        (run,) = service.runs(done)
        # It says what happened: nobody asked for its end, and there was no agent.
        assert (run.outcome, run.why) == ("success", "A DONE file marked it as done.")
        assert run.stop_why is None and not run.counted


@pytest.mark.parametrize("when", ["before", "after"])
def test_done_as_a_directory_is_an_error(town, when):
    agent(town, "os.mkdir(os.environ['HOSTLER_DONE'])\n")
    with town.service() as service:
        with service.app.store.write(*SCOPES) as tx:
            task = submit_task(tx, order(town))
            if when == "before":
                (task_dir(town, task) / "DONE").mkdir(parents=True)
        failed = reach(service, task, TaskState.FAILED)
        assert "DONE must be a regular file" in failed.reason
        assert sum(run.counted for run in service.runs(failed)) == (when == "after")


def test_attempts_come_to_an_end(town):
    agent(town, "pathlib.Path(str(time.time_ns())).touch()\nsys.exit(3)\n")
    with town.service() as service:
        failed = reach(service, put(service, order(town, max_restarts=4)), TaskState.FAILED)
        assert outcomes(service, failed) == ["crash"] * 4
        assert "4 times" in failed.reason


def test_a_stop_is_a_stop_and_a_resume_goes_on(town):
    agent(
        town,
        "p = pathlib.Path('second')\n"
        "if not p.exists():\n"
        "    p.touch(); print('here', flush=True); time.sleep(600)\n" + SAY_DONE,
    )
    with town.service() as service:
        task = put(service, order(town))
        service.until(lambda: [r for r in service.runs(task) if r.stdout_offset])
        with service.app.store.write(*SCOPES) as tx:
            commands.stop_task(tx, require_task(tx, task.id), "ann")
        stopped = reach(service, task, TaskState.STOPPED)
        assert outcomes(service, stopped) == ["interrupted"]
        service.poll()
        service.rested()
        with service.app.store.write(*SCOPES) as tx:
            assert require_task(tx, task.id).state is TaskState.STOPPED
            commands.resume_task(tx, require_task(tx, task.id), "ann")
        done = reach(service, task, TaskState.DONE)
        assert outcomes(service, done) == ["interrupted", "success"]


def test_a_missing_folder_and_a_missing_program_are_said(town):
    agent(town, "pass\n")
    with town.service() as service:
        lost = put(service, order(town, cwd=str(town.root / "nowhere")))
        parked = reach(service, lost, TaskState.PARKED)
        assert "nowhere does not exist" in parked.reason


def test_variables_of_the_task_are_seen_and_ours_are_not(town, monkeypatch):
    monkeypatch.setenv("WANTED", "yes")
    monkeypatch.setenv("UNWANTED", "no")
    agent(town, "pathlib.Path('env').write_text(repr(dict(os.environ)))\n" + SAY_DONE)
    with town.service() as service:
        reach(service, put(service, order(town, env=("WANTED",))), TaskState.DONE)
        seen = (town.root / "folder" / "env").read_text()
        assert "'WANTED': 'yes'" in seen and "UNWANTED" not in seen


def test_work_in_a_repository_comes_as_a_pull_request(town):
    with town.service() as service:
        wanted = TaskSubmission("stable", "Write notes.\n\nMany.", "ann", repo_full_name=REPO)
        task = reach(service, put(service, wanted), TaskState.AWAITING_FEEDBACK)
        alice, bob = town.person(ALICE), town.person(BOB)
        (pull,) = alice.pulls()
        assert pull["head"]["ref"] == f"agent/task/{task.id}"
        assert "#0" not in pull["body"] and "Fixes" not in pull["body"]
        bob.remark(pull["number"], "Please count.")
        service.poll()
        service.until(lambda: len(bob.remarks(pull["number"])) == 2)
        service.rested()
        bob.merge(pull["number"])
        service.poll()
        reach(service, task, TaskState.DONE)
