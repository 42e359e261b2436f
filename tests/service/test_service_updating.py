"""An update: what the operator named, the check of the new program, and the way back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostler.clock import FakeClock
from hostler.config.settings import Runtime, Settings
from hostler.errors import HomeLocked, StoreOutdated
from hostler.service.opening import entered
from hostler.service.restarting import Inherited, Updater, check_command, inherited
from hostler.store import Patience
from hostler.store.homelock import HomeLock
from hostler.store.migrate import Plan, upgrade
from hostler.store.place import find_place
from hostler.store.revision import REVISIONS
from hostler.store.runtime_operations import find_operation

OK, WARNS, BROKEN = (["sh", "-c", f"exit {code}"] for code in (0, 1, 2))
MISSING = ["/nowhere/at/all"]


class Update:
    """One update, and the steps that were told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[tuple[str, int | None]] = []
        self.said = ""

    def run(self, update, check=OK, rollback=(), **runtime):
        settings = Runtime(
            restart_command=list(update), restart_rollback_command=list(rollback), **runtime
        )
        env = {"PATH": os.environ["PATH"]}
        own = {**env, "GITHUB_TOKEN": "ours"}
        return Updater(settings, check, self.folder, env, own, self.told).update()

    def told(self, step: str, code: int | None, output: str) -> None:
        self.steps.append((step, code))
        self.said += output


@pytest.fixture
def update(tmp_path: Path) -> Update:
    return Update(tmp_path)


def test_without_a_command_the_program_is_only_looked_at(update):
    became = update.run([])
    assert (became.failed, became.replace, update.steps) == ("", True, [("check", 0)])


def test_a_program_that_would_not_start_replaces_nothing(update):
    became = update.run([], BROKEN)
    assert "the old program goes on" in became.failed and not became.replace


@pytest.mark.parametrize("check", [OK, WARNS])
def test_an_update_that_passes_its_check_is_taken(update, check):
    became = update.run(["sh", "-c", "echo done"], check)
    assert (became.failed, became.replace) == ("", True)
    assert [step for step, _ in update.steps] == ["update", "check"] and update.said == "done\n"


@pytest.mark.parametrize(
    ("command", "check"),
    [(BROKEN, OK), (OK, BROKEN), (OK, ["sh", "-c", "kill -9 $$"]), (MISSING, OK), (OK, MISSING)],
)
def test_whatever_fails_is_rolled_back_if_that_can_be(update, tmp_path, command, check):
    mark = tmp_path / "rolled-back"
    # After the way back the program passes again.
    either = ["sh", "-c", f"test -e {mark} || exec {' '.join(map(_quoted, check))}"]
    became = update.run(command, either, ["sh", "-c", f"touch {mark}"])
    assert became.failed.endswith("It was rolled back.") and became.replace
    assert mark.exists() and update.steps[-1] == ("check", 0)


def _quoted(word: str) -> str:
    return f"'{word}'"


@pytest.mark.parametrize("rollback", [(), BROKEN, MISSING])
def test_without_a_way_back_the_old_program_goes_on(update, rollback):
    became = update.run(OK, BROKEN, rollback)
    assert became.failed.endswith("the old program goes on.") and not became.replace


def test_an_update_that_hangs_is_ended(update):
    became = update.run(["sleep", "600"], OK, OK, restart_command_timeout_seconds=1)
    assert update.steps[0] == ("update", None) and became.failed.startswith("The update failed.")


def test_the_update_sees_no_secret_and_our_own_check_does(update):
    update.run(["sh", "-c", "echo update=$GITHUB_TOKEN"], ["sh", "-c", "echo check=$GITHUB_TOKEN"])
    assert update.said == "update=\ncheck=ours\n"


def test_the_check_asks_the_program_on_the_disk_with_the_same_settings(tmp_path):
    asked = check_command(tmp_path / "home", tmp_path / "hostler.toml")
    assert asked[1:3] == ["-m", "hostler"] and asked[-2:] == ["doctor", "--quick"]
    assert str(tmp_path / "home") in asked and str(tmp_path / "hostler.toml") in asked


@pytest.fixture
def old_home(tmp_path: Path) -> Path:
    """A home whose database has the layout of an earlier version."""
    home = tmp_path / "home"
    upgrade(
        home,
        find_place(home),
        clock=FakeClock(),
        patience=Patience(),
        progress=lambda _done, _all: None,
        plan=Plan(to=REVISIONS[-2]),
    )
    return home


def test_after_an_update_the_database_is_brought_up_to_date_under_the_inherited_lock(old_home):
    clock = FakeClock()
    came = Inherited(HomeLock.take(old_home, clock).hand_over(), updated=True)
    with entered(old_home, Settings(), clock, came) as (house, _lock):
        with house.store.read() as tx:
            assert find_operation(tx, "restart") is None
        with pytest.raises(HomeLocked) as refused:
            HomeLock.take(old_home, clock)
        assert refused.value.holder is not None and refused.value.holder.purpose == "service"
        assert list((old_home / "backups").iterdir())
    HomeLock.take(old_home, clock).release()


def test_without_an_update_an_old_database_is_not_touched(old_home):
    clock = FakeClock()
    came = Inherited(HomeLock.take(old_home, clock).hand_over(), updated=False)
    with pytest.raises(StoreOutdated), entered(old_home, Settings(), clock, came):
        pass
    assert not (old_home / "backups").exists()
    # Who could not enter holds nothing.
    HomeLock.take(old_home, clock).release()


def test_a_lock_that_was_not_handed_over_is_refused(old_home):
    clock, came = FakeClock(), Inherited(987, updated=False)
    with pytest.raises(HomeLocked), entered(old_home, Settings(), clock, came):
        pass


def test_what_was_handed_over_is_taken_out_of_the_environment(monkeypatch):
    monkeypatch.setenv("HOSTLER_INHERITED_LOCK", "7")
    monkeypatch.setenv("HOSTLER_UPDATED", "1")
    came = inherited()
    assert came is not None and (came.lock, came.updated) == (7, True)
    assert inherited() is None and "HOSTLER_UPDATED" not in os.environ
    monkeypatch.setenv("HOSTLER_INHERITED_LOCK", "nonsense")
    assert inherited() is None
