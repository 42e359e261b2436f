"""What tasks of issues wait for, from text and from GitHub's own list, on a database."""

from __future__ import annotations

import pytest
from fake_forge import FakeForge
from intake_yard import BUGFIX, DESIGN, Yard

from hostler.errors import Forbidden, Gone, RateLimited, ServerFailed, Unreachable
from hostler.intake import process
from hostler.intake.manual_start import start_issue
from hostler.intake.markdown import SELF_DEPENDENCY
from hostler.intake.process import fetch_blockers, find_issues_without_blockers
from hostler.intake.rules import APPROVAL_VOID, BLOCKERS_UNKNOWN
from hostler.model import RepoName
from hostler.store.inbox import pending_inbox_rows
from hostler.store.tasks import Flow, Task, TaskState


def newest(yard: Yard) -> Task:
    return yard.tasks()[-1]


def test_a_task_waits_for_what_its_approved_text_names(yard: Yard):
    yard.file("First", "ann")
    yard.file("Crash", "ann", BUGFIX, body="Depends on #1 and Octo/Barn#9.")
    yard.poll()
    assert yard.task().depends_on == ("octo/stable#1", "octo/barn#9")


def test_a_dependency_on_itself_is_left_out_and_told(yard: Yard):
    number = yard.file("Crash", "ann", BUGFIX, body="Depends on #1, #2")
    taken = yard.poll()
    task = yard.task()
    assert (task.depends_on, task.reason) == (("octo/stable#2",), SELF_DEPENDENCY)
    assert SELF_DEPENDENCY in yard.reasons(taken, number)[0]


def test_githubs_list_counts_beside_the_text(yard: Yard):
    barn = FakeForge(yard.clock, RepoName("Octo", "Barn"))
    yard.file("First", "ann")
    number = yard.file("Crash", "ann", BUGFIX, body="Depends on #9")
    yard.block(number, 1)
    yard.hub.block(number, barn.file_issue("Elsewhere", by="ann"), barn)
    yard.poll()
    assert yard.task().depends_on == ("octo/stable#9", "octo/barn#1", "octo/stable#1")


def test_an_allowed_edit_changes_what_a_task_waits_for(yard: Yard):
    yard.file("First", "ann")
    number = yard.file("Crash", "ann", BUGFIX, body="Depends on #9 and #2")
    yard.block(number, 1)
    yard.poll()
    assert yard.task().reason == SELF_DEPENDENCY
    yard.change(number, body="Depends on #8")
    yard.poll()
    task = yard.task()
    assert (task.depends_on, task.reason) == (("octo/stable#8", "octo/stable#1"), "")


def test_githubs_list_is_followed_as_it_changes(yard: Yard):
    yard.file("First", "ann")
    number = yard.file("Crash", "ann", BUGFIX, body="Depends on #9")
    yard.poll()
    assert yard.task().depends_on == ("octo/stable#9",)
    yard.block(number, 1)
    taken = yard.poll()
    assert yard.task().depends_on == ("octo/stable#9", "octo/stable#1")
    assert "Its dependencies have changed." in yard.reasons(taken, number)
    yard.tick()
    yard.hub.unblock(number)
    yard.poll()
    assert yard.task().depends_on == ("octo/stable#9",)
    yard.label(number, "other", "ann")
    assert yard.reasons(yard.poll(), number) == ["It already has a task."]


def test_a_task_that_has_begun_waits_for_nobody_more(yard: Yard):
    yard.file("First", "ann")
    number = yard.file("Crash", "ann", BUGFIX)
    yard.poll()
    yard.set(yard.task(), attempt=1, state=TaskState.RETRYING)
    yard.block(number, 1)
    yard.change(number, body="Depends on #9")
    yard.poll()
    assert yard.task().depends_on == ()


def test_a_strangers_edit_counts_only_with_its_approval(yard: Yard):
    number = yard.file("Crash", "mallory", body="Depends on #8")
    yard.label(number, BUGFIX, "ann")
    yard.poll()
    assert yard.task().depends_on == ("octo/stable#8",)
    yard.change(number, body="Depends on #9")
    yard.poll()
    task = yard.task()
    # Nothing starts before somebody allowed has said so; then it is this text that counts.
    assert (task.state, task.reason) == (TaskState.NEEDS_INPUT, APPROVAL_VOID)
    assert task.depends_on == ("octo/stable#9",)


