"""The feeds' rules under any input: cursors, chains, rhythm, sweep, doubts, percentiles."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hostler.forge.github.polling import cursors, full_scan, schedule, workflow_runs
from hostler.forge.github.polling.context import p95
from hostler.forge.github.polling.cursors import CursorState, PollWindow
from hostler.forge.github.polling.schedule import (
    NEWEST_REVIEW_PAGE,
    RUNS_PAGE,
    PollCount,
    SweepSchedule,
    SweepTarget,
    next_sweep_target,
)
from hostler.forge.port import Item, ItemKind, KnownPage, ListReading, WorkflowRun
from hostler.model import PollCursor, Surface, format_timestamp

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WINDOW = PollWindow()
moments = st.integers(0, 10**6).map(lambda seconds: NOW - timedelta(seconds=seconds))
texts = st.text(max_size=12)


def cursor(at, number=0, complete=True):
    return PollCursor(Surface.REPO_ISSUES, 0, at, number, complete, "")


def item(second, number=1, kind=ItemKind.ISSUE_COMMENT, **payload):
    at = (NOW + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")
    run = WorkflowRun(
        number,
        "CI",
        "push",
        payload.get("head_sha", ""),
        payload.get("status", ""),
        payload.get("conclusion") or "",
        1,
        created_at=payload.get("created_at", at),
    )
    return Item(kind, number, 7, "alice", "", at, run)


# -- cursors ----------------------------------------------------------------------------------


@given(moments, st.integers(0, 10**9), st.booleans())
def test_a_sound_cursor_means_what_it_says_at_any_later_time(at, number, complete):
    mark = cursors.cursor_state(cursor(format_timestamp(at), number, complete))
    assert mark == CursorState(at, number, fresh=not complete)
    assert cursors.start_cursor(cursor(format_timestamp(at), number, complete), NOW, WINDOW) == mark


@given(st.one_of(texts, st.none(), st.integers()), st.one_of(texts, st.none(), st.integers()))
def test_whatever_a_cursor_holds_it_is_read_or_set_back(at, number):
    mark = cursors.start_cursor(cursor(at, number), NOW, WINDOW)
    assert mark.at <= NOW + cursors.CLOCK_TOLERANCE
    assert not mark.invalid or mark.at == NOW - WINDOW.safe_backfill


@given(st.integers(61, 10**6))
def test_a_cursor_after_githubs_time_is_set_back(seconds):
    future = cursor(format_timestamp(NOW + timedelta(seconds=seconds)))
    assert cursors.start_cursor(future, NOW, WINDOW) == CursorState(
        NOW - WINDOW.safe_backfill, invalid=True
    )


@given(moments, st.lists(st.integers(-1000, 1000).map(item), max_size=8), st.booleans())
def test_a_mark_never_moves_back_and_reaches_the_newest_item(at, items, complete):
    after = cursors.advance_cursor(CursorState(at), items, complete=complete)
    assert after.at >= at
    assert all(format_timestamp(after.at) >= one.updated_at[:-1] + ".000Z" for one in items)


@given(moments, st.integers(0, 400), st.integers(0, 400))
def test_since_moves_with_the_mark_alone(at, overlap, late):
    window = PollWindow(timedelta(seconds=overlap), timedelta(seconds=late))
    assert cursors.read_since(CursorState(at, 1), window) == cursors.read_since(
        CursorState(at, 2, fresh=True), window
    )
    assert cursors.read_since(CursorState(at), window) == at - timedelta(seconds=overlap + late)


# -- chains -----------------------------------------------------------------------------------

pages = st.builds(KnownPage, texts, st.integers(1, 9), texts, st.booleans(), texts)


@given(st.lists(pages, max_size=12).map(tuple))
def test_a_chain_is_read_as_it_was_written(chain):
    assert cursors.decode_chains(cursors.encode_chains(chain)) == chain


@given(st.one_of(texts, st.sampled_from(["null", "1", '{"a": 1}', "[[1]]", "[1]", '[["",1,2,3]]'])))
def test_a_damaged_chain_is_none(text):
    assert cursors.decode_chains(text) == ()


@given(st.lists(pages, max_size=12).map(tuple), st.booleans())
def test_a_chain_is_kept_only_if_it_can_prove_that_nothing_is_new(chain, complete):
    kept = cursors.keep_chain(ListReading((), complete, chain))
    assert kept in ((), chain)
    if kept:
        assert complete and not kept[-1].full and len(kept) <= cursors.MAX_STORED_PAGES
        assert all(page.etag for page in kept)


@given(st.lists(st.booleans(), max_size=6), st.lists(st.booleans(), max_size=6), st.integers(1, 6))
def test_pages_of_reviews_are_known_from_the_first_on_without_a_gap(known, found, start):
    chain = tuple(KnownPage("", n, "old", full) for n, full in enumerate(known, 1))
    anew = tuple(KnownPage("", n, "new", full) for n, full in enumerate(found, start))
    whole = cursors.splice_chain(chain, anew)
    assert [page.number for page in whole] == list(range(1, len(whole) + 1))
    assert all(page.full for page in whole[:-1])
    assert all(page.etag == "new" for page in whole if page.number in {p.number for p in anew})
    count = cursors.count_pages(whole)
    assert count >= 1 and count in (len(whole), len(whole) + 1)
    assert cursors.page_number(whole, count).number == count


# -- rhythm -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60), st.integers(1, 12))
def test_the_rest_is_read_at_least_every_so_many_polls(polls, every):
    pulse, quiet = PollCount(), 0
    for place, (active, touched) in enumerate(polls):
        due = schedule.is_full_poll_due(pulse, active=active, touched=touched, every=every)
        assert due or not (active or touched or place == 0)
        quiet = 0 if due else quiet + 1
        assert quiet < every
        pulse = schedule.after_poll(pulse)


def test_a_rest_that_is_owed_is_read_by_the_next_poll():
    assert schedule.is_full_poll_due(
        PollCount(0, is_due=True), active=False, touched=False, every=1000
    )


@given(st.integers(1, 50), st.integers(1, 50))
def test_repositories_that_begin_together_rest_apart(every, repos):
    """Each reads everything at the beginning, when touched, and then every so many polls."""
    names = [f"octo/repo{number}" for number in range(repos)]
    for name in names:
        pulse, rests = PollCount(phase=schedule.poll_phase(name, every)), []
        for poll in range(4 * every):
            # All of them are touched by what they have just been told for the first time.
            rest = schedule.is_full_poll_due(pulse, active=False, touched=poll == 1, every=every)
            rests += [poll] if rest else []
            pulse = schedule.after_poll(pulse)
        assert rests[:2] == [0, 1]
        assert {poll % every for poll in rests[2:]} == {-schedule.poll_phase(name, every) % every}
        assert all(later - earlier == every for earlier, later in pairwise(rests[2:]))
    if every > 1:
        assert len({schedule.poll_phase(f"octo/repo{number}", every) for number in range(500)}) > 1


@given(st.integers(0, 10**6), st.integers(0, 500))
def test_what_is_behind_the_mark_is_all_that_can_still_come(at, later):
    """Whatever changed up to the mark is visible when a reading is settled."""
    mark, window = CursorState(NOW + timedelta(milliseconds=at), 1), PollWindow()
    now = mark.at + timedelta(seconds=later)
    newest = mark.at.replace(microsecond=999_000)
    assert (
        cursors.read_since_after(mark) > mark.at and cursors.read_since_after(mark).microsecond == 0
    )
    if cursors.is_settled(mark, now, window):
        assert newest + window.late_visibility < now


# -- sweep ------------------------------------------------------------------------------------


@given(st.dictionaries(st.integers(1, 99), st.integers(1, 4), min_size=1, max_size=8))
def test_a_round_of_the_sweep_meets_everything_once(pages_of):
    numbers, spot, seen = sorted(pages_of), None, []
    for _ in range(sum(pages_of.values()) + len(pages_of)):
        spot = next_sweep_target(spot, pages_of[spot.number] if spot else 1, numbers)
        seen.append((spot.number, spot.page))
    wanted = [(n, page) for n in numbers for page in range(pages_of[n] + 1)]
    assert seen == wanted
    assert next_sweep_target(spot, pages_of[spot.number], numbers) == SweepTarget(numbers[0], 0)


@given(st.lists(st.lists(st.integers(1, 6), unique=True), max_size=30))
def test_the_sweep_never_asks_for_what_is_not_followed(followed):
    sweeper = SweepSchedule()
    for place, numbers in enumerate(followed):
        sweeper.note_move(place % 7, NOW + timedelta(seconds=place))
        spot = sweeper.next_target(sorted(numbers), NOW)
        assert (spot is None) == (not numbers)
        if spot is not None:
            assert spot.number in numbers
            sweeper.note_sweep(spot, 1)


def test_who_has_moved_is_asked_for_in_every_second_turn_until_it_is_too_late():
    sweeper = SweepSchedule()
    sweeper.note_move(3, NOW + timedelta(seconds=300))
    turns = [sweeper.next_target([1, 2, 3], NOW) for _ in range(4)]
    assert turns.count(SweepTarget(3, NEWEST_REVIEW_PAGE)) == 2
    later = NOW + timedelta(seconds=301)
    assert SweepTarget(3, NEWEST_REVIEW_PAGE) not in [
        sweeper.next_target([1, 2, 3], later) for _ in range(4)
    ]


def sweep_targets(sweep, followed, pages_of, count):
    """Sweep so often, where each pull request has so many pages of reviews."""
    targets = []
    for _ in range(count):
        target = sweep.next(followed, NOW)
        sweep.swept(target, pages_of[target.number])
        targets.append((target.number, target.page))
    return targets


def test_a_sweep_goes_on_after_the_last_page_that_was_swept():
    found = sweep_targets(SweepSchedule(), [1, 2], {1: 2, 2: 1}, 6)
    assert found == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (1, 0)]


def test_workflow_runs_are_swept_after_the_reviews_where_they_are_of_use():
    found = sweep_targets(SweepSchedule(runs=True), [1, 2], {1: 1, 2: 1}, 6)
    assert found == [(1, 0), (1, 1), (1, RUNS_PAGE), (2, 0), (2, 1), (2, RUNS_PAGE)]


def test_pull_requests_that_moved_take_turns_and_the_round_goes_on_between_them():
    sweep = SweepSchedule()
    for number in (3, 4):
        sweep.moved(number, NOW + timedelta(seconds=1))
    found = sweep_targets(sweep, [1, 3, 4], {1: 1, 3: 5, 4: 5}, 6)
    newest = [(3, NEWEST_REVIEW_PAGE), (4, NEWEST_REVIEW_PAGE), (3, NEWEST_REVIEW_PAGE)]
    assert found[::2] == newest and found[1::2] == [(1, 0), (1, 1), (3, 0)]


def test_a_pull_request_has_moved_only_before_the_given_time():
    sweep = SweepSchedule()
    sweep.moved(3, NOW)
    assert sweep.next([3], NOW) == SweepTarget(3, 0)


# -- workflow runs ----------------------------------------------------------------------------

some_runs = st.lists(
    st.tuples(st.integers(-500, 500), st.booleans(), st.booleans()), max_size=8
).map(
    lambda rows: [
        (item(s, n, ItemKind.WORKFLOW_RUN, status="completed" if over else "queued"), mine)
        for n, (s, over, mine) in enumerate(rows)
    ]
)


@given(some_runs)
def test_the_mark_of_runs_never_passes_one_of_ours_that_is_not_over(found):
    mine = [run for run, ours in found if ours]
    after = workflow_runs.next_runs_cursor(CursorState(NOW), [run for run, _ in found], mine)
    assert after.at >= NOW
    for run in mine:
        created = datetime.fromisoformat(run.content.created_at)
        if run.content.status != "completed" and created >= NOW:
            assert after.at <= created


# -- doubts -----------------------------------------------------------------------------------


@given(st.lists(st.sets(st.sampled_from("abc")), max_size=20), st.integers(1, 5))
def test_a_difference_is_reported_once_and_only_if_it_lasts(rounds, polls):
    doubts, told, lasting = full_scan.MissedItems(), [], dict.fromkeys("abc", 0)
    for place, missing in enumerate(rounds):
        now = NOW + timedelta(seconds=100 * place)
        doubts, ripe = full_scan.compare_scans(
            doubts, dict.fromkeys(missing, 7), now, timedelta(seconds=300), polls
        )
        lasting = {key: lasting[key] + 1 if key in missing else 0 for key in lasting}
        for key in ripe:
            assert lasting[key] > max(polls, 3)
            assert key not in told
        told = [key for key in (*told, *ripe) if key in missing]
        assert all(key in told for key in missing if lasting[key] > max(polls, 3))


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=200))
def test_the_percentile_is_a_sample_that_few_exceed(samples):
    found = p95(samples)
    assert found in samples
    assert sum(sample > found for sample in samples) <= len(samples) * 0.05


def test_without_samples_the_percentile_is_nothing():
    assert p95([]) == 0.0
