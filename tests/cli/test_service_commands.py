"""`hostler service` and `hostler run`, as a person starts and ends them."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from service_program import Program
from service_town import PLAY, github

HANG = "version = 1\nsteps = [{ say = 'here' }, { hang = 600 }]\n"
STUBBORN = "version = 1\nsteps = [{ ignore_sigterm = true }, { say = 'here' }, { hang = 600 }]\n"


@pytest.fixture
def program(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[[str], Program]]:
    with ExitStack() as stack:

        def make(play: str = PLAY) -> Program:
            hub = stack.enter_context(github())
            made = Program(hub, tmp_path, play, environment)
            stack.callback(made.clean)
            return made

        yield make


def test_a_service_works_until_it_is_asked_to_leave(program):
    town = program()
    number = town.files("Notes", "agent:small-job")
    service = town.start()
    said = town.heard(service, "in review, pull request")
    assert "Watching alice/stable" in said
    assert f"alice/stable#{number}  small job: running" in said
    assert "Stopped." in town.end(service)
    assert service.returncode == 0


def test_leaving_lets_agents_go_on_and_the_next_start_takes_over(program):
    town = program(HANG)
    town.files("Notes", "agent:small-job")
    service = town.start()
    town.heard(service, "running")
    (run,) = town.until(lambda: [r for r in town.live() if r.state == "running"])
    said = town.end(service)
    assert "1 agent keeps running; the next start takes over." in said
    assert service.returncode == 0
    assert [r.state for r in town.live()] == ["running"]
    again = town.start("service", "--stop-agents")
    town.heard(again, "Watching")
    log = next((town.home / "logs").glob("*.jsonl"))
    town.until(lambda: "run_adopted" in log.read_text())
    assert "Stopped." in town.end(again)
    assert town.live() == []
    (task,) = town.tasks()
    # A stop because we leave is no stop of the task.
    assert (task.state, task.attempt) == ("queued", 0)
    assert run.task_id == task.id


def test_a_second_signal_leaves_at_once(program):
    town = program(STUBBORN)
    town.config.write_text(town.settings().replace("grace_seconds = 2", "grace_seconds = 3600"))
    town.files("Notes", "agent:small-job")
    service = town.start("service", "--stop-agents")
    town.heard(service, "running")
    town.until(lambda: [r for r in town.live() if r.state == "running" and r.stdout_offset])
    service.send_signal(signal.SIGINT)
    town.until(lambda: [r for r in town.live() if r.stop_why])
    assert service.poll() is None
    town.end(service, signal.SIGINT)
    assert service.returncode == 130
    assert len(town.live()) == 1


def test_one_service_per_home(program):
    town = program()
    service = town.start()
    town.heard(service, "Watching")
    second = town.call("service")
    assert second.returncode == 1
    assert f"pid {service.pid}" in second.stderr
    assert "Traceback" not in second.stderr
    assert town.end(service)


def test_a_dry_run_says_what_would_happen_and_writes_nothing(program):
    town = program()
    (town.home / "hostler.db").unlink()
    bug = town.files("It breaks", "agent:bugfix")
    other = town.files("No label")
    looked = town.call("service", "--dry-run")
    assert looked.returncode == 0, looked.stderr
    assert "alice/stable" in looked.stdout
    lines = {line.split()[0]: line for line in looked.stdout.splitlines()[1:]}
    assert "bugfix" in lines[f"#{bug}"]
    assert " - " in lines[f"#{other}"]
    assert list(town.home.glob("*.db")) == []
    answer = json.loads(town.call("service", "--dry-run", "--json").stdout)
    (repo,) = answer["repositories"]
    assert [(i["number"], i["flow"]) for i in repo["issues"]] == [(bug, "bugfix"), (other, None)]
    comments = town.hub.client("alice").get(f"/repos/alice/stable/issues/{bug}/comments")
    assert comments.json() == []


def test_one_issue_now_without_a_service(program):
    town = program()
    number = town.files("No label at all")
    done = town.call("run", f"alice/stable#{number}")
    assert done.returncode == 0, done.stderr
    assert "in review, pull request #2" in done.stdout
    pulls = town.hub.client("alice").get("/repos/alice/stable/pulls").json()
    assert [pull["number"] for pull in pulls] == [2]


def test_one_issue_now_with_a_service_at_work(program):
    town = program()
    service = town.start()
    town.heard(service, "Watching")
    number = town.files("No label at all")
    done = town.call("run", f"alice/stable#{number}", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["state"], answer["flow"]) == ("awaiting_feedback", "small_job")
    assert f"pid {service.pid}" in done.stderr
    assert town.end(service)


def test_one_issue_goes_on_here_when_the_service_leaves(program):
    town = program(HANG)
    service = town.start()
    town.heard(service, "Watching")
    number = town.files("No label at all")
    run = town.start("run", f"alice/stable#{number}")
    town.heard(run, "is running and will do the work")
    (agent,) = town.until(lambda: [r for r in town.live() if r.state == "running"])
    town.end(service)
    log = next((town.home / "logs").glob("*.jsonl"))
    town.until(lambda: "run_adopted" in log.read_text(), "the run to be taken over")
    # The same agent, not another one.
    assert [found.run for found in town.live()] == [agent.run] and run.poll() is None
    town.end(run)


def test_nobody_who_reads_is_no_reason_to_leave(program):
    town = program()
    number = town.files("Notes", "agent:small-job")
    service = town.start()
    town.heard(service, "Watching")
    service.stdout.close()
    town.until(lambda: [t for t in town.tasks() if t.state == "awaiting_feedback"])
    assert service.poll() is None
    service.send_signal(signal.SIGTERM)
    assert service.wait(60) == 0
    assert number


def test_one_issue_that_ends_with_a_question(program):
    town = program("version = 1\nsteps = [{ ask = 'Which colour?' }]\n")
    number = town.files("Paint it")
    done = town.call("run", f"alice/stable#{number}")
    assert done.returncode == 3
    assert "needs answer. Which colour?" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nonsense"], "names no issue"),
        (["run", "alice/stable#0"], "names no issue"),
        (["run", "alice/other#1"], "is not watched"),
        (["run", "alice/stable#999"], "does not exist"),
        (["run", "alice/stable#1", "--flow", "magic"], "Unknown flow"),
        (["service", "--json"], "--dry-run"),
    ],
)
def test_bad_input_gets_one_clear_message(program, words, message):
    town = program()
    said = town.call(*words)
    assert said.returncode != 0
    assert message in said.stderr
    assert "Traceback" not in said.stderr


def test_settings_without_a_repository_or_an_agent(program):
    town = program()
    town.config.write_text("[runtime]\nworker_count = 2\n")
    said = town.call("service")
    assert (said.returncode, "No repository" in said.stderr) == (1, True)
