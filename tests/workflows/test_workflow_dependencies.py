"""Tasks that wait for issues: circles, several repositories, and what became of other issues."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fake_forge import FakeForge
from hypothesis import given
from hypothesis import strategies as st
from intake_yard import BUGFIX, Yard

from hostler.clock import FakeClock
from hostler.errors import Forbidden, Gone, Moved, NotFound, RateLimited, ServerFailed, Unreachable
from hostler.forge.github.polling.poller import scan_repository
from hostler.intake.repo_policy import RepoPolicy
from hostler.model import RepoName, format_timestamp
from hostler.planner.dependencies import DependencyState
from hostler.planner.queue import read_blockers
from hostler.store.dependencies import CLOSED, MISSING, OPEN, IssueState, issues_known
from hostler.store.outbox import open_writes
from hostler.store.tasks import IssueRef, TaskState
from hostler.workflows.ingest import (
    MAX_REFRESHED,
    REFRESH_INTERVAL,
    WATCHED_REFRESH_INTERVAL,
    ingest_events,
    refresh_dependencies,
    select_due,
)
from hostler.workflows.status_comment import render_status_comment

BARN = RepoName("Octo", "Barn")


class Street:
    """A watched yard, and a repository that is only named."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.barn = FakeForge(yard.clock, BARN)

    def poll(self) -> None:
        yard = self.yard
        yard.tick()
        scan_repository(yard.store, yard.hub, yard.name)
        ingest_events(yard.store, yard.hub, yard.watch)

    def look(self, **more) -> list[str]:
        """A look, and what GitHub was asked about after it."""
        self.poll()
        return self.refresh(**more)

    def refresh(self, **more) -> list[str]:
        found = refresh_dependencies(self.yard.store, self.forge, self.yard.watch, **more)
        return [str(ref) for ref in found]

    def forge(self, name: RepoName) -> FakeForge:
        known = {"octo/stable": self.yard.hub, "octo/barn": self.barn}
        return known[str(name).lower()]

    def held(self, number: int) -> list[tuple[str, DependencyState]]:
        yard = self.yard
        (task,) = [task for task in yard.tasks() if task.number == number]
        with yard.store.read() as tx:
            found = read_blockers(tx, [task]).get(task.id, ())
        return [(one.name, one.state) for one in found]


@pytest.fixture
def street(yard: Yard) -> Street:
    return Street(yard)


def test_a_circle_between_issues_is_not_stored_but_told(street: Street):
    yard = street.yard
    one = yard.file("One", "ann", BUGFIX, body="Depends on #2 and #9")
    two = yard.file("Two", "ann", BUGFIX, body="Depends on #3")
    three = yard.file("Three", "ann", BUGFIX, body="Depends on #1")
    street.poll()
    tasks = {task.number: task for task in yard.tasks()}
    circle = "octo/stable#3 -> octo/stable#1 -> octo/stable#2 -> octo/stable#3"
    left_out = [task for task in tasks.values() if "dependency cycle detected" in task.reason]
    assert len(left_out) == 1 and left_out[0].number == three
    assert f"dependency cycle detected: {circle}. Its first dependency" in tasks[three].reason
    assert tasks[three].depends_on == ()
    assert tasks[one].depends_on == ("octo/stable#2", "octo/stable#9")
    assert tasks[two].depends_on == ("octo/stable#3",)
    with yard.store.read() as tx:
        comment = next(row for row in open_writes(tx) if row.scope_number == three)
    assert circle in comment.payload


def test_a_circle_that_was_opened_elsewhere_is_none_any_more(street: Street):
    yard = street.yard
    one = yard.file("One", "ann", BUGFIX, body="Depends on #2")
    two = yard.file("Two", "ann", BUGFIX, body="Depends on #1")
    street.poll()
    assert yard.tasks()[1].depends_on == ()
    yard.change(one, body="No more.")
    street.poll()
    yard.say(two, "look again")
    street.poll()
    first, second = yard.tasks()
    assert (first.depends_on, second.depends_on) == ((), ("octo/stable#1",))
    assert second.reason == ""


def test_an_issue_without_a_task_is_asked_for_once_and_then_tells_of_itself(street: Street):
    yard = street.yard
    other = yard.file("By hand", "ann")
    number = yard.file("Crash", "ann", BUGFIX, body=f"Depends on #{other}")
    # It arrived in the same look, so that nobody need be asked.
    assert street.look() == []
    assert street.held(number) == [("octo/stable#1", DependencyState.OPEN)]
    yard.change(other, state="closed")
    assert street.look() == [] and street.held(number) == []
    yard.change(other, state="open")
    assert street.look() == [] and street.held(number) == [("octo/stable#1", DependencyState.OPEN)]


