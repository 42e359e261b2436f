"""`hostler governor --watch` shows it again when it has changed, and only then."""

from __future__ import annotations

import signal
from contextlib import closing

import pytest
from intake_yard import lay_database

from hostler.governor.holders import prune, read_host
from hostler.governor.leases import publish_demand
from hostler.governor.policy import Policy
from hostler.store import open_store
from hostler_program import Started


@pytest.fixture
def begun(environment, tmp_path):
    started = Started(("governor", "--watch"), cwd=tmp_path, env=environment)
    yield started
    started.kill()
    started.communicate()


@pytest.fixture
def made(home):
    lay_database(home)


@pytest.fixture
def watching(made, begun):
    return begun


def block(started) -> list[str]:
    """Its next lines, up to the one about the machine."""
    lines = []
    while not lines or not lines[-1].startswith("machine:"):
        line = started.stdout.readline()
        assert line, "it has ended"
        lines.append(line.rstrip())
    return lines


def test_it_redraws_when_something_has_changed_and_ends_quietly(watching, home):
    assert block(watching)[0] == "anthropic: 0 of 8 agents, 8 free"
    here = read_host()
    with closing(open_store(home)) as store:
        with store.write("admission") as tx:
            # A commit that changes nothing of it is not shown.
            prune(tx, Policy(), here)
        with store.write("admission") as tx:
            publish_demand(tx, "", "bee", here, wanted=3)
    assert "  bee: 0 in use, 3 more wanted, share 3" in block(watching)
    watching.send_signal(signal.SIGINT)
    assert watching.wait() == 0
    assert watching.stdout.read() == ""


def test_without_a_database_it_says_so_and_waits_for_one(begun, home, hostler):
    assert "No database yet: no agents are running." in block(begun)
    assert hostler("db", "upgrade").code == 0
    assert block(begun)[0] == "anthropic: 0 of 8 agents, 8 free"
    begun.send_signal(signal.SIGINT)
    assert begun.wait() == 0
