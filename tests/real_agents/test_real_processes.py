"""However a real program ends, nothing that it started is left."""

from __future__ import annotations

import json
import os
import signal

import psutil
import pytest
from model_api import Hang, Shell, Text
from real_agents_fixture import WORK

from hostler.store.tasks import TaskState

KINDS = ("claude", "codex", "gemini", "opencode")


class Workshop:
    """A command that starts others, also in a session of their own, and does not end."""

    def __init__(self, folder):
        self.gate = folder / "gate"
        os.mkfifo(self.gate)
        # Each says its number when it is there.
        one = f"sh -c 'echo $$ > {self.gate}; exec tail -f /dev/null' </dev/null >/dev/null 2>&1"
        # Not at the beginning: gemini takes a first `sh -c` away.
        self.command = Shell(f"true; {one} & setsid {one} & {one}")

    def workers(self):
        """Their numbers, when all are at work."""
        # Open for both: a reader alone would see the end whenever no writer is there.
        with os.fdopen(os.open(self.gate, os.O_RDWR), "rb", buffering=0) as gate:
            return {int(gate.readline()) for _ in range(3)}


def at_work(real, service):
    """A run whose command has started all that it starts."""
    workshop = Workshop(real.town.root)
    real.api.play(workshop.command)
    issue = real.file()
    service.poll()
    workers = workshop.workers()
    (run,) = service.runs(service.task(issue))
    assert workers < set(real.alive(run))
    return issue, run


def stored_shim(run):
    return psutil.Process(json.loads(run.shim)["pid"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_in_the_middle_of_a_command_leaves_nothing(kind, live_in, hostler):
    real = live_in(kind)
    with real.town.service() as service:
        issue, run = at_work(real, service)
        assert hostler("task", "stop", run.task_id).code == 0
        task = real.reach(service, issue, TaskState.STOPPED)
        (run,) = real.until_runs(service, task, 1)
        assert run.outcome == "interrupted" and not real.alive(run)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_while_the_model_is_silent_leaves_nothing(kind, live_in, hostler):
    real = live_in(kind)
    real.api.play(Hang())
    with real.town.service() as service:
        issue = real.file()
        service.poll()
        real.api.until_asked(1)
        (run,) = service.runs(service.task(issue))
        assert hostler("task", "stop", run.task_id).code == 0
        task = real.reach(service, issue, TaskState.STOPPED)
        (run,) = real.until_runs(service, task, 1)
        assert run.outcome == "interrupted" and not real.alive(run)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("victim", ["leader", "shim"])
def test_a_crash_leaves_nothing_and_the_work_is_done_by_the_next(kind, victim, live_in):
    real = live_in(kind)
    with real.town.service() as service:
        issue, run = at_work(real, service)
        real.api.play(WORK, Text("The notes are there."))
        shim = stored_shim(run)
        (leader,) = shim.children()
        os.kill((leader if victim == "leader" else shim).pid, signal.SIGKILL)
        task = real.reach(service, issue, TaskState.AWAITING_FEEDBACK)
        crashed, *refused, worked = real.until_idle(service, task)
        assert (crashed.outcome, worked.outcome) == ("crash", "success")
        # Killed before it saved its conversation, it is asked once for one that does not exist.
        assert [run.outcome for run in refused] in ([], ["config"])
        assert not real.alive(crashed) and not real.alive(worked)
