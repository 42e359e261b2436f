"""The real programs on a real terminal, and without one."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from intake_yard import migrated
from service_program import Program
from service_town import PLAY, github
from tui_pane import Pane, kill

from hostler.store import open_store
from hostler.store.engine.locks import who_works
from hostler.store.schema import poll_cursors
from hostler.tui.terminal import supports_cursor

STUBBORN = "version = 1\nsteps = [{ ignore_sigterm = true }, { say = 'here' }, { hang = 600 }]\n"
HANG = "version = 1\nsteps = [{ say = 'here' }, { hang = 600 }]\n"


@pytest.fixture
def pane() -> Iterator[Pane]:
    made = Pane()
    yield made
    made.close()


@pytest.fixture
def program(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Program]]:
    del environment["TERM"]
    with ExitStack() as stack:

        def make(play: str = PLAY) -> Program:
            hub = stack.enter_context(github())
            made = Program(hub, tmp_path, play, environment)
            stack.callback(made.clean)
            return made

        yield make


def console(town: Program, pane: Pane, *more: str):
    started = pane.start(town.argv("console", *more)[1:], town.root, town.environment)
    town.services.append(started)
    return started


def cursors(town: Program) -> list[tuple]:
    store = open_store(town.home)
    try:
        with store.read() as tx:
            return sorted(map(tuple, tx.execute(poll_cursors.select())), key=repr)
    finally:
        store.close()


def none_went_back(before: list[tuple], after: list[tuple]) -> bool:
    """Whether every cursor is still there, and none behind where it was."""
    present = {row[:3]: row[3:5] for row in after}
    return all(row[:3] in present and present[row[:3]] >= row[3:5] for row in before)


# -- no terminal, and one that cannot be drawn on -------------------------------------------------


@pytest.mark.parametrize("command", ["top", "console"])
def test_without_a_terminal_it_says_so_and_ends_with_2(hostler, command, home):
    done = hostler(command, env={"TERM": "xterm"})
    assert done.code == 2 and done.out == ""
    assert f"`hostler {command}` requires an interactive terminal" in done.err
    assert "Traceback" not in done.err
    assert not home.exists()


@pytest.mark.parametrize(("term", "able"), [("xterm", True), ("dumb", False), ("", False)])
def test_which_terminals_can_be_drawn_on(term, able):
    assert supports_cursor({"TERM": term}) is able
    assert not supports_cursor({})


def test_a_dumb_terminal_gets_the_panels_once_as_text(pane, home, tmp_path, environment):
    home.mkdir()
    (home / "hostler.db").write_bytes(migrated())
    started = pane.start(["top"], tmp_path, environment)
    assert pane.ended(started) == 0
    assert "No agents running." in pane.shown and "History of 24h" in pane.shown
    assert "\x1b" not in pane.shown


# -- top ------------------------------------------------------------------------------------------


def test_top_goes_on_without_a_database_and_shows_it_when_it_comes(
    pane, home, tmp_path, environment
):
    del environment["TERM"]
    started = pane.start(["top"], tmp_path, environment)
    pane.until("There is no database yet")
    home.mkdir()
    (home / "hostler.db").write_bytes(migrated())
    pane.until("No agents running.")
    before = pane.type("?")
    pane.until("this help", before)
    pane.type("q")
    assert pane.ended(started) == 0
    assert pane.is_as_it_was()
    assert not list(home.glob("service.lock")) and not (home / "logs").exists()


@pytest.mark.parametrize("colours", [True, False], ids=["colours", "none"])
def test_colours_and_none_and_a_signal(pane, home, tmp_path, environment, colours):
    del environment["TERM"]
    more = {} if colours else {"NO_COLOR": "1"}
    started = pane.start(["top"], tmp_path, {**environment, **more})
    pane.until("There is no database yet")
    # Eight colours, their bright sisters, and all others; bold, dim and reverse are none.
    found = re.findall(r"\x1b\[(?:\d+;)*(?:[34][0-8]|9\d|10\d)[;m]", pane.shown)
    assert bool(found) is colours
    started.send_signal(signal.SIGTERM)
    assert pane.ended(started) == 128 + signal.SIGTERM
    assert pane.is_as_it_was()


# -- console --------------------------------------------------------------------------------------


def test_a_console_works_and_leaves_as_a_service_does(program, pane):
    town = program()
    town.files("Notes \x1b[31mred", "agent:small-job")
    started = console(town, pane)
    pane.until("in review, pull request #2")
    assert "\x1b[31mred" not in pane.shown
    second = town.call("service")
    assert second.returncode == 1 and f"pid {started.pid}" in second.stderr
    kept = cursors(town)
    assert kept
    pane.type("\x03")
    assert pane.ended(started) == 0
    assert pane.is_as_it_was() and "Stopped." in pane.shown.rpartition("\x1b[?1049l")[2]
    assert none_went_back(kept, cursors(town))
    # All of it is in the log of the home, and nothing else was printed.
    log = "".join(file.read_text() for file in (town.home / "logs").iterdir())
    assert '"service_started"' in log and '"service_left"' in log


def test_a_killed_console_loses_nothing(program, pane):
    town = program()
    number = town.files("Notes", "agent:small-job")
    started = console(town, pane)
    pane.until("small job: running")
    kill(started)
    before = cursors(town)
    service = town.start()
    town.until(lambda: [one.pr_number for one in town.tasks()] == [2])
    assert before and none_went_back(before, cursors(town))
    town.end(service)
    alice = town.hub.client("alice")
    assert [p["number"] for p in alice.get("/repos/alice/stable/pulls").json()] == [2]
    comments = alice.get(f"/repos/alice/stable/issues/{number}/comments").json()
    assert len(comments) == len({one["body"] for one in comments})


def test_a_closed_terminal_is_a_clean_end_and_agents_go_on(program, pane):
    town = program(HANG)
    town.files("Notes", "agent:small-job")
    started = pane.start_as_its_own(town.argv("console")[1:], town.root, town.environment)
    try:
        pane.until("small job: running")
        town.until(lambda: [run for run in town.live() if run.state == "running"])
        kept = cursors(town)
        pane.hang_up()
        assert started.wait(60) == 0
    finally:
        kill(started)
    assert who_works(town.home) is None
    assert [run.state for run in town.live()] == ["running"]
    assert kept and none_went_back(kept, cursors(town))
    log = "".join(file.read_text() for file in (town.home / "logs").iterdir())
    assert '"service_left"' in log and "Traceback" not in log


def test_a_second_signal_leaves_at_once_and_gives_the_terminal_back(program, pane):
    town = program(STUBBORN)
    town.config.write_text(town.settings().replace("grace_seconds = 2", "grace_seconds = 3600"))
    town.files("Notes", "agent:small-job")
    started = console(town, pane, "--stop-agents")
    pane.until("small job: running")
    town.until(lambda: [r for r in town.live() if r.state == "running" and r.stdout_offset])
    pane.type("q")
    pane.until("Ctrl-C again")
    started.send_signal(signal.SIGINT)
    assert pane.ended(started) == 130
    assert pane.is_as_it_was()


def test_a_task_is_stopped_from_the_console(program, pane):
    town = program(HANG)
    town.files("Notes", "agent:small-job")
    started = console(town, pane)
    pane.until("small job: running")
    town.until(lambda: [run for run in town.live() if run.state == "running"])
    pane.until("▸")
    pane.type("s")
    pane.until("Stop this task?")
    pane.type("y")
    town.until(lambda: [task for task in town.tasks() if task.state == "stopped"])
    pane.until("stopped")
    pane.type("q")
    assert pane.ended(started) == 0


@pytest.mark.soak
def test_a_restart_brings_the_screen_back(program, pane):
    """Two starts of a program that is not loaded: too dear for every day."""
    town = program()
    started = console(town, pane)
    pane.until("No agents running.")
    assert town.call("service", "restart").returncode == 0
    pane.until("Restarted: Hostler")
    pane.until("No agents running.", pane.shown.rindex("\x1b[?1049h"))
    pane.type("q")
    assert pane.ended(started) == 0
