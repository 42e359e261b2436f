"""One restart: what is stored before which step, a busy database, an `exec` that fails, signals."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from restart_bench import BROKEN, OK, Bench, ended_by

from hostler.errors import StoreBusy
from hostler.service.restart import (
    LOCK_VARIABLE,
    RestartDeps,
    RestartDrain,
    carry_out_restart,
    defer_signals,
    interpreter_arguments,
    judge_restart,
    program_command,
    replace_process,
    take_inherited_lock,
)
from hostler.store import Store
from hostler.store.engine.locks import HomeLock
from hostler.store.operator import Step
from hostler.store.transaction import Transaction


class BusyStore(Store):
    """Refuses the next writes."""

    refusals = 0

    def __init__(self, store: Store) -> None:
        self.__dict__.update(store.__dict__)

    @contextmanager
    def write(self, *scopes: str, relaxed: bool = False) -> Iterator[Transaction]:
        if self.refusals:
            self.refusals -= 1
            raise StoreBusy("somebody", 15.0)
        with super().write(*scopes, relaxed=relaxed) as tx:
            yield tx


class Scene:
    """A restart that runs, the lock, and what the store refuses."""

    def __init__(self, bench: Bench, store: Store) -> None:
        self.bench = bench
        self.store = BusyStore(store)
        self.lock = HomeLock.take(bench.home, bench.clock)
        self.became: list[int] = []
        self.leaving = False

    def restart(self, **means: Any) -> None:
        self.carry_out(self.bench.means(**{"become": self.became.append, **means}))

    def carry_out(self, means: RestartDeps) -> None:
        carry_out_restart(means, self.store, self.lock, self.bench.clock, lambda: self.leaving)

    def row(self) -> tuple[str, str]:
        found = self.bench.operation(self.store)
        return found.status.value, found.detail


@pytest.fixture
def scene(tmp_path) -> Iterator[Scene]:
    bench = Bench(tmp_path / "home").furnish()
    with closing(bench.store()) as store:
        bench.begin(store)
        made = Scene(bench, store)
        yield made
        made.lock.release()


def test_the_program_is_replaced_with_the_lock_and_the_row_says_so(scene):
    scene.restart()
    assert len(scene.became) == 1 and os.get_inheritable(scene.became[0])
    assert scene.row() == ("running", "ready")


def test_an_update_that_passes_is_in_the_row_before_the_program_is_replaced(scene):
    rows = []
    scene.restart(update=OK, become=lambda _: rows.append(scene.row()))
    assert rows == [("running", "updated")]


@pytest.mark.parametrize("refusals", [1, 5])
def test_the_last_word_about_an_update_is_stored_however_long_that_takes(scene, refusals):
    def refuse(_step: str) -> None:
        scene.store.refusals = refusals

    scene.restart(update=OK, check=BROKEN, heard=refuse)
    status, why = scene.row()
    assert status == "failed" and why.startswith("The new version does not pass")
    assert scene.store.refusals == 0 and scene.became == []
    assert scene.bench.answer(scene.store) == ("failed", f"The restart failed: {why}")
    # The program that goes on has nothing else to tell.
    RestartDrain(
        scene.store, scene.bench.service_log(), scene.bench.clock
    ).report_finished_restart()
    assert scene.row() == (status, why)


def test_a_busy_database_lets_no_step_begin(scene, tmp_path):
    ran = tmp_path / "ran"
    scene.store.refusals = 10_000
    scene.leaving = True
    scene.restart(update=["touch", str(ran)])
    assert not ran.exists() and scene.became == []
    scene.store.refusals = 0
    assert scene.row() == ("running", "")


def test_whoever_is_asked_to_leave_before_the_end_is_not_replaced(scene):
    scene.leaving = True
    scene.restart()
    assert scene.became == [] and scene.row() == ("running", "ready")


def test_a_program_that_cannot_be_started_is_told_of_and_the_lock_stays(scene):
    before = signal.getsignal(signal.SIGTERM)
    means = replace(scene.bench.means(), become=replace_process, again=["/nowhere/python"])
    scene.carry_out(means)
    status, why = scene.row()
    assert status == "failed" and "could not be started (No such file or directory)" in why
    assert not os.get_inheritable(scene.lock._file.fileno())
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_secret_in_a_plain_variable_stops_the_update_and_nothing_else(scene):
    secret = {"GITHUB_TOKEN": "12345678secret", "LANG": "12345678secret"}
    means = replace(scene.bench.means(update=OK), environment=secret)
    scene.carry_out(means)
    status, why = scene.row()
    assert status == "failed" and "LANG" in why and "12345678secret" not in why


@given(st.sampled_from([None, *Step]))
def test_only_what_was_asked_for_and_happened_is_done(step):
    done, words = judge_restart(step, "1.2")
    assert done == (step in (Step.READY, Step.UPDATED))
    assert words.endswith("Hostler 1.2 is running.") and done == (
        words == "Hostler 1.2 is running."
    )


# -- how the next program is called ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("whole", "ours", "found"),
    [
        (["python", "-m", "hostler", "service"], ["/x/__main__.py", "service"], ["-m", "hostler"]),
        (["python", "-I", "-m", "hostler"], ["/x/__main__.py"], ["-I", "-m", "hostler"]),
        (["python", __file__, "--home", "x"], [__file__, "--home", "x"], [__file__]),
        (["python", "/gone", "--home", "x"], ["/gone", "--home", "x"], ["-m", "hostler"]),
    ],
)
def test_the_next_program_is_called_as_we_were(whole, ours, found):
    assert interpreter_arguments(whole, ours) == found


def test_a_script_is_called_by_its_whole_path(tmp_path, monkeypatch):
    (tmp_path / "hostler").touch()
    monkeypatch.chdir(tmp_path)
    words = ["hostler", "service"]
    assert interpreter_arguments(["python", *words], words) == [str(tmp_path / "hostler")]


def test_the_program_is_called_for_the_same_home_and_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", __file__, "--config", "x", "service"])
    monkeypatch.setattr(sys, "argv", [__file__, "--config", "x", "service"])
    home, config = tmp_path / "home", tmp_path / "hostler.toml"
    plain = [sys.executable, __file__, "--home", str(home)]
    assert program_command(home, None) == plain
    assert program_command(home, config, debug=True) == [*plain, "--config", str(config), "--debug"]


def test_what_was_handed_over_is_taken_out_of_the_environment(monkeypatch):
    monkeypatch.setenv(LOCK_VARIABLE, "7")
    assert take_inherited_lock() == 7
    assert take_inherited_lock() is None and LOCK_VARIABLE not in os.environ
    monkeypatch.setenv(LOCK_VARIABLE, "nonsense")
    assert take_inherited_lock() is None


# -- signals --------------------------------------------------------------------------------------


def test_a_signal_while_we_are_replaced_waits_for_the_next():
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with defer_signals():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)
            assert signal.SIGTERM in signal.sigpending() and heard == []
        # Nobody took over: it is ours after all.
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_that_another_thread_gets_is_not_lost():
    def act() -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        with defer_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(30)

    assert ended_by(act) == signal.SIGTERM
