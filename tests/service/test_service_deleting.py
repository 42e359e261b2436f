"""Deleting tasks of a repository: a checkout goes only if nothing is lost with it."""

from __future__ import annotations

import pytest
from service_town import ALICE, REPO, Town

from hostler.service.tasks.control import delete_tasks
from hostler.service.tasks.foreground import parse_issue_reference, start_issue_task
from hostler.store.tasks import TaskState, find_task, require_task
from hostler.workflows.manual_tasks import TaskSubmission, submit_task

SCOPES = ("admission", "tasks", "outbox")
DIRTY = """
version = 1
steps = [{ write = { path = "notes.md", text = "half done" } }, { exit = 3 }]
"""
CLEAN = "version = 1\nsteps = [{ exit = 3 }]\n"


@pytest.mark.parametrize("play", [DIRTY, CLEAN], ids=["with work", "without"])
def test_the_checkout_of_a_failed_task(found_town, play):
    town: Town = found_town(play=play)
    with town.service() as service:
        order = TaskSubmission("stable", "Write.", "ann", repo_full_name=REPO, max_restarts=1)
        with service.app.store.write(*SCOPES) as tx:
            task = submit_task(tx, order)

        def failed() -> bool:
            with service.app.store.read() as tx:
                return require_task(tx, task.id).state is TaskState.FAILED

        service.until(failed, "its failure")
        service.rested()
        checkout = town.home / "checkouts" / "stable" / task.id
        assert checkout.is_dir()
        done = delete_tasks(town.home, service.app.store, [task.id])
        with service.app.store.read() as tx:
            assert find_task(tx, task.id) is None
    folder = town.home / "projects" / "stable" / "tasks" / task.id
    assert not folder.exists()
    if play == DIRTY:
        assert list(done.kept) == [checkout] and "notes.md" in done.kept[checkout]
        assert (checkout / "notes.md").read_text() == "half done"
    else:
        assert done.kept == {} and not checkout.exists()


@pytest.mark.long
def test_words_about_a_deleted_task_break_nothing_and_it_can_begin_again(town):
    alice = town.person(ALICE)
    number = alice.file("Notes", "agent:small-job")
    with town.service() as service:
        service.task(number, TaskState.AWAITING_FEEDBACK)
        service.rested()
        pull = service.task(number).pr_number
        alice("PATCH", f"/pulls/{pull}", state="closed")
        service.poll()
        stopped = service.task(number, TaskState.STOPPED)
        service.rested()
        delete_tasks(town.home, service.app.store, [stopped.id])
        assert service.all_tasks() == []
        alice.say(pull, "What became of this?")
        alice.say(number, "And of this?")
        other = alice.file("More notes", "agent:small-job")
        service.poll()
        service.task(other, TaskState.AWAITING_FEEDBACK)
        service.rested()
        assert "service_defect" not in service.lines.getvalue()
        wanted = parse_issue_reference(service.app.settings, f"{REPO}#{number}")
        start_issue_task(service.app, wanted, None)
        again = service.task(number, TaskState.AWAITING_FEEDBACK)
        assert again.id != stopped.id
