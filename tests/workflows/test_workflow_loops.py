"""No loop goes on without a person: bounds, kept work, and a question that can be answered."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from test_intake_ci import FIRST, PULL, TASK, known, seen
from workflow_farm import Farm, said

from hostler.checkouts.commands import CommandEnd, CommandResult
from hostler.checkouts.errors import PushRaced
from hostler.checkouts.names import Sha
from hostler.config.settings import Tasks
from hostler.intake.ci import decide_on_run
from hostler.intake.model import AddCiFeedback
from hostler.model import EPOCH
from hostler.store.tasks import TaskState
from hostler.workflows.effects import SetPullStatus, TaskTransition
from hostler.workflows.finish import FinishedWork, WorkDelivery, decide_after_delivery
from hostler.workflows.outcomes import RunEndFacts, TestsFailed, decide_after_error
from hostler.workflows.turns import CiFailure

RACED = PushRaced("agent/x", None, Sha("c" * 40))
FAILED = TestsFailed(CommandResult("make test", CommandEnd.FAILED, 1, "boom"))


def counted(pull, step: TaskTransition):
    """The pull request after a step."""
    stands = [effect for effect in step.effects if isinstance(effect, SetPullStatus)]
    more = sum(effect.without_person for effect in stands)
    return replace(pull, turns_without_person=pull.turns_without_person + more)


def delivered(task, pull, number: int) -> TaskTransition:
    """A turn about CI that pushes a new head."""
    head = Sha(f"{number:040x}")
    failures = (CiFailure(seen()),)
    work = FinishedWork(head, "main", head, has_commits=True)
    delivery = WorkDelivery(work, said(), last_head=pull.last_seen_head_sha, failures=failures)
    return decide_after_delivery(task, delivery, RunEndFacts(EPOCH), Tasks())


@given(st.lists(st.sampled_from(["tests", "race", "ci"]), min_size=40, max_size=40))
def test_whatever_goes_wrong_a_person_is_asked_in_time(troubles):
    """Repairs and CI in any order: agents are started a bounded number of times."""
    limits = Tasks()
    task, pull, turns, in_a_row = TASK, PULL, 0, 0
    for trouble in troubles:
        if task.state is TaskState.AWAITING_FEEDBACK:
            failed = seen()
            (effect,) = decide_on_run(failed, known(failed, task=task, pull=pull), FIRST).effects
            if not isinstance(effect, AddCiFeedback):
                break
        turns += 1
        running = replace(task, state=TaskState.RUNNING)
        facts = RunEndFacts(EPOCH, finishing=True, turns_without_person=pull.turns_without_person)
        if trouble == "ci":
            step, in_a_row = delivered(running, pull, turns), 0
        else:
            error = RACED if trouble == "race" else FAILED
            step, in_a_row = decide_after_error(running, error, facts, limits), in_a_row + 1
        pull, task = counted(pull, step), step.task
        assert in_a_row <= limits.repair_rounds + 1
        if task.state in (TaskState.BLOCKED, TaskState.NEEDS_INPUT):
            break
    else:
        raise AssertionError("nobody was asked")
    assert turns <= limits.pr_turns_without_person + 1


def test_after_three_repairs_the_work_is_kept_and_people_are_asked(farm: Farm):
    farm.tune(required_tests=["false"])
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    for number in range(4):
        task, checkout = farm.begin()
        farm.git.commit(checkout.path, "fix.py", f"try = {number}\n")
        task = farm.close(task, said())
    assert task.state is TaskState.BLOCKED and "asked 3 times to fix this" in task.reason
    farm.send()
    (kept,) = [name for name in farm.branches() if name.startswith("agent/checkpoint/")]
    (asked,) = [text for text in farm.texts(1) if "**Blocked:**" in text]
    assert kept in asked and "How should this continue?" in asked and "/hostler unblock" in asked
    assert farm.git("show", f"{kept}:fix.py", cwd=farm.origin).strip() == "try = 3"


def test_after_many_turns_what_was_not_pushed_is_kept_and_the_question_names_it(farm: Farm):
    task = farm.walk()
    farm.tune(required_tests=["false"], limits=Tasks(pr_turns_without_person=1))
    farm.say(2, "Rename it.")
    farm.poll()
    for number in range(2):
        task, checkout = farm.begin()
        farm.git.commit(checkout.path, "fix.py", f"try = {number}\n")
        task = farm.close(task, said())
    assert task.state is TaskState.NEEDS_INPUT
    (kept,) = [name for name in farm.branches() if name.startswith("agent/checkpoint/")]
    assert f"`{kept}`" in task.question and task.question.endswith("How should this continue?")
    # A person's word is all it takes.
    farm.send()
    farm.say(2, "Then keep the name.")
    farm.poll()
    assert farm.task().state is TaskState.QUEUED and farm.pull(2).turns_without_person == 0