def test_an_issue_from_before_our_time_is_asked_for(street: Street):
    yard = street.yard
    old = yard.file("Old", "ann")
    yard.change(old, state="closed")
    yard.clock.advance(3 * 86_400)
    street.poll()
    number = yard.file("Crash", "ann", BUGFIX, body="Depends on #1, #44")
    assert street.look() == ["octo/stable#1", "octo/stable#44"]
    assert street.held(number) == [("octo/stable#44", DependencyState.MISSING)]
    # What is closed stays so for us; what is not there may come to be.
    assert street.look() == []
    yard.clock.advance(REFRESH_INTERVAL.total_seconds())
    assert street.look() == ["octo/stable#44"]


def test_another_repository_is_asked_now_and_then_until_the_issue_is_closed(street: Street):
    yard, barn = street.yard, street.barn
    other = barn.file_issue("Elsewhere", by="eve")
    number = yard.file("Crash", "ann", BUGFIX, body=f"Depends on octo/barn#{other}")
    assert street.look() == ["octo/barn#1"] and street.look() == []
    assert street.held(number) == [("octo/barn#1", DependencyState.OPEN)]
    barn.change(other, state="closed")
    yard.clock.advance(REFRESH_INTERVAL.total_seconds())
    assert street.look() == ["octo/barn#1"] and street.held(number) == []
    yard.clock.advance(10 * REFRESH_INTERVAL.total_seconds())
    assert street.look() == []


def test_a_watched_repository_is_asked_rarely_and_heard_at_once(street: Street):
    yard = street.yard
    there = Yard(yard.store, yard.clock)
    there.hub, there.name = street.barn, BARN
    there.watch = RepoPolicy(BARN, "barn", yard.watch.allowed)
    other = there.file("Elsewhere", "eve")
    there.read()
    number = yard.file("Crash", "ann", BUGFIX, body=f"Depends on octo/barn#{other}")
    assert street.look(others=[BARN]) == ["octo/barn#1"]
    yard.clock.advance(REFRESH_INTERVAL.total_seconds())
    assert street.look(others=[BARN]) == []
    there.change(other, state="closed")
    there.read()
    ingest_events(yard.store, there.hub, there.watch)
    assert street.held(number) == []


def test_githubs_list_tells_the_state_too(street: Street):
    yard, barn = street.yard, street.barn
    other = barn.file_issue("Elsewhere", by="eve")
    number = yard.file("Crash", "ann", BUGFIX)
    yard.hub.block(number, other, barn)
    assert street.look() == [] and street.held(number) == [("octo/barn#1", DependencyState.OPEN)]
    barn.change(other, state="closed")
    yard.clock.advance(REFRESH_INTERVAL.total_seconds())
    street.refresh()
    assert street.held(number) == []


def test_an_issue_with_a_task_is_not_asked_for(street: Street):
    yard = street.yard
    yard.file("First", "ann", BUGFIX)
    yard.file("Second", "ann", BUGFIX, body="Depends on #1")
    assert street.look() == []
    assert street.held(2) == [("octo/stable#1", DependencyState.QUEUED)]
    yard.set(yard.tasks()[0], state=TaskState.DONE)
    assert street.held(2) == []


def test_nobody_is_asked_about_for_tasks_that_have_begun_or_are_over(street: Street):
    yard = street.yard
    yard.file("Begun", "ann", BUGFIX, body="Depends on octo/barn#1")
    yard.file("Over", "ann", BUGFIX, body="Depends on octo/barn#2")
    street.poll()
    begun, over = yard.tasks()
    yard.set(begun, attempt=1)
    yard.set(over, state=TaskState.STOPPED)
    assert street.refresh() == []


@pytest.mark.parametrize(
    "error",
    [
        NotFound("GET", 404, ""),
        Gone("GET", 410, ""),
        Forbidden("GET", 403, ""),
        Moved("GET", 301, "x"),
    ],
)
def test_what_cannot_be_seen_is_missing(street: Street, monkeypatch, error):
    yard = street.yard
    number = yard.file("Crash", "ann", BUGFIX, body="Depends on octo/barn#1")
    street.poll()
    monkeypatch.setattr(street.barn, "issue", _raising(error))
    street.refresh()
    assert street.held(number) == [("octo/barn#1", DependencyState.MISSING)]


