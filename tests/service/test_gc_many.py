"""Many old rows of each kind go in bounded transactions; others write in between."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise

import pytest
from gc_yard import HERE
from sqlalchemy import func, insert, select

from hostler.service.gc.context import GcKind
from hostler.store.runs import Run, RunState
from hostler.store.schema import inbox, outbox, runs, tasks

pytestmark = pytest.mark.slow
TABLES = (tasks, runs, inbox, outbox)
# So many rows of all kinds together one transaction may take away.
BOUND = 400


@pytest.fixture(params=[1500, pytest.param(10_000, marks=pytest.mark.soak)])
def many(request):
    """As many as it takes for several transactions."""
    return request.param


def fill(yard, many):
    task = {
        "project": "stable",
        "flow": "task",
        "title": "Tidy",
        "author": "ann",
        "state": "done",
        "prompt": "Tidy up.",
    }
    run = {"state": RunState.ENDED.value, "counted": 1}
    event = {"kind": "issue_comment", "author": "ann", "payload": "{}"}
    write = {"kind": "label", "lane": "status", "scope_kind": "issue", "payload": "{}"}
    with yard.store.write() as tx:
        now = {"updated_at": tx.stamp()}
        task |= {"state_since": tx.stamp(), "created_at": tx.stamp(), **now}
        event |= {"received_at": tx.stamp(), "consumed_at": tx.stamp(), **now}
        write |= {"state": "sent", "not_before": tx.stamp(), "created_at": tx.stamp(), **now}
        names = [f"t{number:05}" for number in range(many)]
        rows = [
            Run(f"r-{name}", name, "stable", 1, 1, "work", "a", "c", "p", f"f/{name}", tx.stamp())
            for name in names
        ]
        repo = {"repo_full_name": str(HERE)}
        tx.execute(insert(tasks), [{"id": n, "order": i, **task} for i, n in enumerate(names)])
        ended = {"ended_at": tx.stamp(), **run}
        tx.execute(insert(runs), [asdict(row) | ended for row in rows])
        tx.execute(
            insert(inbox),
            [
                {"event_key": n, "scope_number": i // 2 + 1, "object_id": i, **event, **repo}
                for i, n in enumerate(names)
            ],
        )
        tx.execute(
            insert(outbox),
            [{"token": n, "scope_number": i, **write, **repo} for i, n in enumerate(names)],
        )


def counts(yard):
    with yard.store.read() as tx:
        return [tx.execute(select(func.count()).select_from(table)).scalar() for table in TABLES]


def test_many_rows_go_in_bounded_transactions(yard, many):
    fill(yard, many)
    yard.age()
    yard.issue(999_999, "open")
    yard.cursors()
    seen = [counts(yard)]

    def observe(step, _about):
        if step == "stored":
            # Another writer gets its turn between any two of them.
            with yard.store.write("admission", "outbox", "tasks"):
                pass
            seen.append(counts(yard))

    found = yard.gc(observe=observe)
    assert len(found[GcKind.TASKS].gone) == len(found[GcKind.OUTBOX].gone) == many
    assert len(found[GcKind.INBOX].gone) == many // 2
    assert counts(yard) == [0, 0, 1, 0]
    steps = [sum(a) - sum(b) for a, b in pairwise(seen)]
    assert sum(steps) == 4 * many and max(steps) <= BOUND


def test_many_rows_that_stay_are_read_and_told_of(yard, many):
    fill(yard, many)
    with yard.store.write() as tx:
        tx.constant("UPDATE tasks SET state = 'queued'")
        tx.constant("UPDATE outbox SET state = 'queued'")
        tx.constant("UPDATE inbox SET consumed_at = NULL")
    yard.age()
    before = counts(yard)
    stored = []
    found = yard.gc(observe=lambda step, _about: stored.append(step))
    assert [len(found[kind].kept) for kind in (GcKind.TASKS, GcKind.OUTBOX)] == [many, many]
    assert len(found[GcKind.INBOX].kept) == many // 2
    assert counts(yard) == before and not stored
