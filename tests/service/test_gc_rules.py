"""What may go, for any facts: never what is live, dirty or young; and why the rest stays."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from hostler.forge.github.polling.cursors import PollWindow, read_since, start_cursor
from hostler.intake.decisions import decide
from hostler.intake.model import IssueEvent, StartTask, ThreadState
from hostler.intake.repo_policy import RepoPolicy
from hostler.model import PollCursor, RepoName, Surface, format_timestamp
from hostler.service.gc.context import GcItem, GcKind, GcResult
from hostler.service.gc.rules import (
    NEVER,
    CheckoutFacts,
    IssueStatus,
    KeepReason,
    MirrorFacts,
    RunFacts,
    TaskFacts,
    ThreadFacts,
    WriteFacts,
    age_limit,
    classify_issue,
    earliest_replay,
    is_expired_log,
    is_old,
    judge_bus,
    judge_checkout,
    judge_family,
    judge_mirror,
    judge_run,
    judge_task,
    judge_thread,
    judge_write,
    must_keep_row,
)
from hostler.store.inbox import InboxRow
from hostler.store.runs import RunState
from hostler.store.tasks import OVER, TaskState

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LIMIT = age_limit(NOW, 30)
OLD, YOUNG = format_timestamp(NOW - timedelta(days=31)), format_timestamp(NOW - timedelta(days=29))

moments = some.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=some.just(UTC)).map(
    format_timestamp
)
stamps = some.lists(some.none() | moments, max_size=3).map(tuple)
states = some.sampled_from(TaskState)
truths = some.booleans()
runs = some.builds(
    RunFacts, some.sampled_from(RunState), stamps, truths, truths, some.none() | states
)
losses = some.none() | some.lists(some.text(), max_size=2).map(tuple)
checkouts = some.builds(CheckoutFacts, some.none() | states, stamps, truths, losses)
tasks = some.builds(
    TaskFacts,
    states,
    stamps,
    truths,
    truths,
    truths,
    truths,
    truths,
    truths,
    some.sampled_from(IssueStatus),
)
mirrors = some.builds(MirrorFacts, truths, truths, moments, truths, truths, truths, truths)
KINDS = ("issue", "issue_comment", "review_comment", "pull", "review")
by_kind = some.dictionaries(some.sampled_from(KINDS), moments)
threads = some.builds(
    ThreadFacts,
    stamps,
    by_kind,
    truths,
    some.none() | truths,
    truths,
    truths,
    some.lists(states, max_size=3).map(tuple),
    truths,
    truths,
)
writes = some.builds(
    WriteFacts,
    truths,
    stamps,
    truths,
    truths,
    truths,
    truths,
    some.lists(states, max_size=3).map(tuple),
)


def young(found: tuple[str | None, ...]) -> bool:
    return any(one is not None and one >= LIMIT for one in found) or not any(found)


@given(stamps)
def test_one_young_stamp_or_none_at_all_makes_a_thing_young(found):
    assert is_old(found, LIMIT) is not young(found)


@given(runs)
def test_no_folder_of_a_run_goes_that_is_live_young_newest_or_of_an_unfinished_task(run):
    if judge_run(run, LIMIT) is None:
        assert run.state is RunState.ENDED
        assert not run.locked and not run.newest and not young(run.stamps)
        assert run.task is None or run.task in OVER


@given(checkouts)
def test_no_checkout_goes_that_is_dirty_live_young_or_not_looked_into(checkout):
    if judge_checkout(checkout, LIMIT) is None:
        assert checkout.lost == ()
        assert not checkout.open_run and not young(checkout.stamps)
        assert checkout.task in OVER


@given(some.lists(tasks, min_size=1, max_size=4))
def test_families_go_whole_and_only_if_each_of_them_may(family):
    found = judge_family(family, LIMIT)
    assert len(set(found) & {None}) == 0 or set(found) == {None}
    assert (found[0] is None) == all(judge_task(one, LIMIT) is None for one in family)
    for one, why in zip(family, found, strict=True):
        if why is None:
            assert one.state in OVER and not young(one.stamps)
            assert not (one.open_run or one.checkout or one.open_pull or one.unsent or one.named)
            assert one.issue in (IssueStatus.NONE, IssueStatus.AT_REST)
            assert not one.words or one.state is TaskState.DONE


@given(mirrors)
def test_no_mirror_goes_that_anybody_needs(mirror):
    needed = [getattr(mirror, one.name) for one in fields(mirror) if one.name != "changed"]
    assert (judge_mirror(mirror, LIMIT) is None) == (not any(needed) and mirror.changed < LIMIT)


@given(threads, by_kind)
def test_no_thread_goes_that_is_open_unheard_of_use_or_shown_again(thread, floors):
    if judge_thread(thread, LIMIT, floors) is None:
        assert not young(thread.stamps)
        assert not thread.pending and not thread.watched_pull and thread.open is not True
        assert not thread.commanded and not thread.operations
        assert all(state is TaskState.DONE for state in thread.tasks)
        assert not thread.words or thread.tasks
        for kind, newest in thread.shown.items():
            assert kind in ("pull", "review") or newest < floors[kind]


@given(writes)
def test_no_write_goes_that_is_open_needed_young_or_of_an_unfinished_task(write):
    if judge_write(write, LIMIT) is None:
        assert write.settled and not write.needed and not young(write.stamps)
        assert all(state in OVER for state in write.tasks)
        assert not (must_keep_row(write) and write.bare)


@given(writes)
def test_what_says_which_comment_is_ours_keeps_its_row(write):
    assert must_keep_row(write) == (write.speaks and not write.superseded)


@given(states)
def test_old_files_of_a_bus_stay_while_its_task_is_not_over(state):
    assert (judge_bus(state) is None) == (state in OVER)
    assert judge_bus(None) is None


@given(some.dates(date(2024, 1, 1), date(2028, 1, 1)), some.integers(1, 400), some.integers(1, 400))
def test_logs_go_beyond_both_the_age_and_the_retention(day, days, retention):
    if is_expired_log(day, NOW.date(), days, retention):
        assert NOW.date() - day > timedelta(days=max(days, retention))
    else:
        assert NOW.date() - day <= timedelta(days=max(days, retention))


FINE_RUN = RunFacts(RunState.ENDED, (OLD,), newest=False, locked=False, task=TaskState.DONE)
FINE_CHECKOUT = CheckoutFacts(TaskState.DONE, (OLD,), open_run=False, lost=())
FINE_TASK = TaskFacts(TaskState.STOPPED, (OLD,))
FINE_MIRROR = MirrorFacts(False, False, OLD, False, False, False)
FINE_THREAD = ThreadFacts((OLD,), {"issue": OLD})
FINE_WRITE = WriteFacts(True, (OLD,))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"locked": True}, KeepReason.LIVE),
        ({"state": RunState.FINISHING}, KeepReason.LIVE),
        ({"task": TaskState.QUEUED}, KeepReason.UNFINISHED),
        ({"task": None}, None),
        ({"stamps": (OLD, YOUNG)}, KeepReason.YOUNG),
        ({"newest": True}, KeepReason.NEWEST),
    ],
)
def test_reasons_of_runs(change, why):
    assert judge_run(replace(FINE_RUN, **change), LIMIT) is why


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"lost": ("file",)}, KeepReason.DIRTY),
        ({"lost": None}, KeepReason.DIRTY),
        ({"task": None}, KeepReason.STRANGE),
        ({"open_run": True}, KeepReason.LIVE),
        ({"task": TaskState.PARKED}, KeepReason.UNFINISHED),
        ({"stamps": (YOUNG,)}, KeepReason.YOUNG),
    ],
)
def test_reasons_of_checkouts(change, why):
    assert judge_checkout(replace(FINE_CHECKOUT, **change), LIMIT) is why


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"open_run": True}, KeepReason.LIVE),
        ({"state": TaskState.NEEDS_INPUT}, KeepReason.UNFINISHED),
        ({"stamps": (YOUNG,)}, KeepReason.YOUNG),
        ({"checkout": True}, KeepReason.CHECKOUT),
        ({"open_pull": True}, KeepReason.PULL),
        ({"unsent": True}, KeepReason.UNSENT),
        ({"words": True}, KeepReason.WORDS),
        ({"words": True, "state": TaskState.DONE}, None),
        ({"named": True}, KeepReason.NAMED),
        ({"issue": IssueStatus.OPEN}, KeepReason.OPEN_ISSUE),
        ({"issue": IssueStatus.MAY_BEGIN}, KeepReason.BEGUN_ANEW),
        ({"issue": IssueStatus.AT_REST}, None),
    ],
)
def test_reasons_of_tasks(change, why):
    assert judge_task(replace(FINE_TASK, **change), LIMIT) is why


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"watched": True}, KeepReason.WATCHED),
        ({"changed": YOUNG}, KeepReason.YOUNG),
        ({"unfinished": True}, KeepReason.UNFINISHED),
        ({"borrowed": True}, KeepReason.BORROWED),
        ({"keeps": True}, KeepReason.KEPT_WORK),
        ({"service": True}, KeepReason.SERVICE),
        ({"busy": True}, KeepReason.BUSY),
    ],
)
def test_reasons_of_mirrors(change, why):
    assert judge_mirror(replace(FINE_MIRROR, **change), LIMIT) is why


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"stamps": (YOUNG,)}, KeepReason.YOUNG),
        ({"pending": True}, KeepReason.PENDING),
        ({"commanded": True}, KeepReason.COMMANDED),
        ({"operations": True}, KeepReason.OPERATIONS),
        ({"tasks": (TaskState.DONE, TaskState.QUEUED)}, KeepReason.UNFINISHED),
        ({"tasks": (TaskState.STOPPED,)}, KeepReason.AGAIN),
        ({"tasks": (TaskState.FAILED,)}, KeepReason.AGAIN),
        ({"tasks": (TaskState.DONE,), "words": True}, None),
        ({"words": True}, KeepReason.WORDS),
        ({"watched_pull": True}, KeepReason.PULL),
        ({"open": True}, KeepReason.OPEN_THREAD),
        ({"open": False}, None),
        ({"shown": {"issue": OLD, "review_comment": OLD}}, KeepReason.SHOWN_AGAIN),
        ({"shown": {"something": OLD}}, KeepReason.SHOWN_AGAIN),
        ({"shown": {"issue": YOUNG}}, KeepReason.SHOWN_AGAIN),
        ({"shown": {"pull": OLD, "review": OLD}}, None),
    ],
)
def test_reasons_of_threads(change, why):
    assert judge_thread(replace(FINE_THREAD, **change), LIMIT, {"issue": LIMIT}) is why


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"settled": False}, KeepReason.UNSENT),
        ({"needed": True}, KeepReason.UNSENT),
        ({"tasks": (TaskState.RUNNING,)}, KeepReason.UNFINISHED),
        ({"tasks": (TaskState.FAILED,)}, None),
        ({"stamps": (YOUNG,)}, KeepReason.YOUNG),
        ({"speaks": True}, None),
        ({"speaks": True, "bare": True}, KeepReason.OURS),
        ({"speaks": True, "bare": True, "superseded": True}, None),
    ],
)
def test_reasons_of_writes(change, why):
    assert judge_write(replace(FINE_WRITE, **change), LIMIT) is why


days = some.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1), timezones=some.just(UTC))
spans = some.timedeltas(timedelta(0), timedelta(days=3))
windows = some.builds(PollWindow, spans, spans, spans)


def cursor_at(moment: str, *, complete: bool = True) -> PollCursor:
    return PollCursor(Surface.REPO_ISSUES, 0, moment, 7, complete, OLD)


@given(days, days, days, some.timedeltas(timedelta(0), timedelta(days=3)), windows)
@example(NOW + timedelta(days=9), NOW, NOW, timedelta(0), PollWindow())
@example(NOW, NOW, NOW + timedelta(days=9), timedelta(0), PollWindow())
@example(NOW, NOW + timedelta(days=9), NOW, timedelta(days=9), PollWindow())
def test_no_later_reading_begins_before_the_floor(cursor, newest, ours, later, window):
    """Whatever our clock says, and whether the cursor is believed or set back."""
    found = cursor_at(format_timestamp(cursor))
    low = earliest_replay(found, format_timestamp(newest), ours, window)
    github = newest + later  # What was shown, was shown in the past of every later reading.
    begins = read_since(start_cursor(found, github, window), window)
    assert low <= format_timestamp(begins)


@given(days, days, some.sampled_from(["", "yesterday", "2026-01-01"]))
def test_without_a_cursor_to_go_by_everything_stays(newest, ours, wrong):
    shown = format_timestamp(newest)
    assert earliest_replay(None, shown, ours, PollWindow()) == NEVER
    assert earliest_replay(cursor_at(shown, complete=False), shown, ours, PollWindow()) == NEVER
    assert earliest_replay(cursor_at(wrong), shown, ours, PollWindow()) == NEVER
    assert earliest_replay(cursor_at(shown), "", ours, PollWindow()) == NEVER


LABELS = ("agent:design", "agent:bugfix", "agent:small-job", "agent:ignore", "help", "Agent:Bugfix")
WATCH = RepoPolicy(RepoName("octo", "stable"), "stable", frozenset({"alice"}))


def issue(author: str, labels: frozenset[str], *, is_open: bool = False) -> IssueEvent:
    row = InboxRow("octo/stable", "k", "issue", 7, 70, author, OLD, json.dumps({}))
    return IssueEvent(row, "Title", "Body", labels, is_open, is_pull=False)


@given(some.sampled_from(["alice", "Alice", "eve"]), some.frozensets(some.sampled_from(LABELS)))
def test_an_issue_at_rest_begins_nothing_when_it_is_reopened(author, labels):
    seen = issue(author, labels)
    reopened = replace(seen, is_open=True)
    assert classify_issue(reopened, WATCH) is IssueStatus.OPEN
    rests = classify_issue(seen, WATCH) is IssueStatus.AT_REST
    labelled_by_anybody = dict.fromkeys(labels, "alice")
    decision = decide(reopened, ThreadState(labellers=labelled_by_anybody), WATCH)
    begins = any(isinstance(effect, StartTask) for effect in decision.effects)
    assert rests is not begins
    assert classify_issue(seen, None) is IssueStatus.AT_REST


def test_an_issue_of_which_nothing_is_known_may_begin_unless_nobody_listens():
    assert classify_issue(None, WATCH) is IssueStatus.MAY_BEGIN
    assert classify_issue(None, None) is IssueStatus.AT_REST


@given(some.lists(some.none() | some.sampled_from(KeepReason), max_size=20))
def test_everything_found_is_gone_kept_or_too_young_to_tell(reasons):
    swept = GcResult(GcKind.RUNS)
    swept.add([GcItem(str(n), 1, why) for n, why in enumerate(reasons)])
    assert len(swept.gone) == swept.size == reasons.count(None)
    assert len(swept.kept) == len(reasons) - reasons.count(None) - reasons.count(KeepReason.YOUNG)
    assert sum(swept.reasons().values()) == len(swept.kept)
    assert swept.refused is (KeepReason.REFUSED in reasons)


def test_every_reason_can_be_the_one():
    """No reason is left that nothing gives; two come from elsewhere."""
    told = {KeepReason.FAMILY, KeepReason.REFUSED}
    told |= {why for one in _tables() for _, why in one if why is not None}
    assert told == set(KeepReason)


def _tables():
    names = ("runs", "checkouts", "tasks", "mirrors", "threads", "writes")
    for name in names:
        mark = globals()[f"test_reasons_of_{name}"].pytestmark[0]
        yield mark.args[1]
