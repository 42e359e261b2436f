"""From an agent's end to GitHub, on real git: once, whatever is cut off in between."""

from __future__ import annotations

from datetime import timedelta

import pytest
from workflow_farm import SCOPES, Farm, ended, said

from hostler.agents.outcomes import Outcome
from hostler.checkouts.errors import DiskFull
from hostler.config.settings import Tasks
from hostler.forge.port import ItemKind
from hostler.model import parse_timestamp
from hostler.store.pull_requests import PullStatus
from hostler.store.tasks import Flow, Task, TaskState, require_task
from hostler.workflows import finish
from hostler.workflows.finish import FinishStage, finish_run
from hostler.workflows.turns import resume_finishing


class Cut(BaseException):
    """Stands for a process that dies here."""


def cut_at(stage: FinishStage):
    def observe(reached: FinishStage) -> None:
        if reached is stage:
            raise Cut(stage)

    return observe


def test_work_becomes_one_pull_request_and_the_status_says_so(farm: Farm):
    task = farm.walk()
    assert (task.state, task.pr_number, task.session) == (
        TaskState.AWAITING_FEEDBACK,
        2,
        "s1",
    )
    pull = farm.hub.pulls[2]
    assert pull["title"] == "Mend it" and pull["head"]["ref"] == task.branch
    assert pull["body"].startswith("Mended.\n\nFixes #1")
    assert farm.pull(2).status is PullStatus.AWAITING_FEEDBACK
    (status,) = farm.texts(1)
    assert "bugfix · awaiting feedback · #2" in status and "Review #2" in status


@pytest.mark.parametrize("stage", FinishStage)
@pytest.mark.parametrize("committed", [True, False])
def test_cut_off_after_any_step_it_is_done_again_without_a_second_effect(
    farm: Farm, stage: FinishStage, committed: bool
):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    if committed:
        farm.git.commit(checkout.path, "fix.py", "fixed = True\n")
    else:
        (checkout.path / "fix.py").write_text("fixed = True\n")
    verdict = said(summary="Mended.")
    with pytest.raises(Cut):
        farm.close(task, verdict, observe=cut_at(stage))
    assert farm.reread(task).state is TaskState.RUNNING
    farm.close(task, verdict)
    farm.send()
    base = farm.on_remote("main")
    log = farm.git("rev-list", f"{base}..{farm.on_remote(task.branch)}", cwd=farm.origin)
    assert len(log.splitlines()) == 1
    assert len(farm.hub.pulls) == 1
    assert farm.reread(task).state is TaskState.AWAITING_FEEDBACK


def test_cut_off_before_and_inside_the_last_transaction(farm: Farm):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    farm.git.commit(checkout.path, "fix.py", "fixed = True\n")
    finish_run(farm.desk, task, said())
    ending = finish_run(farm.desk, task, said())
    with pytest.raises(Cut), farm.store.write(*SCOPES) as tx:
        ending.apply(tx)
        raise Cut
    assert farm.reread(task).state is TaskState.RUNNING
    farm.close(task, said())
    farm.send()
    assert len(farm.hub.pulls) == 1


def test_a_task_stopped_while_its_work_is_finished_stays_stopped(farm: Farm):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    farm.git.commit(checkout.path, "fix.py", "fixed = True\n")
    ending = finish_run(farm.desk, task, said())
    farm.change(1, state="closed")
    farm.poll()
    with farm.store.write(*SCOPES) as tx:
        ending.apply(tx)
    farm.send()
    assert farm.reread(task).state is TaskState.STOPPED
    assert farm.hub.pulls == {}


def test_failing_tests_go_back_to_the_agent_and_then_to_a_person(farm: Farm):
    farm.tune(Tasks(repair_rounds=1), required_tests=["grep -q good fix.py"])
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    farm.git.commit(checkout.path, "fix.py", "bad\n")
    task = farm.close(task, said())
    assert (task.state, task.repair_rounds) == (TaskState.RETRYING, 1)
    assert "grep -q good fix.py" in task.note
    assert farm.on_remote(task.branch) == ""
    task, _ = farm.begin()
    task = farm.close(task, said())
    assert task.state is TaskState.BLOCKED
    farm.send()
    kept = [name for name in farm.branches() if name.startswith("agent/checkpoint/1-")]
    status, why = farm.texts(1)
    assert kept[0] in why and "asked once to fix this" in why
    assert "/hostler unblock" in status
    assert farm.hub.pulls == {}