def test_what_follows_a_design_waits_for_the_same(yard: Yard):
    yard.file("Cache", "ann", DESIGN, body="Depends on #9")
    yard.poll()
    pull = yard.open_pull(yard.task())
    yard.tick()
    yard.hub.merge(pull)
    yard.poll()
    following = newest(yard)
    assert following.flow is Flow.IMPLEMENTATION
    assert following.depends_on == ("octo/stable#9",)


def test_the_operators_word_waits_for_nothing(yard: Yard):
    number = yard.file("Crash", "ann", BUGFIX, body="Depends on #9")
    with yard.store.write("tasks") as tx:
        start_issue(tx, yard.watch, yard.hub.issue(number))
    assert yard.task().depends_on == ()
    yard.poll()
    assert yard.task().depends_on == ()
    # Nor does an edit make it wait: it was to begin now.
    yard.change(number, body="Depends on #8")
    yard.poll()
    assert yard.task().depends_on == ()


@pytest.mark.parametrize("error", [ServerFailed("GET", 502), Unreachable("GET", "down")])
def test_an_issue_waits_while_github_does_not_say_what_blocks_it(yard: Yard, monkeypatch, error):
    yard.file("First", "ann")
    number = yard.file("Crash", "ann", BUGFIX)
    yard.block(number, 1)

    def silent(number: int) -> list[object]:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(yard.hub, "blocked_by", silent)
        taken = yard.poll()
    assert yard.tasks() == [] and BLOCKERS_UNKNOWN.reason in yard.reasons(taken, number)
    yard.poll()
    assert yard.task().depends_on == ("octo/stable#1",)
    # An edit waits in the same way, and is not lost.
    yard.change(number, body="Depends on #9")
    with monkeypatch.context() as patch:
        patch.setattr(yard.hub, "blocked_by", silent)
        yard.poll()
    assert yard.task().depends_on == ("octo/stable#1",)
    yard.poll()
    assert yard.task().depends_on == ("octo/stable#9", "octo/stable#1")


@pytest.mark.parametrize("error", [Forbidden("GET", 403, "no"), Gone("GET", 410, "no")])
def test_what_github_will_not_talk_about_holds_nobody(yard: Yard, monkeypatch, error):
    number = yard.file("Crash", "ann", BUGFIX)
    yard.block(number, number)

    def refused(number: int) -> list[object]:
        raise error

    monkeypatch.setattr(yard.hub, "blocked_by", refused)
    yard.poll()
    assert yard.task().depends_on == ()


def test_github_is_asked_only_where_it_matters(yard: Yard):
    yard.file("First", "ann")
    plain, labelled = yard.file("Idea", "ann"), yard.file("Crash", "ann", BUGFIX)
    ignored = yard.file("Off", "ann", BUGFIX, "agent:ignore")
    closed, free = yard.file("Over", "ann", BUGFIX), yard.file("Free", "ann", BUGFIX)
    for number in (plain, labelled, ignored, closed):
        yard.block(number, 1)
    yard.change(closed, state="closed")
    # An older host does not say how many there are.
    silent = yard.file("Older", "ann", BUGFIX)
    yard.change(silent, issue_dependencies_summary=None)
    yard.read()
    with yard.store.read() as tx:
        assert find_issues_without_blockers(tx, yard.watch) == [labelled, silent]
    assert free not in (labelled, silent)


def test_a_crowd_is_asked_about_in_several_looks(yard: Yard, monkeypatch):
    monkeypatch.setattr(process, "MAX_QUERIED_ISSUES", 2)
    first = yard.file("First", "ann")
    numbers = [yard.file("Crash", "ann", BUGFIX) for _ in range(5)]
    for number in numbers:
        yard.block(number, first)
    for done in (2, 4, 5):
        yard.poll()
        assert [task.number for task in yard.tasks()] == numbers[:done]
    with yard.store.read() as tx:
        assert pending_inbox_rows(tx, yard.name) == []


def test_an_outage_ends_the_asking_and_one_bad_answer_does_not(yard: Yard, monkeypatch):
    def asked(error: Exception) -> list[int]:
        calls: list[int] = []

        def answer(number: int) -> list[object]:
            calls.append(number)
            raise error

        monkeypatch.setattr(yard.hub, "blocked_by", answer)
        assert fetch_blockers(yard.hub, [1, 2, 3]) == {}
        return calls

    assert asked(ServerFailed("GET", 500)) == [1, 2, 3]
    assert asked(RateLimited("GET", 403, yard.clock.now(), "primary")) == [1]
    assert asked(Unreachable("GET", "down")) == [1]
