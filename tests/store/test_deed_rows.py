"""What people did with tasks, on both databases."""

from __future__ import annotations

from hostler.store.operator import KEPT, Deed, What, add_deed, deeds_of, forget_deeds

AT = "2026-03-01T10:00:00.000Z"


def test_deeds_are_kept_in_their_order_and_only_the_newest(store):
    with store.write("tasks") as tx:
        for number in range(KEPT + 3):
            add_deed(tx, "a", Deed(AT, "ann", What.RETRIED, str(number)))
        add_deed(tx, "b", Deed(AT, "bob", What.ANSWERED, "Blue.", "Which?", AT))
    with store.read() as tx:
        assert [int(one.text) for one in deeds_of(tx, "a")] == list(range(3, KEPT + 3))
        assert deeds_of(tx, "b") == (Deed(AT, "bob", What.ANSWERED, "Blue.", "Which?", AT),)


def test_deeds_go_with_their_tasks(store):
    with store.write("tasks") as tx:
        for name in ("a", "b", "c"):
            add_deed(tx, name, Deed(AT, "ann", What.STOPPED))
        forget_deeds(tx, ["a", "b"])
        assert [len(deeds_of(tx, name)) for name in ("a", "b", "c")] == [0, 0, 1]
