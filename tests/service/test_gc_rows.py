"""Rows and folders that go together, threads, writes: on a real database, the whole round."""

from __future__ import annotations

import fcntl

import pytest
from gc_yard import HERE

from hostler.config.settings import Settings
from hostler.forge.actions import CreateLabel, add_marker
from hostler.forge.github.polling.cursors import PollWindow, read_since, start_cursor
from hostler.forge.github.polling.ingest import ingest_items
from hostler.forge.labels import queue_labels
from hostler.forge.outbox.queue import ignore_settled
from hostler.forge.port import CommentContent, Item, ItemKind
from hostler.model import Surface, parse_timestamp
from hostler.service.gc import database as tasks_module
from hostler.service.gc.context import GcKind
from hostler.service.gc.rules import KeepReason
from hostler.store.inbox import pending_inbox_rows
from hostler.store.operator import CommandRow, CommandStatus, add_command, find_command
from hostler.store.outbox import WriteState, find_write
from hostler.store.pull_requests import PullStatus, find_pull
from hostler.store.runs import RunState, find_run, runs_of
from hostler.store.tasks import Flow, TaskState

OVER = (TaskState.DONE, TaskState.FAILED, TaskState.STOPPED)


def names(swept):
    return [one.name for one in swept.gone]


def reasons(swept):
    return {one.name: one.why for one in swept.kept}


# Runs


def test_older_runs_of_a_finished_task_go_and_the_newest_stays(yard):
    task = yard.of_issue("t1", 7)
    first, second, third = (yard.run(task, name) for name in ("r1", "r2", "r3"))
    yard.age()
    swept = yard.gc(GcKind.RUNS)[GcKind.RUNS]
    assert names(swept) == ["r1", "r2"] and swept.size == 2000
    assert reasons(swept) == {"r3": KeepReason.NEWEST}
    assert not first.exists() and not second.exists() and third.exists()
    assert list(first.parent.iterdir()) == [third]
    with yard.store.read() as tx:
        assert len(runs_of(tx, "t1")) == 3


@pytest.mark.parametrize("state", [state for state in TaskState if state not in OVER])
def test_runs_of_a_task_that_is_not_over_stay(yard, state):
    task = yard.task("t1", state)
    folders = [yard.run(task, name) for name in ("r1", "r2")]
    yard.age()
    swept = yard.gc()[GcKind.RUNS]
    assert not swept.gone and set(reasons(swept).values()) == {KeepReason.UNFINISHED}
    assert all(folder.exists() for folder in folders)


def test_a_live_run_stays_whatever_its_task_says(yard):
    task = yard.task("t1", TaskState.STOPPED)
    yard.run(task, "r0")
    live = yard.run(task, "r1", RunState.RUNNING)
    yard.age()
    found = yard.gc()
    assert names(found[GcKind.RUNS]) == ["r0"]
    assert reasons(found[GcKind.RUNS]) == {"r1": KeepReason.LIVE}
    assert reasons(found[GcKind.TASKS]) == {"t1": KeepReason.LIVE}
    assert live.exists() and yard.has("t1")


