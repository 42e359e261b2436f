"""Housekeeping in a town: beside a service at work, and nothing comes back afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from service_town import ALICE, BOB, PLAY, REPO, Service, Town

from hostler.clock import SystemClock
from hostler.service.gc.collector import collect_garbage
from hostler.service.gc.context import GcKind, GcResult, build_gc_context
from hostler.service.gc.rules import KeepReason
from hostler.store import open_store
from hostler.store.runs import live_runs
from hostler.store.tasks import Task, TaskState

HANG = """
version = 1
[[scene]]
when = { prompt_has = "Wait" }
steps = [{ say = "here" }, { hang = 600 }]
[[scene]]
steps = [
  { write = { path = "notes.md", text = "Notes\\n" } },
  { result = { status = "done", summary = "Wrote notes." } },
]
"""


class Later(SystemClock):
    """The machine's clock, so many days ahead."""

    def __init__(self) -> None:
        self.days = 0

    def now(self) -> datetime:
        return super().now() + timedelta(days=self.days)


@dataclass
class Times:
    """A town through the months: its services look when they are told to."""

    town: Town
    clock: Later
    heard: int = 0
    services: list[Service] = field(default_factory=list)

    def pass_by(self, days: int = 40) -> None:
        """Here and on GitHub."""
        self.clock.days += days
        answer = self.town.hub.control.post("/clock", json={"advance": days * 86_400})
        assert answer.is_success

    @contextmanager
    def service(self) -> Iterator[Service]:
        with self.town.service(observe=self._observe) as service:
            yield service

    def look(self, service: Service) -> None:
        """A whole look that began after this moment, and all that follows from it."""
        for _ in range(2):
            seen = self.heard
            service.poll()
            service.until(lambda seen=seen: self.heard > seen, "a look")
        service.rested()

    def gc(self, *kinds: GcKind) -> dict[GcKind, GcResult]:
        with closing(open_store(self.town.home, clock=self.clock)) as store:
            at = build_gc_context(self.town.home, self.town.settings(), store, 30)
            return {swept.kind: swept for swept in collect_garbage(at, kinds or tuple(GcKind))}

    def done(self, service: Service, title: str = "Notes") -> Task:
        """An issue all the way to its merge, with words on it and on its pull request."""
        alice, bob = self.town.person(ALICE), self.town.person(BOB)
        number = alice.file(title, "agent:small-job")
        alice.say(number, "Soon, please.")
        service.poll()
        service.task(number, TaskState.AWAITING_FEEDBACK)
        task = service.until(
            lambda: next(
                (t for t in service.all_tasks() if t.number == number and t.pr_number), None
            )
        )
        service.rested()
        pull = task.pr_number or 0
        said = len(bob.comments(pull))
        bob.say(pull, "Please count.")
        service.poll()
        service.until(lambda: len(bob.comments(pull)) >= said + 2, "an answer")
        service.rested()
        bob.merge(pull)
        service.poll()
        task = service.task(number, TaskState.DONE)
        service.until(lambda: not (self.town.home / "checkouts" / "stable" / task.id).exists())
        self.look(service)
        return task

    def _observe(self, step: str, _about: str) -> None:
        self.heard += step == "heard"


@pytest.fixture
def times(found_town: Callable[..., Town]) -> Callable[..., Times]:
    def make(**settings: object) -> Times:
        clock = Later()
        return Times(found_town(clock=clock, **settings), clock)

    return make


def everything_said(town: Town, *numbers: int) -> list[list[str]]:
    alice = town.person(ALICE)
    return [[comment["body"] for comment in alice.comments(number)] for number in numbers]


def names(swept: GcResult) -> list[str]:
    return [one.name for one in swept.gone]


def reasons(swept: GcResult) -> dict[str, KeepReason | None]:
    return {one.name: one.why for one in swept.kept}


