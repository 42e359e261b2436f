"""kill -9 in each step of a restart: the next start works and tells once, the lock is free."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from intake_yard import PATIENT
from next_revision import NEXT, OLD, know_next_revision
from restart_bench import BROKEN, OK, Bench, die, ended_by

from hostler import __version__
from hostler.clock import FakeClock
from hostler.config.settings import Settings
from hostler.service.context import lock_and_open
from hostler.service.restart import carry_out_restart
from hostler.store.admin import migrate, revision
from hostler.store.engine.backend import find_place
from hostler.store.engine.locks import HomeLock

KILL = ["sh", "-c", "kill -9 $PPID"]
AT_WORK = f"Hostler {__version__} is running."


@cache
def old_layout() -> bytes:
    """A database that an earlier version has made."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        migrate.upgrade(
            home,
            find_place(home),
            clock=FakeClock(),
            patience=PATIENT,
            progress=lambda _done, _all: None,
            plan=migrate.Plan(to=OLD),
        )
        return (home / "hostler.db").read_bytes()


def die_after(step: str) -> Callable[[str], None]:
    return lambda ended: die() if ended == step else None


def old_program(bench: Bench, **means: Any) -> None:
    """A service of the earlier version that carries a restart out."""
    revision.HEAD = OLD
    lock = HomeLock.take(bench.home, bench.clock)
    with closing(bench.store()) as store:
        bench.begin(store)
        carry_out_restart(bench.means(**means), store, lock, bench.clock, lambda: False)


def new_program(bench: Bench, lock: int, *, migrates: bool) -> None:
    """What takes over by `exec`, up to the kill."""
    revision.HEAD = NEXT
    if not migrates:
        migrate.upgrade_under_lock = die
    with lock_and_open(bench.home, Settings(), bench.clock, lock):
        die()


KILLED = [
    pytest.param({"check": KILL}, "ended before it was replaced", id="look"),
    pytest.param({"become": die}, "", id="ready"),
    pytest.param({"update": KILL}, "before the update was made and checked", id="update"),
    pytest.param(
        {"update": OK, "heard": die_after("update")},
        "before the update was made and checked",
        id="between update and check",
    ),
    pytest.param(
        {"update": OK, "check": KILL}, "before the update was made and checked", id="check"
    ),
    pytest.param(
        {"update": OK, "check": BROKEN, "rollback": KILL},
        "before it was rolled back",
        id="rollback",
    ),
    pytest.param({"update": OK, "become": die}, "", id="before exec"),
]


@pytest.mark.parametrize(("means", "failed"), KILLED)
def test_killed_in_a_step(tmp_path, means, failed, monkeypatch):
    bench = Bench(tmp_path / "home").furnish(old_layout())
    know_next_revision(monkeypatch)
    assert ended_by(partial(old_program, bench, **means)) == signal.SIGKILL
    changes = means.get("update") is not None and "rollback" not in means
    if not changes:
        # Nobody has asked for this version: its owner brings the database up to date.
        with pytest.raises(revision.StoreOutdated):
            bench.next_start()
        by_hand(bench)
    judge(bench, failed)
    assert (bench.home / "backups").exists()


@pytest.mark.parametrize("migrates", [False, True])
def test_killed_after_exec_before_and_after_the_database_was_changed(
    tmp_path, migrates, monkeypatch
):
    bench = Bench(tmp_path / "home").furnish(old_layout())
    know_next_revision(monkeypatch)
    become = partial(new_program, bench, migrates=migrates)
    assert ended_by(partial(old_program, bench, update=OK, become=become)) == signal.SIGKILL
    judge(bench, "")


def test_killed_while_it_drains(tmp_path):
    bench = Bench(tmp_path / "home").furnish()

    def act() -> None:
        lock = HomeLock.take(bench.home, bench.clock)
        with closing(bench.store()) as store:
            bench.ask(store)
            die(lock)

    assert ended_by(act) == signal.SIGKILL
    assert bench.next_start().status == "pending"


def by_hand(bench: Bench) -> None:
    migrate.upgrade(
        bench.home,
        find_place(bench.home),
        clock=bench.clock,
        patience=PATIENT,
        progress=lambda _done, _all: None,
    )


def judge(bench: Bench, failed: str) -> None:
    """The next start works, and has told what happened."""
    found = bench.next_start()
    assert found.status == ("failed" if failed else "done")
    assert failed in found.detail and found.detail.endswith(AT_WORK)
    with closing(bench.store()) as store:
        status, words = bench.answer(store)
    assert status == ("failed" if failed else "applied") and words.endswith(found.detail)
    told = [line for line in bench.told if "estart" in line]
    assert len(told) == 1 and (failed in told[0])