def test_a_run_whose_lock_is_held_stays_though_its_row_has_ended(yard):
    task = yard.of_issue("t1", 7)
    held = yard.run(task, "r1")
    yard.run(task, "r2")
    with (held / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yard.age()
        assert reasons(yard.gc(GcKind.RUNS)[GcKind.RUNS])["r1"] is KeepReason.LIVE
    assert names(yard.gc(GcKind.RUNS)[GcKind.RUNS]) == ["r1"]


def test_a_task_with_a_run_whose_lock_is_held_stays(yard):
    task = yard.task("t1")
    held = yard.run(task, "r1")
    with (held / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yard.age()
        assert reasons(yard.gc()[GcKind.TASKS]) == {"t1": KeepReason.LIVE}
    assert names(yard.gc()[GcKind.TASKS]) == ["t1"]


def test_what_is_young_stays_and_is_not_told_of(yard):
    task = yard.task("t1")
    yard.run(task, "r1")
    yard.run(task, "r2")
    yard.age(29.9)
    assert all(not swept.gone and not swept.kept for swept in yard.gc().values())
    yard.age(0.2)
    assert names(yard.gc()[GcKind.TASKS]) == ["t1"]


def test_a_task_that_was_moved_lately_is_young(yard):
    task = yard.task("t1", TaskState.FAILED)
    yard.run(task, "r1")
    yard.run(task, "r2")
    yard.age()
    yard.move("t1", TaskState.STOPPED)
    assert not any(swept.gone for swept in yard.gc().values())


def test_a_folder_of_runs_that_is_a_link_is_not_followed(yard, tmp_path):
    task = yard.of_issue("t1", 7)
    runs = yard.run(task, "r1").parent
    yard.run(task, "r2")
    elsewhere = tmp_path / "mine"
    runs.rename(elsewhere)
    yard.write(elsewhere / ".mine.trash" / "file", "x")
    runs.symlink_to(elsewhere)
    yard.age()
    swept = yard.gc(GcKind.RUNS)[GcKind.RUNS]
    assert not swept.gone and reasons(swept)["r1"] is KeepReason.STRANGE
    assert (elsewhere / "r1" / "stdout").exists() and (elsewhere / ".mine.trash" / "file").exists()


# Tasks by hand


@pytest.mark.parametrize("state", OVER)
def test_a_finished_task_by_hand_goes_with_rows_and_folder(yard, state):
    task = yard.task("t1", state, prompt="p" * 500)
    yard.run(task, "r1")
    yard.age()
    found = yard.gc()
    assert names(found[GcKind.TASKS]) == ["t1"] and not found[GcKind.RUNS].gone
    assert found[GcKind.TASKS].size > 1500
    assert not yard.folder(task).exists() and not yard.has("t1")
    assert list(yard.folder(task).parent.iterdir()) == []
    with yard.store.read() as tx:
        assert find_run(tx, "r1") is None


def test_a_dry_run_says_the_same_and_touches_nothing(yard):
    task = yard.task("t1")
    folder = yard.run(task, "r1")
    issue = yard.of_issue("t2", 7)
    yard.run(issue, "r2")
    yard.run(issue, "r3")
    yard.sent("x", 9)
    yard.age()
    before = sorted(yard.home.rglob("*"))
    said = yard.gc(dry_run=True)
    assert sorted(yard.home.rglob("*")) == before
    assert folder.exists() and yard.has("t1")
    assert names(said[GcKind.TASKS]) == ["t1"] and names(said[GcKind.RUNS]) == ["r2"]
    done = yard.gc()
    for kind in GcKind:
        assert names(done[kind]) == names(said[kind])
        assert done[kind].size == said[kind].size


def test_only_the_kinds_that_are_named_are_touched(yard):
    task = yard.task("t1")
    old = yard.run(task, "r1")
    yard.run(task, "r2")
    yard.age()
    assert list(yard.gc(GcKind.RUNS)) == [GcKind.RUNS]
    assert not old.exists() and yard.has("t1")


def test_a_family_goes_whole(yard):
    yard.task("a")
    yard.task("a-1", parent_task="a")
    yard.task("a-1-1", TaskState.FAILED, parent_task="a-1")
    yard.age()
    assert set(names(yard.gc()[GcKind.TASKS])) == {"a", "a-1", "a-1-1"}


def test_a_family_stays_whole_for_one_of_it(yard):
    yard.task("a")
    yard.task("a-1", TaskState.PARKED, parent_task="a")
    yard.task("a-2", parent_task="a")
    yard.age()
    swept = yard.gc()[GcKind.TASKS]
    assert reasons(swept) == {
        "a": KeepReason.FAMILY,
        "a-1": KeepReason.UNFINISHED,
        "a-2": KeepReason.FAMILY,
    }


def test_a_child_that_is_young_keeps_its_parents(yard):
    yard.task("a")
    yard.age()
    yard.task("b", parent_task="a")
    assert not yard.gc()[GcKind.TASKS].gone


@pytest.mark.parametrize("state", [state for state in TaskState if state is not TaskState.DONE])
def test_what_a_task_that_is_not_done_depends_on_stays(yard, state):
    yard.task("a")
    issue = yard.of_issue("b", 7)
    yard.issue(7)
    yard.age()
    yard.task("c", state, depends_on=("a", "octo/stable#7"))
    assert reasons(yard.gc()[GcKind.TASKS]) == {"a": KeepReason.NAMED, issue.id: KeepReason.NAMED}


def test_dependencies_go_with_those_that_name_them(yard):
    yard.task("b")
    yard.task("a", TaskState.FAILED, depends_on=("b",))
    yard.task("d", depends_on=("c",))
    yard.task("c")
    yard.age()
    yard.gc()
    yard.gc()
    assert not any(yard.has(name) for name in "abcd")


def test_an_unsent_write_an_open_pull_request_and_words_keep_a_task(yard):
    one = yard.task("a", TaskState.STOPPED, repo_full_name=str(HERE))
    two = yard.task("b", TaskState.STOPPED, repo_full_name=str(HERE))
    yard.task("c", TaskState.STOPPED, repo_full_name=str(HERE))
    yard.pull(8, one, PullStatus.BLOCKED)
    yard.pull(9, two, PullStatus.CLOSED)
    yard.words("k", 0, pull=9)
    yard.sent("pull:c:0", kind="open_pull", state=WriteState.UNCLEAR)
    yard.age()
    swept = yard.gc()[GcKind.TASKS]
    assert reasons(swept) == {"a": KeepReason.PULL, "b": KeepReason.WORDS, "c": KeepReason.UNSENT}


def test_a_task_that_is_taken_up_again_in_between_stays(yard, monkeypatch):
    task = yard.task("t1", TaskState.STOPPED)
    folder = yard.run(task, "r1")
    yard.run(task, "r2")
    yard.age()
    look = tasks_module.TaskCollector.scan

    def look_and_be_late(self):
        for page in look(self):
            yard.move("t1", TaskState.QUEUED)
            yield page

    monkeypatch.setattr(tasks_module.TaskCollector, "scan", look_and_be_late)
    found = yard.gc()
    assert reasons(found[GcKind.TASKS]) == {"t1": KeepReason.UNFINISHED}
    assert reasons(found[GcKind.RUNS]) == {"r1": KeepReason.UNFINISHED, "r2": KeepReason.UNFINISHED}
    assert folder.exists()


def test_a_project_whose_name_no_folder_can_have_harms_nobody(yard):
    victim = yard.write(yard.home / "victim" / "file", "x")
    task = yard.task("t1", project="stable")
    yard.folder(task).joinpath("TASK.md").unlink()
    yard.folder(task).rmdir()
    with yard.store.write("tasks") as tx:
        tx.constant("UPDATE tasks SET project = '../victim' WHERE id = ?", ("t1",))
    yard.age()
    assert names(yard.gc()[GcKind.TASKS]) == ["t1"]
    assert victim.exists()


# Tasks of issues


def test_the_task_of_an_issue_stays_while_the_issue_is_open_or_could_begin_anew(yard):
    for number, state, labels in (
        (1, "open", ()),
        (2, "closed", ("agent:bugfix",)),
        (3, "closed", ()),
        (4, "closed", ("agent:bugfix", "agent:ignore")),
    ):
        yard.of_issue(f"t{number}", number)
        yard.issue(number, state, *labels)
    yard.of_issue("t5", 5)
    yard.age()
    swept = yard.gc()[GcKind.TASKS]
    assert names(swept) == ["t3", "t4"]
    assert reasons(swept) == {
        "t1": KeepReason.OPEN_ISSUE,
        "t2": KeepReason.BEGUN_ANEW,
        "t5": KeepReason.BEGUN_ANEW,
    }


def test_a_strangers_labelled_issue_keeps_its_task_too(yard):
    yard.of_issue("t1", 7)
    yard.issue(7, "closed", "agent:bugfix", author="eve")
    yard.age()
    assert reasons(yard.gc()[GcKind.TASKS]) == {"t1": KeepReason.BEGUN_ANEW}


def test_the_newest_version_of_the_issue_counts(yard):
    yard.of_issue("t1", 7)
    yard.issue(7, "closed")
    yard.age(1)
    yard.issue(7, "open")
    yard.age()
    assert reasons(yard.gc()[GcKind.TASKS]) == {"t1": KeepReason.OPEN_ISSUE}
    yard.issue(7, "closed")
    yard.age()
    assert names(yard.gc()[GcKind.TASKS]) == ["t1"]


def test_where_nobody_listens_any_more_a_closed_issue_keeps_nothing(yard):
    yard.settings = Settings()
    yard.of_issue("t1", 7)
    yard.issue(7, "closed", "agent:bugfix")
    yard.of_issue("t2", 8)
    yard.issue(8, "open", "agent:bugfix")
    yard.age()
    assert names(yard.gc()[GcKind.TASKS]) == ["t1"]


def test_a_design_and_its_implementation_go_together_with_their_pull_requests(yard):
    design = yard.of_issue("t1", 7, flow=Flow.DESIGN)
    work = yard.of_issue("t2", 7, flow=Flow.IMPLEMENTATION, parent_task="t1")
    yard.pull(8, design)
    yard.pull(9, work, PullStatus.AWAITING_FEEDBACK)
    yard.issue(7)
    yard.age()
    assert reasons(yard.gc()[GcKind.TASKS]) == {"t1": KeepReason.FAMILY, "t2": KeepReason.PULL}
    with yard.store.write() as tx:
        tx.constant("UPDATE pull_requests SET status = 'merged'")
    assert set(names(yard.gc()[GcKind.TASKS])) == {"t1", "t2"}
    with yard.store.read() as tx:
        assert find_pull(tx, HERE, 8) is None and find_pull(tx, HERE, 9) is None


# The inbox


def threads(yard):
    with yard.store.read() as tx:
        rows = tx.constant("SELECT DISTINCT scope_number FROM inbox ORDER BY 1")
        return [number for (number,) in rows]


def past(yard, days=40):
    """Time passes, and GitHub has shown something new since."""
    yard.age(days)
    yard.issue(999, "open")
    yard.cursors()


def test_a_closed_thread_goes_whole_once_its_tasks_are_done(yard):
    yard.of_issue("t1", 7)
    for state in ("open", "closed"):
        yard.issue(7, state, "agent:bugfix")
    yard.event(7)
    past(yard)
    swept = yard.gc()[GcKind.INBOX]
    assert names(swept) == ["octo/stable#7"] and swept.size > 100
    assert threads(yard) == [999]


@pytest.mark.parametrize("state", [state for state in TaskState if state is not TaskState.DONE])
def test_a_thread_stays_while_a_task_of_it_is_not_done(yard, state):
    task = yard.of_issue("t1", 7, state)
    yard.pull(8, task)
    yard.issue(7, "closed", "agent:bugfix")
    yard.event(7)
    yard.event(8, "review", payload={"verdict": "CHANGES_REQUESTED", "body": "No."})
    past(yard)
    assert not yard.gc()[GcKind.INBOX].gone
    assert threads(yard) == [7, 8, 999]


def test_why_threads_stay(yard):
    yard.issue(1, "open")
    yard.issue(2)
    yard.event(2, heard=False)
    yard.issue(3)
    done = yard.of_issue("t4", 4)
    yard.issue(4)
    yard.pull(5, done, PullStatus.AWAITING_FEEDBACK)
    yard.event(5, "review", payload={"verdict": "APPROVED", "body": ""})
    yard.issue(6)
    yard.words(yard.event(6), 6)
    yard.event(10, "issue", payload={"nonsense": True})
    past(yard)
    yard.event(3)
    assert reasons(yard.gc(GcKind.INBOX)[GcKind.INBOX]) == {
        "octo/stable#1": KeepReason.OPEN_THREAD,
        "octo/stable#2": KeepReason.PENDING,
        "octo/stable#5": KeepReason.PULL,
        "octo/stable#6": KeepReason.WORDS,
        "octo/stable#10": KeepReason.OPEN_THREAD,
    }
    assert threads(yard) == [1, 2, 3, 5, 6, 10, 999]


@pytest.mark.parametrize("status", CommandStatus)
def test_commands_go_with_their_thread_unless_somebody_waits_for_an_answer(yard, status):
    yard.issue(7)
    key = yard.event(7)
    row = CommandRow(key, str(HERE), 7, 1, "ann", "stop", yard.now(), status=status)
    with yard.store.write() as tx:
        add_command(tx, row)
    past(yard)
    swept = yard.gc()[GcKind.INBOX]
    with yard.store.read() as tx:
        assert (find_command(tx, key) is not None) is row.open
    assert reasons(swept).get("octo/stable#7") == (KeepReason.COMMANDED if row.open else None)


def test_the_operations_issue_stays_even_when_it_is_closed(yard):
    repo = yard.settings.repo["stable"]
    commanded = repo.model_copy(update={"operations_issue_number": 7})
    yard.settings = yard.settings.model_copy(update={"repo": {"stable": commanded}})
    yard.issue(7)
    yard.event(7)
    past(yard)
    assert reasons(yard.gc()[GcKind.INBOX])["octo/stable#7"] is KeepReason.OPERATIONS


def test_what_a_feed_may_show_again_stays(yard):
    """The cursor of reviews stands where the last remark was, however long ago."""
    yard.issue(7)
    yard.event(7, "review_comment")
    at_that_time = yard.now()
    past(yard)
    yard.cursor(Surface.REPO_REVIEW_COMMENTS, at_that_time)
    assert reasons(yard.gc(GcKind.INBOX)[GcKind.INBOX])["octo/stable#7"] is KeepReason.SHOWN_AGAIN
    yard.cursor(Surface.REPO_REVIEW_COMMENTS)
    assert names(yard.gc(GcKind.INBOX)[GcKind.INBOX]) == ["octo/stable#7"]


def test_a_feed_that_was_never_read_to_its_end_keeps_everything(yard):
    yard.issue(7)
    past(yard)
    yard.cursor(Surface.REPO_ISSUES, complete=False)
    assert not yard.gc(GcKind.INBOX)[GcKind.INBOX].gone


def test_a_clock_of_ours_that_runs_ahead_loses_nothing_that_github_shows_again(yard):
    """GitHub's own newest moment bounds it, not our clock, nor a cursor that cannot be."""
    yard.issue(7)
    yard.cursors("2999-01-01T00:00:00Z")
    yard.age(400)
    assert not yard.gc(GcKind.INBOX)[GcKind.INBOX].gone
    assert threads(yard) == [7]


def test_no_reading_after_a_gc_shows_what_went(yard):
    """The window that the next scan asks for begins after everything that is gone."""
    for number in range(1, 60):
        yard.issue(number)
        yard.event(number)
        yard.age(1)
    yard.cursors()
    with yard.store.read() as tx:
        shown = dict(
            tuple(row)
            for row in tx.constant("SELECT scope_number, max(updated_at) FROM inbox GROUP BY 1")
        )
    gone = {int(name.rpartition("#")[2]) for name in names(yard.gc(GcKind.INBOX)[GcKind.INBOX])}
    assert 20 < len(gone) < 40
    for back in (False, True):
        cursor = yard.cursor(Surface.REPO_ISSUES, "2999-01-01T00:00:00Z" if back else "")
        begins = read_since(start_cursor(cursor, yard.clock.now(), PollWindow()), PollWindow())
        assert all(parse_timestamp(shown[number]) < begins for number in gone)


# The outbox


def test_settled_writes_go_but_for_what_says_which_comments_are_ours(yard):
    yard.of_issue("t1", 7)
    yard.sent("status:t1:1", 7, result_id=50)
    yard.sent("status:t1:2", 7, kind="edit_comment", result_id=50)
    yard.sent("pull:t1:0", 7, kind="open_pull", result_id=60, result_number=8)
    yard.sent("reply-1", 8, kind="reply", result_id=50)
    yard.sent("label-1", 0, kind="create_label")
    yard.sent("failed", 7, state=WriteState.FAILED)
    yard.age()
    swept = yard.gc()[GcKind.OUTBOX]
    assert len(swept.gone) == 6
    with yard.store.read() as tx:
        left = tx.constant("SELECT token, payload FROM outbox ORDER BY sequence").all()
        tokens = tx.constant("SELECT token FROM action_tokens").scalars().all()
    assert [tuple(row) for row in left] == [
        ("status:t1:2", "{}"),
        ("reply-1", "{}"),
        ("failed", "{}"),
    ]
    assert set(tokens) == {"status:t1:2", "reply-1", "failed"}
    again = yard.gc()[GcKind.OUTBOX]
    assert not again.gone and set(reasons(again).values()) == {KeepReason.OURS}


def test_our_own_comment_is_no_news_after_its_text_is_forgotten(yard):
    yard.of_issue("t1", 7)
    yard.sent("status:t1:1", 7, result_id=50)
    yard.sent("failed", 7, state=WriteState.FAILED)
    yard.age()
    yard.gc()
    items = [
        _comment(50, add_marker("Edited by somebody.", "status:t1:1")),
        _comment(50, "Edited, and the marker is gone."),
        _comment(51, add_marker("It was made after all.", "failed")),
    ]
    with yard.store.write("outbox") as tx:
        found = ingest_items(tx, HERE, "hostler-bot", items, ignore_settled)
        assert (found.new, found.own_count) == (0, 3)
        assert pending_inbox_rows(tx, HERE) == []
        assert find_write(tx, HERE, "failed").state is WriteState.SENT
        pasted = _comment(52, add_marker("Pasted.", "status:t1:1"))
        assert ingest_items(tx, HERE, "hostler-bot", [pasted], ignore_settled).new == 1


def _comment(number, body):
    content = CommentContent(body, url="https://github.example/7")
    at = "2030-01-01T00:00:00Z"
    return Item(ItemKind.ISSUE_COMMENT, number, 7, "hostler-bot", body, at, content)


def test_why_writes_stay(yard):
    yard.of_issue("t1", 7, TaskState.RUNNING)
    yard.sent("status:t1:1", 7, result_id=50)
    yard.sent("queued", 8, state=WriteState.QUEUED, depends_on="first")
    yard.sent("first", 8, kind="open_issue")
    by_hand = yard.task("t2", TaskState.PARKED, repo_full_name=str(HERE))
    yard.sent(f"pull:{by_hand.id}:0", 0, kind="open_pull")
    yard.age()
    yard.sent("young", 9, kind="label")
    swept = yard.gc()[GcKind.OUTBOX]
    assert not swept.gone
    assert {name.split()[1]: why for name, why in reasons(swept).items()} == {
        "status:t1:1": KeepReason.UNFINISHED,
        "queued": KeepReason.UNSENT,
        "first": KeepReason.UNSENT,
        f"pull:{by_hand.id}:0": KeepReason.UNFINISHED,
    }


def test_a_label_that_was_made_long_ago_can_be_made_again(yard):
    deed = CreateLabel("agent:design", "1d76db", "")
    with yard.store.write("outbox") as tx:
        (token,) = queue_labels(tx, HERE, [deed])
        row = find_write(tx, HERE, token)
        tx.constant("UPDATE outbox SET state = 'sent' WHERE token = ?", (row.token,))
    yard.age()
    yard.gc()
    with yard.store.write("outbox") as tx:
        assert queue_labels(tx, HERE, [deed]) == [token]
        assert find_write(tx, HERE, token).state is WriteState.QUEUED


def test_a_second_round_finds_nothing_more(yard):
    task = yard.task("t1")
    yard.run(task, "r1")
    yard.of_issue("t2", 7)
    yard.issue(7, "closed", "agent:bugfix")
    yard.sent("status:t2:1", 7, result_id=50)
    past(yard)
    assert sum(len(swept.gone) for swept in yard.gc().values()) == 3
    assert not any(swept.gone for swept in yard.gc().values())
