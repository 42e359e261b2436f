"""CI in any order: runs, repetitions, pushes and turns. What must hold, holds."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from intake_yard import Yard, database
from workflow_farm import SCOPES, said

from example_counts import examples
from hostler.checkouts.names import Sha
from hostler.clock import FakeClock
from hostler.config.settings import Tasks
from hostler.forge.actions import RerunFailedJobs
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.poller import Poller, PollPlan
from hostler.forge.outbox.rules import OutboxPolicy
from hostler.forge.outbox.sender import OutboxSender
from hostler.store.pull_requests import PullStatus, change_pull
from hostler.store.tasks import Task, TaskState, change_task, require_task
from hostler.workflows.effects import apply_transition, handle_settled_write
from hostler.workflows.finish import FinishedWork, WorkDelivery, decide_after_delivery
from hostler.workflows.ingest import ingest_events
from hostler.workflows.outcomes import RunEndFacts
from hostler.workflows.turns import begin_turn, drop_events, drop_withdrawn, load_turn_input

CHECKS = ("lint", "test")
LIMIT = 2


class Ci(RuleBasedStateMachine):
    """A pull request of ours, its CI, and an agent that mends or does not."""

    @initialize(policy=st.sampled_from(["first_fail", "all_complete"]))
    def begin(self, policy):
        self.stack = ExitStack()
        clock = FakeClock()
        self.yard = Yard(self.stack.enter_context(database(clock)), clock)
        self.yard.watch = replace(self.yard.watch, ci=policy, turns_without_person=LIMIT)
        self.yard.file("Crash", "ann", "agent:bugfix")
        self.yard.poll()
        self.number = self.yard.open_pull(self.yard.task())
        self.heads = 0
        self.turns_alone = 0
        self.push()
        tap = PollContext(
            self.yard.store,
            self.yard.hub,
            self.yard.name,
            settled=handle_settled_write,
            scopes=SCOPES,
        )
        self.poller = Poller(tap, PollPlan(runs=True))
        self.poll()

    def teardown(self):
        if hasattr(self, "stack"):
            self.stack.close()

    # -- what happens ---------------------------------------------------------------------------

    @rule()
    def poll(self):
        self.yard.tick()
        self.poller.poll()
        ingest_events(self.yard.store, self.yard.hub, self.yard.watch)
        self.send()

    @rule(check=st.sampled_from(CHECKS), end=st.sampled_from([None, "success", "failure"]))
    def a_run(self, check, end):
        self.yard.tick()
        self.yard.hub.run(self.head, by="ann", conclusion=end, name=check)

    @precondition(lambda self: self._runs("queued", "in_progress"))
    @rule(data=st.data(), end=st.sampled_from(["success", "failure", "cancelled"]))
    def a_run_ends(self, data, end):
        self.yard.tick()
        self.yard.hub.end_run(data.draw(st.sampled_from(self._runs("queued", "in_progress"))), end)

    @precondition(lambda self: self._runs("completed"))
    @rule(data=st.data())
    def somebody_repeats_a_run(self, data):
        self.yard.tick()
        self.yard.hub.rerun(data.draw(st.sampled_from(self._runs("completed"))))

    @rule()
    def push(self):
        """Somebody pushes to the branch."""
        self.yard.tick()
        self.heads += 1
        self.yard.hub.pulls[self.number]["head"]["sha"] = self.head
        self.yard.hub.touch(self.number)

    @rule()
    def a_person_speaks(self):
        self.yard.say(self.number, "Go on.")
        self.poll()

    @rule()
    def an_operator_unblocks(self):
        task, pull = self.yard.task(), self.yard.pull(self.number)
        if task.state is TaskState.BLOCKED:
            with self.yard.store.write(*SCOPES) as tx:
                change_task(tx, task, replace(task, state=TaskState.AWAITING_FEEDBACK))
                change_pull(tx, pull, replace(pull, status=PullStatus.AWAITING_FEEDBACK))

    @precondition(lambda self: self.yard.task().state is TaskState.QUEUED)
    @rule(mends=st.booleans())
    def a_turn(self, mends):
        store = self.yard.store
        with store.write(*SCOPES) as tx:
            task = begin_turn(tx, require_task(tx, self.yard.task().id))
            found = load_turn_input(tx, task)
        left, gone = drop_withdrawn(self.yard.hub, found)
        for failure in left.failures:
            # Whatever an agent is shown fails now, on the commit that it works from.
            run = self.yard.hub.runs[failure.event.run.id]
            assert run["conclusion"] == "failure" and run["head_sha"] == self.head
        if gone:
            with store.write(*SCOPES) as tx:
                task = drop_events(tx, require_task(tx, task.id), gone)
        if task.state is TaskState.RUNNING:
            self._deliver(task, mends=mends)

    def _deliver(self, task: Task, *, mends: bool) -> None:
        before = self.head
        if mends:
            self.push()
        head = Sha(self.head)
        with self.yard.store.write(*SCOPES) as tx:
            present = require_task(tx, task.id)
            material = load_turn_input(tx, present)
            delivery = WorkDelivery(
                FinishedWork(head, "main", head if mends else "", has_commits=True),
                said(summary="Looked at it."),
                material.comments,
                last_head=before,
                failures=material.failures,
            )
            alone = not material.comments
            apply_transition(
                tx,
                present,
                decide_after_delivery(present, delivery, RunEndFacts(tx.now()), Tasks()),
            )
        self.turns_alone = self.turns_alone + 1 if alone else 0
        self.send()

    def send(self):
        sender = OutboxSender(
            self.yard.store,
            lambda _: self.yard.hub,
            self.yard.clock,
            OutboxPolicy(),
            settled=handle_settled_write,
        )
        while (until := sender.send_due()) is not None:
            wait = (until - self.yard.clock.now()).total_seconds()
            self.yard.clock.advance(max(wait, 0.001))

    @property
    def head(self) -> str:
        return f"{self.heads:040x}"

    def _runs(self, *states: str) -> list[int]:
        runs = self.yard.hub.runs.values() if hasattr(self, "yard") else ()
        return [run["id"] for run in runs if run["status"] in states]

    # -- what must hold -------------------------------------------------------------------------

    @invariant()
    def each_check_of_a_head_is_repeated_by_us_once(self):
        deeds = [deed for _, deed in self._made() if isinstance(deed, RerunFailedJobs)]
        runs = self.yard.hub.runs if deeds else {}
        asked = Counter((runs[d.run_id]["head_sha"], runs[d.run_id]["name"]) for d in deeds)
        assert all(count == 1 for count in asked.values())

    @invariant()
    def there_is_one_issue_for_a_flaky_check(self):
        if hasattr(self, "yard"):
            titles = [issue["title"] for issue in self.yard.hub.issues.values()]
            flaky = Counter(title for title in titles if title.startswith("Flaky"))
            assert all(count == 1 for count in flaky.values())

    @invariant()
    def ci_alone_keeps_no_agent_busy_for_ever(self):
        assert getattr(self, "turns_alone", 0) <= LIMIT + 1

    def _made(self):
        return self.yard.hub.made if hasattr(self, "yard") else []


def test_ci_in_any_order():
    run_state_machine_as_test(
        Ci, settings=settings(max_examples=examples(4, 50), stateful_step_count=30)
    )
