"""A real service, and CI that fails: the agent sees the log, mends it, and CI passes."""

from __future__ import annotations

import pytest
from service_town import ALICE, REPO

from hostler.store.tasks import Task, TaskState

PLAY = """
version = 1
[[scene]]
when = { prompt_has = "| the cause is on line 7" }
steps = [
  { write = { path = "seen.md", text = "{{ turn }}" } },
  { result = { status = "done", summary = "Mended." } },
]
[[scene]]
steps = [
  { write = { path = "notes.md", text = "Notes" } },
  { result = { status = "done", summary = "Wrote notes.", pr_title = "Add notes" } },
]
"""


def ci(town, conclusion: str, log: str = "") -> None:
    """From now on each push is followed by such a run."""
    jobs = [{"name": "build", "conclusion": conclusion, "log": log}]
    answer = town.hub.control.put("/actions/script", json={"repo": REPO, "jobs": jobs})
    answer.raise_for_status()


@pytest.mark.long
def test_failing_ci_comes_back_with_its_log_and_is_mended(found_town):
    town = found_town(play=PLAY, repo={"pr_actions_feedback_policy": "first_fail"})
    ci(town, "failure", "step one\nthe cause is on line 7\n")
    number = town.person(ALICE).file("Write notes", "agent:small-job")
    with town.service() as service:
        service.poll()
        first = service.task(number, TaskState.AWAITING_FEEDBACK)
        ci(town, "success")

        def mended() -> Task | None:
            # Head, then runs: what a look finds is news for the next.
            service.poll()
            found = service.task(number)
            return found if found.turn > first.turn else None

        service.until(mended, "a second turn")
        service.rested()
        (pull,) = town.person(ALICE).pulls()
        # Only an agent that was shown the log has written this.
        assert town.person(ALICE).read("seen.md", pull["head"]["ref"]) == "ci"
        service.poll()
        service.rested()
        assert service.task(number).state is TaskState.AWAITING_FEEDBACK
