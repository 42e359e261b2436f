"""Rows of turns, on both databases."""

from __future__ import annotations

from hostler.store.governor import last_turns, take_turn


def test_the_last_to_have_its_turn_has_the_highest_number(store):
    with store.write("admission") as tx:
        assert last_turns(tx) == {}
        for project in ("barn", "stable", "barn"):
            take_turn(tx, project)
    with store.read() as tx:
        found = last_turns(tx)
    assert sorted(found, key=lambda project: found[project]) == ["stable", "barn"]


def test_a_turn_that_was_undone_was_none(store):
    try:
        with store.write("admission") as tx:
            take_turn(tx, "barn")
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    with store.read() as tx:
        assert last_turns(tx) == {}


def test_a_heavy_project_has_shorter_turns(store):
    with store.write("admission") as tx:
        for _ in range(3):
            take_turn(tx, "barn", weight=4)
        take_turn(tx, "stable")
    with store.read() as tx:
        found = last_turns(tx)
    assert set(found) == {"barn", "stable"} and found["barn"] < found["stable"]
