"""The rules of the feeds by example: rhythm, sweep, chains, cursors, event keys, our own words."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from zlib import crc32

import pytest

from hostler.forge.events import event_key
from hostler.forge.github.payloads import parse_item
from hostler.forge.github.polling import poller
from hostler.forge.github.polling.cursors import (
    CursorState,
    PollWindow,
    advance_cursor,
    count_pages,
    cursor_state,
    decode_chains,
    encode_chains,
    is_same_cursor,
    is_settled,
    keep_chain,
    page_number,
    read_since,
    read_since_after,
    splice_chain,
    start_cursor,
)
from hostler.forge.github.polling.ingest import ACTIONS_BY_KIND, judge_own_write
from hostler.forge.github.polling.poller import PollState
from hostler.forge.github.polling.schedule import (
    NEWEST_REVIEW_PAGE,
    RUNS_PAGE,
    PollCount,
    SweepTarget,
    after_poll,
    is_full_poll_due,
    next_sweep_target,
    poll_phase,
)
from hostler.forge.port import CommentContent, Item, ItemKind, KnownPage, ListReading
from hostler.model import EPOCH, PollCursor, ScopeKind, Surface, format_timestamp
from hostler.store.outbox import Lane, OutboxRow, WriteState
from hostler.store.pull_requests import PullStatus
from hostler.store.tasks import TaskState

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
WINDOW = PollWindow()


# -- rhythm ----------------------------------------------------------------------------------------


def test_a_new_repository_owes_everything_and_then_goes_by_its_rhythm():
    assert PollCount() == PollCount(0, True, 0)
    rested = after_poll(PollCount(polls=3, phase=2))
    assert rested == PollCount(4, is_due=False, phase=2)

    def due(pulse, **more):
        return is_full_poll_due(pulse, **{"active": False, "touched": False, "every": 6, **more})

    assert due(PollCount(1)) and not due(rested.__class__(3, is_due=False, phase=2))
    assert due(rested) and not due(replace(rested, polls=5))
    assert due(replace(rested, polls=5), active=True) and due(
        replace(rested, polls=5), touched=True
    )
    assert poll_phase("octo/stable", 7) == crc32(b"octo/stable") % 7


def test_the_sweep_goes_over_the_pull_its_pages_its_runs_and_on_to_the_next():
    seen = [next_sweep_target(None, 0, [5, 3])]
    for _ in range(7):
        seen.append(next_sweep_target(seen[-1], 2, [5, 3], runs=True))
    assert seen == [
        *(SweepTarget(3, 0), SweepTarget(3, 1), SweepTarget(3, 2), SweepTarget(3, RUNS_PAGE)),
        *(SweepTarget(5, 0), SweepTarget(5, 1), SweepTarget(5, 2), SweepTarget(5, RUNS_PAGE)),
    ]
    assert next_sweep_target(seen[-1], 2, [5, 3], runs=True) == SweepTarget(3, 0)
    assert (NEWEST_REVIEW_PAGE, RUNS_PAGE) == (-1, -2)


def test_a_pull_without_pages_is_asked_for_one_and_runs_only_if_wanted():
    assert next_sweep_target(SweepTarget(3, 0), 0, [3, 5]) == SweepTarget(3, 1)
    assert next_sweep_target(SweepTarget(3, 1), 0, [3, 5]) == SweepTarget(5, 0)
    assert next_sweep_target(SweepTarget(3, 1), 2, [3, 5]) == SweepTarget(3, 2)
    assert next_sweep_target(SweepTarget(5, 1), 1, [3, 5]) == SweepTarget(3, 0)


def test_a_pull_that_is_followed_no_more_gives_way_to_the_next():
    assert next_sweep_target(SweepTarget(4, 0), 9, [3, 5]) == SweepTarget(5, 0)
    assert next_sweep_target(SweepTarget(9, 0), 9, [3, 5]) == SweepTarget(3, 0)
    assert (
        next_sweep_target(SweepTarget(3, 0), 9, []) is None
        and next_sweep_target(None, 0, []) is None
    )


# -- chains ----------------------------------------------------------------------------------------


def page(number, *, etag="e", full=True):
    return KnownPage("a", number, etag, full, "n")


def pages(count):
    return tuple(page(number, full=number < count) for number in range(1, count + 1))


def test_a_complete_list_of_ten_pages_with_etags_is_kept():
    assert keep_chain(ListReading((), chain=pages(10))) == pages(10)
    assert (
        keep_chain(ListReading((), chain=pages(11)))
        == ()
        != keep_chain(ListReading((), chain=pages(11)), 11)
    )
    assert keep_chain(ListReading((), complete=False, chain=pages(2))) == ()
    assert keep_chain(ListReading((), chain=())) == ()
    assert keep_chain(ListReading((), chain=(page(1),))) == ()
    assert keep_chain(ListReading((), chain=(page(1, etag=""), page(2, full=False)))) == ()


def test_pages_read_anew_take_the_place_of_old_ones_up_to_the_first_gap():
    old = pages(3)
    new = page(2, etag="new")
    assert splice_chain(old, (new,)) == (old[0], new, old[2])
    assert splice_chain((), (page(2),)) == ()
    assert splice_chain((old[0],), (page(3),)) == (old[0],)
    last = page(2, etag="new", full=False)
    assert splice_chain(old, (last,)) == (old[0], last)
    assert splice_chain(old, (page(2, etag=""),)) == (old[0],)
    assert len(splice_chain(pages(101), ())) == 100


def test_a_page_is_known_or_asked_for_without_an_etag():
    chain = pages(2)
    assert page_number(chain, 1) is chain[0] and page_number(chain, 2) is chain[1]
    assert page_number(chain, 3) == KnownPage("", 3, "", full=False)


def test_behind_a_full_page_may_be_another():
    assert count_pages(()) == 1 and count_pages(pages(2)) == 2 and count_pages((page(1),)) == 2


def test_a_chain_is_stored_and_read_back():
    assert encode_chains(()) == "" and decode_chains("") == ()
    assert decode_chains(encode_chains(pages(2))) == pages(2)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "5",
        "[[1]]",
        '[[1, 1, "e", true, "n"]]',
        '[["a", "1", "e", true, "n"]]',
        '[["a", 1, 5, true, "n"]]',
        '[["a", 1, "e", 1, "n"]]',
        '[["a", 1, "e", true, 7]]',
        '[["a", 1, "e", true, "n"], ["a", 2, null, true, "n"]]',
    ],
)
def test_a_damaged_chain_is_none(text):
    assert decode_chains(text) == ()


# -- cursors ---------------------------------------------------------------------------------------


def cursor(at=NOW, number=0, complete=True):
    return PollCursor(Surface.REPO_ISSUES, 0, format_timestamp(at), number, complete, "")


def item(at, number=1):
    moment = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return Item(ItemKind.ISSUE_COMMENT, number, 7, "alice", "", moment, None)


def test_the_usual_window():
    usual = PollWindow()
    assert usual == PollWindow(5 * SECOND, 300 * SECOND, timedelta(days=1))
    assert CursorState(NOW) == CursorState(NOW, 0, fresh=False, invalid=False)


def test_a_reading_starts_at_its_cursor_or_a_day_ago():
    assert start_cursor(None, NOW, WINDOW) == CursorState(NOW - timedelta(days=1), fresh=True)
    assert start_cursor(None, EPOCH, WINDOW).at == EPOCH
    assert start_cursor(cursor(NOW, 5), NOW, WINDOW) == CursorState(NOW, 5)
    assert start_cursor(cursor(NOW, complete=False), NOW, WINDOW).fresh
    edge = cursor(NOW + 60 * SECOND)
    assert start_cursor(edge, NOW, WINDOW) == CursorState(NOW + 60 * SECOND)
    ahead = cursor(NOW + 61 * SECOND)
    assert start_cursor(ahead, NOW, WINDOW) == CursorState(NOW - timedelta(days=1), invalid=True)


def test_a_cursor_without_a_moment_or_a_number_is_none():
    assert cursor_state(None) is None
    assert cursor_state(replace(cursor(), last_updated_at="soon")) is None
    assert cursor_state(replace(cursor(), last_updated_at=None)) is None
    assert cursor_state(replace(cursor(), last_comment_id=True)) is None
    assert cursor_state(replace(cursor(), last_comment_id="5")) is None
    assert cursor_state(cursor(NOW, 5, complete=False)) == CursorState(NOW, 5, fresh=True)


def test_a_reading_reaches_back_by_overlap_and_late_visibility():
    assert read_since(CursorState(NOW), WINDOW) == NOW - 305 * SECOND
    assert read_since(CursorState(EPOCH + 9 * SECOND), WINDOW) == EPOCH


def test_what_comes_after_a_mark_begins_with_the_next_second():
    assert read_since_after(CursorState(NOW)) == NOW + SECOND
    assert read_since_after(CursorState(NOW + timedelta(milliseconds=900))) == NOW + SECOND


def test_a_mark_is_settled_when_nothing_can_turn_up_late():
    settled = NOW + (1 + 5 + 300 + 60) * SECOND
    assert is_settled(CursorState(NOW), settled, WINDOW)
    assert not is_settled(CursorState(NOW), settled - SECOND, WINDOW)


def test_a_mark_moves_to_the_newest_item_and_never_back():
    items = [item(NOW + SECOND, 4), item(NOW + 2 * SECOND, 3), item(NOW + 2 * SECOND, 2)]
    assert advance_cursor(CursorState(NOW, 9), items, complete=True) == CursorState(
        NOW + 2 * SECOND, 3
    )
    assert advance_cursor(CursorState(NOW + 9 * SECOND, 9), items, complete=True) == CursorState(
        NOW + 9 * SECOND, 9
    )
    assert advance_cursor(CursorState(NOW, 9), [], complete=True) == CursorState(NOW, 9)
    assert advance_cursor(CursorState(NOW, 9, fresh=True), items, complete=True) == CursorState(
        NOW + 2 * SECOND, 3
    )


def test_a_first_reading_that_was_cut_short_goes_on_from_its_newest_item():
    old = [item(NOW - 9 * SECOND, 4)]
    assert advance_cursor(CursorState(NOW, fresh=True), old, complete=False) == CursorState(
        NOW - 9 * SECOND, 4, fresh=True
    )
    assert advance_cursor(CursorState(NOW), old, complete=False) == CursorState(NOW)
    assert advance_cursor(CursorState(NOW, fresh=True), [], complete=False) == CursorState(NOW)


def test_a_mark_that_is_stored_already_changes_nothing():
    assert is_same_cursor(CursorState(NOW, 5), cursor(NOW, 5)) and not is_same_cursor(
        CursorState(NOW, 6), cursor(NOW, 5)
    )
    assert not is_same_cursor(CursorState(NOW), None)


# -- event keys ------------------------------------------------------------------------------------


def event(kind, body="b", **payload):
    at = "2026-03-01T00:00:00Z"
    known = {"id": 5, "number": 7, "body": body, "updated_at": at, "submitted_at": at}
    known |= {"user": {"login": "al"}, "state": "open", "labels": []}
    return parse_item(kind, {**known, **payload}, 7)


def test_a_key_names_the_kind_the_id_the_version_and_twelve_digits():
    key = event_key(event(ItemKind.ISSUE_COMMENT))
    assert key.startswith(f"{ItemKind.ISSUE_COMMENT}:5:2026-03-01T00:00:00Z:")
    assert len(key.rpartition(":")[2]) == 12
    assert key == event_key(event(ItemKind.ISSUE_COMMENT, anything="else"))


def changed(kind, before, **after):
    return event_key(event(kind, **before)) != event_key(event(kind, **{**before, **after}))


@pytest.mark.parametrize("kind", list(ItemKind))
def test_another_text_or_author_in_the_same_second_is_another_event(kind):
    assert changed(kind, {}, body="c")
    assert changed(kind, {}, user={"login": "bo"})


ISSUE = {
    "title": "t",
    "state": "open",
    "state_reason": None,
    "locked": False,
    "labels": [{"name": "b"}, {"name": "a"}],
    "issue_dependencies_summary": {"total_blocked_by": 1},
}
PULL = {
    "title": "t",
    "state": "open",
    "draft": False,
    "merged_at": None,
    "head": {"sha": "1", "ref": "x"},
    "base": {"ref": "main", "sha": "2"},
}
RUN = {"head_sha": "1", "status": "queued", "conclusion": None, "run_attempt": 1}


@pytest.mark.parametrize(
    "after",
    [
        {"title": "u"},
        {"state": "closed"},
        {"state_reason": "completed"},
        {"locked": True},
        {"labels": [{"name": "a"}]},
        {"labels": None},
        {"issue_dependencies_summary": {"total_blocked_by": 2}},
    ],
)
def test_whatever_a_person_can_change_of_an_issue_is_news(after):
    assert changed(ItemKind.ISSUE, ISSUE, **after)


def test_the_order_of_labels_is_no_news():
    assert not changed(ItemKind.ISSUE, ISSUE, labels=[{"name": "a"}, {"name": "b"}])
    assert not changed(ItemKind.ISSUE, ISSUE, comments=9)


@pytest.mark.parametrize(
    "after",
    [
        {"title": "u"},
        {"state": "closed"},
        {"draft": True},
        {"merged_at": "2026"},
        {"head": {"sha": "2"}},
        {"base": {"ref": "other"}},
        {"head": None},
        {"base": None},
    ],
)
def test_whatever_a_person_can_change_of_a_pull_request_is_news(after):
    assert changed(ItemKind.PULL, PULL, **after)


def test_what_nobody_changes_of_a_pull_request_is_no_news():
    assert not changed(ItemKind.PULL, PULL, labels=["x"])
    assert not changed(ItemKind.PULL, PULL, head={"sha": "1", "ref": "y"})
    assert not changed(ItemKind.PULL, PULL, base={"ref": "main", "sha": "3"})


@pytest.mark.parametrize(
    "after", [{"head_sha": "2"}, {"status": "x"}, {"conclusion": "x"}, {"run_attempt": 2}]
)
def test_whatever_happens_to_a_workflow_run_is_news(after):
    assert changed(ItemKind.WORKFLOW_RUN, RUN, **after)


def test_the_state_is_part_of_a_review_and_of_no_comment():
    assert changed(ItemKind.REVIEW, {"state": "COMMENTED"}, state="APPROVED")
    assert not changed(ItemKind.REVIEW, {"state": "COMMENTED"}, title="x", status="x")
    assert not changed(ItemKind.ISSUE_COMMENT, {}, state="x", title="x", status="x")
    assert not changed(ItemKind.WORKFLOW_RUN, RUN, state="x", title="x")


def test_a_key_stays_the_same_over_versions_of_the_program():
    """Stored keys are compared with new ones: another form would make everything new again."""
    known = event(ItemKind.ISSUE_COMMENT, "Grüße")
    assert event_key(known) == "issue_comment:5:2026-03-01T00:00:00Z:7fbc79f3488a"
    assert event_key(event(ItemKind.ISSUE, **ISSUE)).endswith(":41fec12c96c6")
    assert event_key(event(ItemKind.PULL, **PULL)).endswith(":1dbf27d43126")
    assert event_key(event(ItemKind.REVIEW, state="APPROVED")).endswith(":ceda32dcb8e6")
    assert event_key(event(ItemKind.WORKFLOW_RUN, **RUN)).endswith(":41041121e324")


# -- our own words ---------------------------------------------------------------------------------

MARKER = "<!-- hostler:action=t1 -->"


def row(kind, *, number=7, result_number=None, result_id=None):
    return OutboxRow(
        "octo/stable",
        "t1",
        ScopeKind.ISSUE,
        number,
        Lane.STATUS,
        kind,
        "{}",
        WriteState.SENT,
        format_timestamp(NOW),
        result_id=result_id,
        result_number=result_number,
    )


def verdict(kind, write=None, *, me="ALICE", body=MARKER, recorded=(), **payload):
    given = Item(kind, 5, 7, "alice", body, "x", CommentContent(body, payload.get("state", "")))
    return judge_own_write(given, me, {"t1": write} if write else {}, {*recorded})


def test_words_of_another_account_are_news_whatever_they_contain():
    found = verdict(
        ItemKind.ISSUE_COMMENT, row("comment"), me="bob", recorded=[(ItemKind.ISSUE_COMMENT, 5)]
    )
    assert found.is_new and found.write is None


def test_a_marked_comment_of_our_account_is_our_write():
    mine = row("comment")
    found = verdict(ItemKind.ISSUE_COMMENT, mine)
    assert not found.is_new and found.write is mine
    assert verdict(ItemKind.ISSUE_COMMENT).is_new
    assert verdict(ItemKind.ISSUE_COMMENT, mine, body="no marker").is_new


def test_a_pasted_marker_proves_nothing():
    assert verdict(ItemKind.ISSUE_COMMENT, row("reply")).is_new
    assert verdict(ItemKind.ISSUE_COMMENT, row("comment", number=8)).is_new
    assert verdict(ItemKind.ISSUE_COMMENT, row("comment", result_id=6)).is_new
    assert not verdict(ItemKind.ISSUE_COMMENT, row("comment", result_id=5)).is_new


def test_the_first_marker_of_ours_counts():
    mine = row("comment")
    text = f"<!-- hostler:action=other -->{MARKER}"
    assert verdict(ItemKind.ISSUE_COMMENT, mine, body=text).write is mine


def test_what_was_recorded_is_ours_without_a_marker():
    assert not verdict(
        ItemKind.ISSUE_COMMENT, body="x", recorded=[(ItemKind.ISSUE_COMMENT, 5)]
    ).is_new
    assert verdict(ItemKind.ISSUE_COMMENT, body="x", recorded=[(ItemKind.REVIEW, 5)]).is_new


@pytest.mark.parametrize(
    ("kind", "deed"), [(ItemKind.ISSUE, "open_issue"), (ItemKind.PULL, "open_pull")]
)
def test_issues_and_pulls_that_we_made_are_ours_and_news_all_the_same(kind, deed):
    for write in (row(deed, number=0), row(deed, number=0, result_number=7)):
        found = verdict(kind, write)
        assert found.is_new and found.write is write
    assert verdict(kind, row(deed, number=7, result_number=8)).write is None


def test_which_deed_makes_which_kind_of_event():
    assert ACTIONS_BY_KIND == {
        ItemKind.ISSUE_COMMENT: ("comment", "edit_comment"),
        ItemKind.REVIEW_COMMENT: ("reply",),
        ItemKind.ISSUE: ("open_issue", "open_pull"),
        ItemKind.PULL: ("open_pull", "update_pull"),
        ItemKind.REVIEW: (),
        ItemKind.WORKFLOW_RUN: (),
    }


def test_a_hollow_review_of_ours_is_no_news():
    assert not verdict(ItemKind.REVIEW, body=" ", state="COMMENTED").is_new
    assert verdict(ItemKind.REVIEW, body="words", state="COMMENTED").is_new
    assert verdict(ItemKind.REVIEW, body=" ", state="APPROVED").is_new
    assert verdict(ItemKind.ISSUE_COMMENT, body=" ", state="COMMENTED").is_new


# -- who is followed -------------------------------------------------------------------------------


def test_whom_a_poll_follows():
    found = PollState(awaiting=frozenset({5, 3}), blocked=frozenset({4}), in_step=frozenset({3, 9}))
    assert found.followed == [3, 4, 5] and found.active is True
    assert found.unscanned == [5] and found.lapsed == {9}
    assert PollState().active is False and not PollState().is_due
    assert PollState(blocked=frozenset({4})).active is True
    many = PollState(awaiting=frozenset({64, 1, 33}))
    assert many.followed == [1, 33, 64] == many.unscanned


def test_a_repository_stands_as_its_rows_say(monkeypatch):
    rows = [
        (9, PullStatus.AWAITING_FEEDBACK, "same"),
        (4, PullStatus.BLOCKED, "other"),
        (3, PullStatus.AWAITING_FEEDBACK, "same"),
        (2, PullStatus.AWAITING_FEEDBACK, ""),
    ]
    chain = encode_chains(pages(2))
    place = cursor()
    answers = {
        "watched_heads": rows,
        "threads_in_step": [3],
        "list_changed_pull_requests": [4],
        "cursors_at": {Surface.REPO_ISSUES: place},
        "feed_pages_of_thread": {Surface.REPO_ISSUES.value: chain},
    }

    def answer(name, *given):
        # The repository's own feeds have no number.
        assert given == (
            ("tx", "octo/stable", 0)
            if name.endswith(("_at", "_of_thread"))
            else ("tx", "octo/stable")
        )
        return answers[name]

    for name in answers:
        monkeypatch.setattr(poller, name, partial(answer, name))
    found = poller.read_poll_state("tx", SimpleNamespace(repo="octo/stable"))
    assert found.awaiting == {2, 3, 9} and found.blocked == {4} and found.in_step == {3}
    # Of equal heads the newest pull request counts.
    assert found.heads == {"same": 9, "other": 4} and found.is_due is True
    assert {one.value for one in found.surface_states} == {
        Surface.REPO_ISSUES,
        Surface.REPO_ISSUE_COMMENTS,
        Surface.REPO_REVIEW_COMMENTS,
        Surface.REPO_WORKFLOW_RUNS,
    }
    issues = found.surface_states[Surface.REPO_ISSUES]
    assert (issues.number, issues.cursor, issues.chain) == (0, place, pages(2))
    assert found.surface_states[Surface.REPO_WORKFLOW_RUNS].chain == ()
    monkeypatch.setattr(poller, "list_changed_pull_requests", lambda *_: [])
    assert poller.read_poll_state("tx", SimpleNamespace(repo="octo/stable")).is_due is False


def test_conversations_of_unfinished_tasks_are_read_by_whether_they_have_a_pull_request(
    monkeypatch,
):
    asked = []
    tasks = [
        SimpleNamespace(number=1, pr_number=None, by_hand=False),
        SimpleNamespace(number=2, pr_number=9, by_hand=False),
        SimpleNamespace(number=3, pr_number=None, by_hand=True),
    ]
    monkeypatch.setattr(poller, "tasks_in", lambda tx, states, repo: asked.append(states) or tasks)
    assert poller.list_issue_threads("tx", SimpleNamespace(repo="octo/stable")) == {
        1: Surface.ISSUE_PRE_PR_FOLLOWUPS,
        2: Surface.ISSUE_POST_PR_REDIRECTS,
    }
    assert TaskState.DONE not in asked[0] and TaskState.RUNNING in asked[0]


def test_the_stored_form_of_a_chain_is_a_list_of_rows():
    assert json.loads(encode_chains(pages(1))) == [["a", 1, "e", False, "n"]]