@pytest.mark.parametrize("outage", [True, False])
def test_without_an_answer_nothing_is_believed(street: Street, monkeypatch, outage):
    yard = street.yard
    number = yard.file("Crash", "ann", BUGFIX, body="Depends on octo/barn#1, octo/barn#2")
    street.poll()
    limited = RateLimited("GET", 403, yard.clock.now(), "primary")
    for error in (limited, Unreachable("GET", "down")) if outage else (ServerFailed("GET", 500),):
        calls: list[int] = []
        monkeypatch.setattr(street.barn, "issue", _raising(error, calls))
        assert street.refresh() == []
        assert len(calls) == (1 if outage else 2)
    assert [standing for _, standing in street.held(number)] == [DependencyState.UNKNOWN] * 2


def _raising(error: Exception, calls: list[int] | None = None):
    def issue(number: int) -> object:
        if calls is not None:
            calls.append(number)
        raise error

    return issue


def test_a_look_asks_about_a_few_and_the_next_about_the_rest(street: Street):
    yard = street.yard
    names = ", ".join(f"octo/barn#{n}" for n in range(1, MAX_REFRESHED + 4))
    yard.file("Crash", "ann", BUGFIX, body=f"Depends on {names}")
    assert len(street.look()) == MAX_REFRESHED
    assert len(street.look()) == 3
    assert street.look() == []


NOW = FakeClock().now()
refs = st.builds(
    IssueRef.of,
    st.builds(RepoName, st.sampled_from(["a", "b"]), st.just("r")),
    st.integers(1, 20),
)


@given(st.sets(refs), st.data(), st.sets(st.sampled_from([RepoName("a", "r"), RepoName("b", "r")])))
def test_who_is_asked_about(wanted, data, watched):
    known = {
        ref: IssueState(
            str(ref.repo),
            ref.number,
            data.draw(st.sampled_from([OPEN, CLOSED, MISSING])),
            "",
            format_timestamp(NOW - timedelta(minutes=data.draw(st.integers(-5, 90)))),
        )
        for ref in wanted
        if data.draw(st.booleans())
    }
    chosen = select_due(wanted, known, watched, NOW)
    assert len(chosen) == len(set(chosen)) <= MAX_REFRESHED and set(chosen) <= wanted
    for ref in chosen:
        seen = known.get(ref)
        assert seen is None or seen.state != CLOSED
        if seen is not None:
            waited = (
                WATCHED_REFRESH_INTERVAL
                if ref.repo in watched and seen.state == OPEN
                else REFRESH_INTERVAL
            )
            assert seen.seen_at <= format_timestamp(NOW - waited)
    if len(chosen) < MAX_REFRESHED:
        assert wanted - known.keys() <= set(chosen)
    else:
        # Unknown ones come before all others.
        assert all(ref not in known for ref in chosen) or wanted - known.keys() <= set(chosen)


@pytest.mark.parametrize(
    ("count", "listed"),
    [
        (1, "o/r#1 is done"),
        (2, "o/r#1 and o/r#2 are done"),
        (5, "o/r#1, o/r#2, o/r#3, o/r#4 and o/r#5 are done"),
        (8, "o/r#1, o/r#2, o/r#3, o/r#4, o/r#5 and 3 others are done"),
    ],
)
def test_the_status_says_what_is_waited_for(street: Street, count, listed):
    yard = street.yard
    names = ", ".join(f"o/r#{number}" for number in range(1, count + 1))
    yard.file("Crash", "ann", BUGFIX, body=f"Depends on {names}")
    street.poll()
    task = yard.task()
    assert render_status_comment(task).endswith(
        f"An agent starts when {listed} and a slot is free."
    )
    assert "o/r" not in render_status_comment(replace(task, attempt=1))
    assert "o/r" not in render_status_comment(replace(task, state=TaskState.RUNNING))


def test_titles_of_other_issues_are_told_to_nobody(street: Street):
    yard, barn = street.yard, street.barn
    barn.file_issue("A secret plan", by="eve")
    number = yard.file("Crash", "ann", BUGFIX, body="Depends on octo/barn#1")
    street.look()
    street.poll()
    with yard.store.read() as tx:
        (known,) = issues_known(tx, [IssueRef.of(BARN, 1)]).values()
        written = [row.payload for row in open_writes(tx)]
        (task,) = [task for task in yard.tasks() if task.number == number]
        told = [one.sentence + one.remedy for one in read_blockers(tx, [task])[task.id]]
    assert known.title == "A secret plan"
    assert not any("secret" in text for text in [*written, *told])
