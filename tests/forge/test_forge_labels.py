"""Labels that hand issues over: which are missing, and each queued once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hostler.config.settings import Labels
from hostler.forge.labels import missing_labels, queue_labels, wanted_labels
from hostler.store.outbox import WriteState, open_writes

ALL = wanted_labels(Labels())
NAMES = [deed.name for deed in ALL]


def test_four_different_labels_with_what_they_mean():
    assert NAMES == ["agent:design", "agent:bugfix", "agent:small-job", "agent:ignore"]
    assert len({deed.color for deed in ALL}) == 4
    # GitHub takes no more.
    assert all(0 < len(deed.description) <= 100 for deed in ALL)


@given(st.lists(st.sampled_from([*NAMES, "bug"]).map(str.upper)), st.booleans())
def test_missing_is_what_is_not_there_in_any_spelling(there, lower):
    there = [name.lower() for name in there] if lower else there
    missing = [deed.name for deed in missing_labels(Labels(), there)]
    known = {name.lower() for name in there}
    assert missing == [name for name in NAMES if name not in known]


def test_names_of_the_operators_own_are_used():
    labels = Labels(bugfix="Fix it", ignore="bug")
    assert [deed.name for deed in missing_labels(labels, ["fix IT", "agent:bugfix"])] == [
        "agent:design",
        "agent:small-job",
        "bug",
    ]


def queued(store, sandbox_repo, deeds=ALL):
    with store.write("outbox") as tx:
        return queue_labels(tx, sandbox_repo.name, deeds)


def test_queueing_again_is_queueing_once(sandbox_repo, store):
    first = queued(store, sandbox_repo)
    assert queued(store, sandbox_repo) == first and len(set(first)) == 4
    with store.read() as tx:
        assert [row.token for row in open_writes(tx)] == first


def test_a_removed_label_is_made_again(sandbox_repo, store, post):
    first = queued(store, sandbox_repo, ALL[:1])
    post.drain()
    sandbox_repo.do("DELETE", f"labels/{NAMES[0]}")
    second = queued(store, sandbox_repo, ALL[:1])
    assert first != second == queued(store, sandbox_repo, ALL[:1])
    post.drain()
    assert [label["name"] for label in sandbox_repo.do("GET", "labels")] == [NAMES[0]]


def test_what_was_given_up_is_tried_again_by_the_next_one(sandbox_repo, store, post):
    sandbox_repo.fault("status", status=422, method="POST", route="*/labels", count=None)
    (token,) = queued(store, sandbox_repo, ALL[:1])
    post.drain()
    assert post.row(token).state is WriteState.FAILED
    sandbox_repo.sandbox.app.pipeline.faults.remove()
    (again,) = queued(store, sandbox_repo, ALL[:1])
    post.drain()
    assert post.row(again).state is WriteState.SENT
