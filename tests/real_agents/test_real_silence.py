"""A real program that says nothing any more is ended; one whose command says nothing is not."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from model_api import Hang, Shell, Text
from real_agents_fixture import DONE, NOTES
from test_real_processes import stored_shim

from hostler.agents.assignment import Launch
from hostler.store.tasks import TaskState

KINDS = ("claude", "codex")
SERVER = str(Path(__file__).with_name("silent_server.py"))
SILENCE = 10


@pytest.fixture
def impatient(monkeypatch):
    """A limit in seconds, where settings know minutes."""
    limited = Launch.limited

    def shorter(launch, limits, *further):
        return limited(launch, replace(limits, silence_seconds=SILENCE), *further)

    monkeypatch.setattr(Launch, "limited", shorter)


@pytest.fixture
def with_server(live_in):
    """A town whose agent keeps a server."""

    def live(kind):
        servers = {"mcpServers": {"quiet": {"command": sys.executable, "args": [SERVER]}}}
        agent = {"extra_args": ["--mcp-config", json.dumps(servers)]} if kind == "claude" else {}
        real = live_in(kind, agent)
        if kind == "codex":
            with (real.user / ".codex/config.toml").open("a") as config:
                words = json.dumps([SERVER])
                config.write(f'[mcp_servers.quiet]\ncommand = "{sys.executable}"\nargs = {words}\n')
        return real

    return live


def servers_below(run):
    return [one for one in stored_shim(run).children(recursive=True) if SERVER in _words(one)]


def _words(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_whose_model_is_silent_stalls_whatever_it_keeps(kind, with_server, impatient):
    real = with_server(kind)
    real.api.play(Hang())
    with real.town.service() as service:
        issue = real.file()
        service.poll()
        real.api.until_asked(1)
        (run,) = service.runs(service.task(issue))
        assert servers_below(run)
        real.api.play(Shell(f"{NOTES} && {DONE}"), Text("Done."))
        task = real.reach(service, issue, TaskState.AWAITING_FEEDBACK)
        stalled, *refused, worked = real.until_idle(service, task)
        assert (stalled.outcome, worked.outcome) == ("stalled", "success")
        # Stopped before it saved its conversation, it is asked once for one that does not exist.
        assert [run.outcome for run in refused] in ([], ["config"])
        assert not real.alive(stalled)


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_whose_command_is_silent_is_waited_for(kind, with_server, impatient):
    real = with_server(kind)
    real.api.play(Shell(f"sleep {2 * SILENCE} && {NOTES} && {DONE}"), Text("Done."))
    with real.town.service() as service:
        issue = real.file()
        service.poll()
        task = real.reach(service, issue, TaskState.AWAITING_FEEDBACK)
        (run,) = real.until_runs(service, task, 1)
        assert run.outcome == "success"