def test_mended_tests_pass_on_the_next_round(farm: Farm):
    farm.tune(required_tests=["grep -q good fix.py"])
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    farm.git.commit(checkout.path, "fix.py", "bad\n")
    farm.close(task, said())
    task, _ = farm.begin()
    (checkout.path / "fix.py").write_text("good\n")
    task = farm.close(task, said())
    assert (task.state, task.note, task.repair_rounds) == (TaskState.AWAITING_FEEDBACK, "", 0)


def rewrite(farm: Farm, path) -> None:
    farm.git("commit", "--amend", "-qm", "another", cwd=path)


def leave(farm: Farm, path) -> None:
    farm.git("checkout", "-qb", "mine", cwd=path)


def detach(farm: Farm, path) -> None:
    farm.git("checkout", "-q", "--detach", cwd=path)


def delete(farm: Farm, path) -> None:
    branch = farm.git("branch", "--show-current", cwd=path)
    farm.git("update-ref", "-d", f"refs/heads/{branch}", cwd=path)


def half_merge(farm: Farm, path) -> None:
    (path / ".git" / "MERGE_HEAD").write_text(farm.git.head(path))


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        (rewrite, "rewritten"),
        (leave, "branch mine"),
        (detach, "on no branch"),
        (delete, "is gone"),
        (half_merge, "unfinished merge"),
    ],
)
def test_a_spoilt_history_is_not_pushed_and_the_agent_is_told(farm: Farm, harm, word: str):
    task = farm.walk()
    before = farm.on_remote(task.branch)
    farm.say(2, "more", by="ann")
    farm.poll()
    task, checkout = farm.begin()
    harm(farm, checkout.path)
    task = farm.close(task, said())
    assert task.state is TaskState.RETRYING and word in task.note
    assert farm.on_remote(task.branch) == before
    assert len(farm.waiting(task)) == 1
    farm.limits(repair_rounds=0)
    task, _ = farm.begin()
    task = farm.close(task, said())
    assert task.state is TaskState.BLOCKED
    assert farm.pull(2).status is PullStatus.BLOCKED
    assert farm.on_remote(task.branch) == before


def test_a_tampered_checkout_is_a_block_at_once(farm: Farm):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    (checkout.path / ".git" / "objects" / "info" / "alternates").write_text("/elsewhere\n")
    task = farm.close(task, said())
    assert task.state is TaskState.BLOCKED and "was tampered with" in task.reason


def test_a_refused_push_is_a_block_with_the_hosts_words(farm: Farm):
    hook = farm.origin / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ncat >/dev/null\ncase $PWD in *) echo no workflows; exit 1;; esac\n")
    hook.chmod(0o755)
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    farm.git.commit(checkout.path, "fix.py", "x\n")
    task = farm.close(task, said())
    assert task.state is TaskState.BLOCKED and "refused" in task.reason


def test_a_raced_push_goes_back_to_the_agent_who_merges(farm: Farm):
    task = farm.walk()
    farm.say(2, "more", by="ann")
    farm.poll()
    task, checkout = farm.begin()
    person = farm.person()
    farm.git("checkout", "-q", task.branch, cwd=person)
    farm.git.commit(person, "theirs.py", "x\n")
    farm.git("push", "-q", "origin", task.branch, cwd=person)
    farm.git.commit(checkout.path, "ours.py", "x\n")
    task = farm.close(task, said())
    assert task.state is TaskState.RETRYING and "expected was" in task.note
    task, _ = farm.begin()
    farm.git("merge", "-q", "--no-edit", f"origin/{task.branch}", cwd=checkout.path)
    task = farm.close(task, said())
    assert task.state is TaskState.AWAITING_FEEDBACK
    assert farm.on_remote(task.branch) == farm.git.head(checkout.path)


def test_a_full_disk_parks_the_task_and_only_our_part_is_repeated(farm: Farm, monkeypatch):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    farm.git.commit(checkout.path, "fix.py", "x\n")

    def full(*_args: object) -> None:
        raise DiskFull("the mirror")

    with monkeypatch.context() as patch:
        patch.setattr(finish, "fetch_task_head", full)
        task = farm.close(task, said())
    assert (task.state, task.finishing) == (TaskState.PARKED, True)
    assert "No space is left" in task.reason
    assert parse_timestamp(task.wake_at or "") > farm.clock.now()
    with farm.store.write(*SCOPES) as tx:
        task = resume_finishing(tx, require_task(tx, task.id))
    task = farm.close(task, said())
    assert (task.state, task.attempt) == (TaskState.AWAITING_FEEDBACK, 1)


def test_a_lost_repository_waits_for_the_operator(farm: Farm):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    farm.git.commit(checkout.path, "fix.py", "x\n")
    farm.origin.rename(farm.root / "moved.git")
    task = farm.close(task, said())
    assert task.state is TaskState.PARKED and task.finishing
    assert parse_timestamp(task.wake_at or "") - farm.clock.now() <= timedelta(minutes=10)


