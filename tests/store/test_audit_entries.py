"""What people did with tasks, on both databases."""

from __future__ import annotations

from hostler.store.operator import (
    MAX_ENTRIES_PER_TASK,
    AuditAction,
    AuditEntry,
    add_audit_entry,
    audit_entries_of,
    delete_audit_entries,
)

AT = "2026-03-01T10:00:00.000Z"


def test_deeds_are_kept_in_their_order_and_only_the_newest(store):
    with store.write("tasks") as tx:
        for number in range(MAX_ENTRIES_PER_TASK + 3):
            add_audit_entry(tx, "a", AuditEntry(AT, "ann", AuditAction.RETRIED, str(number)))
        add_audit_entry(tx, "b", AuditEntry(AT, "bob", AuditAction.ANSWERED, "Blue.", "Which?", AT))
    with store.read() as tx:
        assert [int(one.text) for one in audit_entries_of(tx, "a")] == list(
            range(3, MAX_ENTRIES_PER_TASK + 3)
        )
        assert audit_entries_of(tx, "b") == (
            AuditEntry(AT, "bob", AuditAction.ANSWERED, "Blue.", "Which?", AT),
        )


def test_deeds_go_with_their_tasks(store):
    with store.write("tasks") as tx:
        for name in ("a", "b", "c"):
            add_audit_entry(tx, name, AuditEntry(AT, "ann", AuditAction.STOPPED))
        delete_audit_entries(tx, ["a", "b"])
        assert [len(audit_entries_of(tx, name)) for name in ("a", "b", "c")] == [0, 0, 1]