@pytest.mark.soak
def test_what_went_does_not_come_back(times):
    times = times()
    town, alice = times.town, times.town.person(ALICE)
    with times.service() as service:
        old = times.done(service)
    issue, pull = old.number, old.pr_number or 0
    times.pass_by()
    with times.service() as service:
        # GitHub goes on, and so do the cursors of all feeds.
        new = times.done(service, "More")
        town.person(BOB)("POST", f"/pulls/{new.pr_number}/reviews", event="COMMENT", body="Well.")
        times.look(service)
        before = everything_said(town, issue, pull), [task.id for task in service.all_tasks()]
        found = times.gc()
        assert {f"{REPO}#{issue}", f"{REPO}#{pull}"} <= set(names(found[GcKind.INBOX]))
        assert found[GcKind.OUTBOX].gone and names(found[GcKind.RUNS])
        assert reasons(found[GcKind.TASKS]) == {old.id: KeepReason.BEGUN_ANEW}
        assert new.id not in {name for swept in found.values() for name in names(swept)}

        times.look(service)
        assert (everything_said(town, issue, pull), [t.id for t in service.all_tasks()]) == before

        # Somebody edits a comment of ours, and reopens the issue: neither is a cause of work.
        status = next(c for c in alice.comments(issue) if "**Hostler**" in c["body"])
        alice("PATCH", f"/issues/comments/{status['id']}", body=status["body"] + "\n(Seen.)")
        alice("PATCH", f"/issues/{issue}", state="open")
        times.look(service)
        after = everything_said(town, issue, pull), [task.id for task in service.all_tasks()]
        assert after[1] == before[1] and [len(said) for said in after[0]] == [
            len(said) for said in before[0]
        ]
        with service.app.store.read() as tx:
            rows = tx.constant(
                "SELECT author FROM inbox WHERE scope_number = ? AND kind = 'issue_comment'",
                (issue,),
            )
            assert rows.all() == []


@pytest.mark.soak
def test_a_task_whose_label_was_taken_off_is_forgotten_and_not_begun_anew(times):
    times = times()
    town, alice = times.town, times.town.person(ALICE)
    with times.service() as service:
        task = times.done(service)
        alice("DELETE", f"/issues/{task.number}/labels/agent:small-job")
        times.look(service)
    times.pass_by()
    with times.service() as service:
        found = times.gc()
        assert names(found[GcKind.TASKS]) == [task.id]
        assert not (town.home / "projects" / "stable" / "tasks" / task.id).exists()
        times.look(service)
        assert service.all_tasks() == []
        said = everything_said(town, task.number, task.pr_number or 0)
        alice("PATCH", f"/issues/{task.number}", state="open")
        alice.say(task.number, "Is it done?")
        times.look(service)
        assert service.all_tasks() == []
        assert everything_said(town, task.number)[0] == [*said[0], "Is it done?"]
        # Only a label begins it, and then as a new one.
        alice("POST", f"/issues/{task.number}/labels", labels=["agent:small-job"])
        service.poll()
        again = service.task(task.number, TaskState.AWAITING_FEEDBACK)
        assert again.id != task.id


@pytest.mark.long
def test_an_agent_at_work_is_not_disturbed(times):
    times = times(play=HANG)
    alice = times.town.person(ALICE)
    with times.service() as service:
        done = times.done(service)
        number = alice.file("Wait", "agent:small-job")
        service.poll()
        service.task(number, TaskState.RUNNING)
        (run,) = service.until(lambda: _live(service, "running"))
        folder = times.town.home / run.folder
        times.pass_by()
        for _ in range(3):
            found = times.gc()
        assert reasons(found[GcKind.RUNS])[run.run] is KeepReason.LIVE
        assert reasons(found[GcKind.TASKS])[run.task_id] is KeepReason.LIVE
        assert reasons(found[GcKind.CHECKOUTS]) == {f"stable/{run.task_id}": KeepReason.LIVE}
        assert reasons(found[GcKind.MIRRORS]) == {REPO: KeepReason.WATCHED}
        assert (folder / "stdout").exists()
        assert _live(service, "running") == [run]
        assert service.task(done.number).id == done.id


def _live(service: Service, state: str) -> list[object]:
    with service.app.store.read() as tx:
        return [run for run in live_runs(tx) if run.state == state]


@pytest.mark.soak
def test_rounds_beside_a_service_that_works_all_the_time(times):
    """Issues come and go while one round follows the other; every issue still comes to its end."""
    play = PLAY.replace('"notes.md"', '"notes-{{ issue.number }}.md"')
    times = times(runtime={"worker_count": 2}, play=play)
    alice, bob = times.town.person(ALICE), times.town.person(BOB)
    with times.service() as service:
        numbers = [alice.file(f"Job {n}", "agent:small-job") for n in range(3)]
        service.poll()
        for number in numbers:
            # A year from now everything is old, even what happens this moment.
            times.clock.days += 365
            times.gc()
            task = service.task(number, TaskState.AWAITING_FEEDBACK)
            task = service.until(
                lambda id=task.id: next(
                    (t for t in service.all_tasks() if t.id == id and t.pr_number), None
                )
            )
            times.gc()
            service.rested()
            bob.merge(task.pr_number)
            service.poll()
            times.gc()
            service.task(number, TaskState.DONE)
        times.look(service)
        times.gc()
        assert len(alice.pulls()) == len(numbers)
        assert [alice.issue(number)["state"] for number in numbers] == ["closed"] * 3
        for number in numbers:
            marks = [c for c in alice.comments(number) if "**Hostler**" in c["body"]]
            assert len(marks) == 1 and "done" in marks[0]["body"]