def test_writing_the_same_anew_is_no_progress(farm: Farm):
    farm.limits(exits_without_progress=2)
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    exits = []
    for text in ("a\n", "a\n", "b\n", "b\n"):
        task, checkout = farm.begin()
        (checkout.path / "fix.py").unlink(missing_ok=True)
        (checkout.path / "fix.py").write_text(text)
        task = farm.close(task, ended(Outcome.CRASH))
        exits.append(task.exits_without_progress)
    assert exits == [0, 1, 0, 1]


def test_done_without_a_change_is_a_question_and_silence_an_attempt(farm: Farm):
    farm.limits(exits_without_progress=2)
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, _ = farm.begin()
    task = farm.close(task, ended(Outcome.SUCCESS))
    assert (task.state, task.exits_without_progress) == (TaskState.RETRYING, 1)
    task, _ = farm.begin()
    task = farm.close(task, ended(Outcome.SUCCESS))
    assert task.state is TaskState.NEEDS_INPUT
    farm.say(1, "try once more", by="ann")
    farm.poll()
    task, _ = farm.begin()
    task = farm.close(task, said(summary="It works already."))
    assert task.state is TaskState.NEEDS_INPUT and "It works already." in task.question
    assert farm.waiting(task) == []


def test_a_design_is_a_document_whose_merge_starts_the_work(farm: Farm):
    farm.file("Add a cache", "ann", "agent:design")
    farm.poll()
    task, checkout = farm.begin()
    farm.git.commit(checkout.path, "notes.md", "x\n")
    task = farm.close(task, said())
    assert task.state is TaskState.RETRYING and "docs/design/1-add-a-cache.md" in task.note
    task, _ = farm.begin()
    farm.git.commit(checkout.path, "docs/design/1-add-a-cache.md", "# Cache\n")
    farm.close(task, said(pr_body="This fixes #1 by design."))
    farm.send()
    body = farm.hub.pulls[2]["body"]
    assert "Refs #1" in body and "fixes" not in body.lower()
    assert farm.hub.pulls[2]["title"] == "Design: Add a cache"
    farm.tick()
    farm.hub.merge(2)
    farm.poll()
    design, work = farm.tasks()
    assert (design.state, work.flow) == (TaskState.DONE, Flow.IMPLEMENTATION)
    farm.send()
    done, queued = farm.texts(1)
    assert "The implementation starts next." in done and "implementation · queued" in queued
    task, _ = farm.begin(work)
    assert task.branch == "agent/implementation/1-add-a-cache"


def test_the_status_comment_is_one_and_follows_the_task(farm: Farm):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    farm.send()
    assert "queued" in farm.texts(1)[0]
    task, _ = farm.begin()
    farm.close(task, said("needs_input", question="Which one?"))
    farm.send()
    status, asked = farm.texts(1)
    assert "needs input" in status and asked.startswith("Which one?")
    farm.change(1, state="closed")
    farm.poll()
    farm.send()
    status, _ = farm.texts(1)
    assert "stopped" in status and "The issue was closed." in status


def test_a_deleted_status_comment_is_written_anew(farm: Farm):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    farm.send()
    (first,) = farm.hub.comments
    farm.hub.delete(ItemKind.ISSUE_COMMENT, first)
    farm.change(1, state="closed")
    farm.poll()
    farm.send()
    (status,) = farm.texts(1)
    assert "stopped" in status


def test_a_pull_request_that_github_refuses_blocks_with_its_words(farm: Farm):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.poll()
    task, checkout = farm.begin()
    farm.git.commit(checkout.path, "fix.py", "x\n")
    task = farm.close(task, said())
    farm.git("update-ref", "-d", f"refs/heads/{task.branch}", cwd=farm.origin)
    farm.send()
    assert farm.reread(task).state is TaskState.BLOCKED
    assert "rejected the pull request" in farm.texts(1)[0]


def test_two_tasks_do_not_disturb_each_other(farm: Farm):
    def work(task: Task, file: str) -> None:
        begun, checkout = farm.begin(task)
        farm.git.commit(checkout.path, file, "x\n")
        farm.close(begun, said())

    farm.file("One", "ann", "agent:bugfix")
    farm.file("Two", "bob", "agent:small-job")
    farm.poll()
    for number, task in enumerate(farm.tasks()):
        work(task, f"{number}.py")
    farm.send()
    assert [task.pr_number for task in farm.tasks()] == [3, 4]
