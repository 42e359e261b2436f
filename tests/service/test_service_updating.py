"""An update: what the operator named, the check of the new program, and the way back."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from restart_bench import BROKEN, OK, WARNS, play

from hostler.checkouts.process import ChildProcess, TailBuffer
from hostler.config.settings import Runtime
from hostler.service.restart import CHECK_SECONDS, Updater, max_update_seconds
from hostler.store.operator import Step

MISSING = ["/nowhere/at/all"]


class Update:
    """One update, the commands that were told, and the steps that were begun."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begun: list[Step] = []
        self.steps: list[tuple[str, int | None]] = []
        self.said = ""
        # What the program says each time that it is asked, if that differs.
        self.checks: list[list[str]] = []

    def play(self, child: ChildProcess, out: TailBuffer) -> int | None:
        answer = self.checks.pop(0) if child.argv == ["asked"] else child.argv
        return play(replace(child, argv=answer), out)

    def run(self, update, check=OK, rollback=(), **runtime):
        settings = Runtime(
            restart_command=list(update), restart_rollback_command=list(rollback), **runtime
        )
        env = {"PATH": os.environ["PATH"]}
        own = {**env, "GITHUB_TOKEN": "ours"}
        begins = self.begun.append
        return Updater(
            settings, check, self.folder, env, own, begins, self.told, self.play
        ).update()

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
    assert "the old program keeps running" in became.failed and not became.replace


@pytest.mark.parametrize("check", [OK, WARNS])
def test_an_update_that_passes_its_check_is_taken(update, check):
    became = update.run(OK, check)
    assert (became.failed, became.replace) == ("", True)
    assert [step for step, _ in update.steps] == ["update", "check"]


@pytest.mark.parametrize(("command", "check"), [(BROKEN, OK), (OK, BROKEN), (MISSING, OK)])
def test_whatever_fails_is_rolled_back_if_that_can_be(update, command, check):
    update.checks = [check, OK] if check is BROKEN else [OK]
    became = update.run(command, ["asked"], OK)
    assert became.failed.endswith("It was rolled back.") and became.replace
    assert update.steps[-2:] == [("rollback", 0), ("check", 0)]


@pytest.mark.parametrize("check", [["sh", "-c", "kill -9 $$"], MISSING])
def test_a_program_that_cannot_be_asked_is_not_taken(update, check):
    assert not update.run(OK, check).replace


@pytest.mark.parametrize("rollback", [(), BROKEN, MISSING])
def test_without_a_way_back_the_old_program_goes_on(update, rollback):
    became = update.run(OK, BROKEN, rollback)
    assert became.failed.endswith("the old program keeps running.") and not became.replace


def test_an_update_that_hangs_is_ended(update):
    became = update.run(["sleep", "600"], OK, OK, restart_command_timeout_seconds=1)
    assert update.steps[0] == ("update", None) and became.failed.startswith("The update failed.")


@pytest.mark.parametrize(
    ("update_", "check", "rollback", "begun"),
    [
        ((), OK, (), [Step.LOOK, Step.READY]),
        ((), BROKEN, (), [Step.LOOK]),
        (OK, OK, (), [Step.UPDATE, Step.UPDATED]),
        (OK, BROKEN, (), [Step.UPDATE]),
        (BROKEN, OK, OK, [Step.UPDATE, Step.ROLLBACK]),
        (OK, BROKEN, OK, [Step.UPDATE, Step.ROLLBACK]),
    ],
)
def test_each_step_is_named_before_it_is_begun(update, update_, check, rollback, begun):
    update.run(update_, check, rollback)
    assert update.begun == begun


def test_a_step_that_cannot_be_named_is_not_begun(tmp_path):
    def refuse(step: Step) -> None:
        raise RuntimeError(step)

    ran = tmp_path / "ran"
    runtime = Runtime(restart_command=["touch", str(ran)])
    with pytest.raises(RuntimeError):
        Updater(runtime, OK, tmp_path, {}, {}, refuse, lambda *_: None, play).update()
    assert not ran.exists()


def test_the_update_stands_in_the_home_without_secrets_and_the_check_where_and_as_we_do(
    update, tmp_path, monkeypatch
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    say = ["sh", "-c", "echo $(pwd) $GITHUB_TOKEN"]
    update.run(say, say)
    assert update.said.splitlines() == [str(tmp_path), f"{elsewhere} ours"]


def test_a_folder_that_was_removed_is_no_reason_to_fail(update, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    elsewhere.rmdir()
    assert update.run([], OK).failed == ""


def test_what_an_update_may_take_is_the_sum_of_its_commands():
    runtime = Runtime(restart_command_timeout_seconds=7200)
    assert max_update_seconds(runtime) == 2 * 7200 + 2 * CHECK_SECONDS
