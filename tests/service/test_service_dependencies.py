"""Issues that depend on one another, through the whole house."""

from __future__ import annotations

import pytest
from service_town import ALICE, BOB

from hostler.model import RepoName
from hostler.store.dependencies import CLOSED, note_issue
from hostler.store.tasks import TaskState


@pytest.mark.long
def test_an_issue_waits_for_the_merge_of_another_and_for_githubs_own_list(town):
    alice, bob = town.person(ALICE), town.person(BOB)
    barn = town.person(ALICE, "alice/barn")
    foreign = barn.file("Elsewhere")
    blocker = alice.file("Not ours")
    first = alice.file("First", "agent:small-job")
    text = f"Depends on #{first} and alice/barn#{foreign}."
    second = alice.file("Second", "agent:small-job", body=text)
    number = alice.issue(blocker)["id"]
    alice("POST", f"/issues/{second}/dependencies/blocked_by", issue_id=number)
    with town.service() as service:
        task = service.task(first, TaskState.AWAITING_FEEDBACK)
        service.rested()
        waiting = service.until(
            lambda: next((t for t in service.all_tasks() if t.number == second and t.gate), None)
        )
        assert (waiting.state, waiting.gate) == (TaskState.QUEUED, "dependencies")
        assert set(waiting.depends_on) == {
            f"alice/stable#{first}",
            f"alice/barn#{foreign}",
            f"alice/stable#{blocker}",
        }
        assert task.pr_number or service.task(first).pr_number
        bob.merge(service.task(first).pr_number)
        service.poll()
        service.task(first, TaskState.DONE)
        assert service.task(second).state is TaskState.QUEUED
        alice("PATCH", f"/issues/{blocker}", state="closed")
        barn("PATCH", f"/issues/{foreign}", state="closed")
        service.poll()
        with service.app.store.write("tasks") as tx:
            # What was seen of another repository's issue is asked again after five minutes.
            note_issue(tx, RepoName("alice", "barn"), foreign, CLOSED)
        service.task(second, TaskState.AWAITING_FEEDBACK)
