"""Entering a home: its lock first, then a database of our layout, or the way back."""

from __future__ import annotations

from contextlib import closing

import pytest
from next_revision import OLD, know_next_revision
from restart_bench import BROKEN, OK, Bench
from sqlalchemy.schema import DropTable
from test_service_restart_kills import old_layout

from hostler.clock import FakeClock
from hostler.config.settings import Settings
from hostler.errors import HomeLocked, HostlerError, StoreBusy, StoreError, StoreOutdated
from hostler.service.context import ONE_POLL_PURPOSE, lock_and_open, read_presence
from hostler.service.restart import roll_back_update
from hostler.store.admin import migrate, revision
from hostler.store.engine.backend import find_place
from hostler.store.engine.locks import HomeLock
from hostler.store.engine.sqlite import Patience
from hostler.store.operator import Step, leave_step, peek_step
from hostler.store.schema import runtime_operations
from hostler.workflows.commands import RESTART_SCOPES, store_restart_step


@pytest.fixture
def outdated(tmp_path, monkeypatch) -> Bench:
    """A home that an earlier version left in a restart, after its update."""
    return at_step(Bench(tmp_path / "home"), monkeypatch, Step.UPDATED)


def at_step(bench: Bench, monkeypatch, step: Step | None) -> Bench:
    bench.furnish(old_layout())
    know_next_revision(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(revision, "HEAD", OLD)
        with closing(bench.store()) as store:
            bench.begin(store)
            if step is not None:
                with store.write(*RESTART_SCOPES) as tx:
                    store_restart_step(tx, step)
    return bench


def peek(bench: Bench) -> Step | None:
    return peek_step(find_place(bench.home), bench.clock, Patience())


@pytest.mark.parametrize("step", [None, *Step])
def test_the_step_alone_says_who_may_change_the_database(tmp_path, monkeypatch, step):
    bench = at_step(Bench(tmp_path / "home"), monkeypatch, step)
    assert peek(bench) == step
    if step in (Step.UPDATE, Step.UPDATED):
        with lock_and_open(bench.home, Settings(), bench.clock) as (app, _):
            assert bench.operation(app.store).step == step
    else:
        with pytest.raises(StoreOutdated), lock_and_open(bench.home, Settings(), bench.clock):
            pass
    assert (bench.home / "backups").exists() == (step in (Step.UPDATE, Step.UPDATED))
    # Whoever could not enter holds nothing.
    HomeLock.take(bench.home, bench.clock).release()


def test_the_lock_that_was_handed_over_is_held_on(outdated):
    lock = HomeLock.take(outdated.home, outdated.clock).hand_over()
    with lock_and_open(outdated.home, Settings(), outdated.clock, lock):
        with pytest.raises(HomeLocked) as refused:
            HomeLock.take(outdated.home, outdated.clock)
        assert refused.value.holder is not None and refused.value.holder.purpose == "service"
    HomeLock.take(outdated.home, outdated.clock).release()


def test_a_lock_that_was_not_handed_over_is_refused(outdated):
    with pytest.raises(HomeLocked), lock_and_open(outdated.home, Settings(), outdated.clock, 987):
        pass


def test_whoever_is_second_is_told_of_the_first_before_anything_else(outdated):
    lock = HomeLock.take(outdated.home, outdated.clock, "service")
    with pytest.raises(HomeLocked), lock_and_open(outdated.home, Settings(), outdated.clock):
        pass
    lock.release()
    assert peek(outdated) is Step.UPDATED


def test_one_look_is_no_service_that_takes_tasks(tmp_path):
    clock = FakeClock()
    with lock_and_open(tmp_path, Settings(), clock, purpose=ONE_POLL_PURPOSE):
        assert not read_presence(tmp_path).takes_tasks
    with lock_and_open(tmp_path, Settings(), clock):
        assert read_presence(tmp_path).takes_tasks


def test_a_database_from_before_such_rows_says_nothing(tmp_path):
    bench = Bench(tmp_path / "home").furnish()
    with closing(bench.store()) as store, store.write() as tx:
        tx.execute(DropTable(runtime_operations))
    assert peek(bench) is None


def test_a_step_is_left_only_where_a_restart_runs(tmp_path):
    bench = Bench(tmp_path / "home").furnish()
    place = find_place(bench.home)
    with closing(bench.store()) as store:
        bench.ask(store)
        leave_step(place, bench.clock, Patience(), Step.UNFIT)
        assert (bench.operation(store).status, bench.operation(store).detail) == ("pending", "")


# -- a layout that cannot be had ----------------------------------------------------------------


class Unfit:
    """A migration that fails, and what is done about it."""

    def __init__(self, bench: Bench, monkeypatch) -> None:
        self.bench = bench
        self.tries = 0
        self.became: list[int] = []
        monkeypatch.setattr(migrate, "upgrade_under_lock", self._fail)

    def _fail(self, *_: object, **__: object) -> None:
        self.tries += 1
        raise StoreError("The upgrade failed.", safe="Every change was rolled back.")

    def start(self, rollback, check=OK, leaves: bool = False) -> HostlerError:
        means = self.bench.means(OK, check, rollback, self.became.append)

        def undo(lock: HomeLock, error: HostlerError) -> None:
            roll_back_update(means, lock, lambda: leaves, error)

        settings, clock = Settings(), self.bench.clock
        with (
            pytest.raises(StoreError) as raised,
            lock_and_open(self.bench.home, settings, clock, unfit=undo),
        ):
            pass
        return raised.value


@pytest.fixture
def unfit(outdated, monkeypatch) -> Unfit:
    return Unfit(outdated, monkeypatch)


def test_an_update_whose_layout_cannot_be_had_is_rolled_back(unfit, monkeypatch):
    unfit.start(OK)
    assert len(unfit.became) == 1 and peek(unfit.bench) is Step.UNFIT
    # The program before it is there again, and tells.
    with monkeypatch.context() as patch:
        patch.setattr(revision, "HEAD", OLD)
        found = unfit.bench.next_start()
    assert found.status == "failed" and "could not bring the database to its layout" in found.detail


@pytest.mark.parametrize(("rollback", "check"), [((), OK), (BROKEN, OK), (OK, BROKEN)])
def test_without_a_way_back_a_person_is_told_what_to_do(unfit, rollback, check):
    error = unfit.start(rollback, check)
    assert unfit.became == [] and "hostler db upgrade" in error.remedy
    assert "rolled back" in error.safe
    HomeLock.take(unfit.bench.home, unfit.bench.clock).release()


def test_it_is_tried_once_and_not_at_every_start(unfit):
    unfit.start(())
    assert isinstance(unfit.start(()), StoreOutdated) and unfit.tries == 1


def test_whoever_is_asked_to_leave_meanwhile_becomes_nobody(unfit):
    unfit.start(OK, leaves=True)
    assert unfit.became == []


def test_a_reason_that_cannot_be_stored_hides_no_error(unfit, monkeypatch):
    def busy(*_: object) -> None:
        raise StoreBusy("somebody", 15.0)

    monkeypatch.setattr("hostler.service.context.leave_step", busy)
    assert unfit.start(()).what == "The upgrade failed."
