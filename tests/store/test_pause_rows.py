"""Rows of pauses, on both databases."""

from __future__ import annotations

import pytest

from hostler.clock import FakeClock
from hostler.store.operator import ALL, Pause, all_pauses, pause, project_scope, unpause


def test_a_pause_comes_back_as_it_was_stored(store):
    with store.write() as tx:
        assert pause(tx, project_scope("stable"), "ann", "a release, 100 %")
        moment = tx.stamp()
    with store.read() as tx:
        expected = Pause("project:stable", moment, "ann", "a release, 100 %")
        assert all_pauses(tx) == {"project:stable": expected}


def test_pausing_again_keeps_the_first_moment_and_reason(store, clock: FakeClock):
    with store.write() as tx:
        assert pause(tx, ALL, "ann", "first")
        before = all_pauses(tx)
    clock.advance(60)
    with store.write() as tx:
        assert not pause(tx, ALL, "bob", "second")
        assert all_pauses(tx) == before


def test_scopes_are_lifted_one_by_one(store):
    with store.write() as tx:
        for scope in (ALL, project_scope("a"), project_scope("b")):
            pause(tx, scope, "ann", "")
        assert unpause(tx, project_scope("a"))
        assert not unpause(tx, project_scope("a"))
        assert set(all_pauses(tx)) == {ALL, "project:b"}
        assert pause(tx, project_scope("a"), "ann", "")


def test_a_project_named_all_is_not_everything(store):
    with store.write() as tx:
        pause(tx, project_scope(ALL), "ann", "")
        assert ALL not in all_pauses(tx)
        assert not unpause(tx, ALL)


@pytest.mark.parametrize(
    "wrong", [lambda tx: pause(tx, "", "ann", ""), lambda tx: project_scope("")]
)
def test_a_scope_is_never_empty(store, wrong):
    with pytest.raises(ValueError, match="has a"), store.write() as tx:
        wrong(tx)
    with store.read() as tx:
        assert all_pauses(tx) == {}
