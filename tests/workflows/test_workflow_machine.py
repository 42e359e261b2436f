"""The life of tasks under anything that people and agents do: a state machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from fake_forge import FakeForge
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
from intake_yard import ALLOWED, BUGFIX, DESIGN, IGNORE, SMALL, STRANGERS, Yard, database
from workflow_farm import SCOPES, ended, said

from example_counts import examples
from hostler.agents.outcomes import Outcome
from hostler.checkouts.names import Sha
from hostler.clock import FakeClock
from hostler.config.settings import Tasks
from hostler.forge.github.polling.poller import scan_repository
from hostler.forge.outbox.rules import OutboxPolicy
from hostler.forge.outbox.sender import OutboxSender
from hostler.forge.port import ItemKind
from hostler.intake.manual_start import NotAnIssue
from hostler.intake.process import truncate_to_second
from hostler.intake.repo_policy import RepoPolicy
from hostler.store import Store
from hostler.store.inbox import (
    InboxRow,
    blocked_threads,
    is_newest,
    pending_inbox_rows,
    rows_by_key,
    rows_of_thread,
    rows_to_look_at,
)
from hostler.store.pull_requests import PullStatus, find_pull, pulls_in
from hostler.store.tasks import OVER, Flow, Task, TaskState, require_task
from hostler.workflows.effects import apply_transition, handle_settled_write
from hostler.workflows.finish import FinishedWork, WorkDelivery, decide_after_delivery
from hostler.workflows.ingest import ingest_events, start_issue_now
from hostler.workflows.outcomes import RunEndFacts, decide_after_run
from hostler.workflows.resume import NotResumed, ResumeRequest, resume_pull, unblock
from hostler.workflows.turns import STARTABLE, begin_turn, load_turn_input, pending_event_keys

people = st.sampled_from([*ALLOWED, *STRANGERS])
labels = st.sampled_from([BUGFIX, SMALL, DESIGN])
FAILURES = [o for o in Outcome if o not in (Outcome.SUCCESS, Outcome.NEEDS_INPUT, Outcome.BLOCKED)]
LIMITS = Tasks(exits_without_progress=2)


class Life(RuleBasedStateMachine):
    """Git is left out: what it would say is part of the rules' input."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.stack = ExitStack()
        self.yard = Yard(self.stack.enter_context(database(self.clock)), self.clock)
        self.ended: dict[str, TaskState] = {}
        self.answered: Counter[str] = Counter()
        self.handed: set[str] = set()
        # Issues that people have, and from when on their words are for agents again.
        self.taken_over: set[int] = set()
        self.given_back: dict[int, str] = {}
        # Words that found nobody to hear them.
        self.unheard: set[str] = set()
        self._mark = -1
        self._tasks: list[Task] = []

    def teardown(self) -> None:
        self.stack.close()

    def tasks(self) -> list[Task]:
        """Return all tasks, read once per commit: every step asks for them many times."""
        mark = self.yard.store.change_mark()
        if mark != self._mark:
            self._mark, self._tasks = mark, self.yard.tasks()
        return self._tasks

    @initialize(label=labels)
    def one_issue_is_well_on_its_way(self, label):
        self.yard.file("Work", "ann", label)
        self.poll()
        self._deliver(self.yard.task())

    # What people do.

    @rule(by=people, label=st.none() | labels)
    def file(self, by, label):
        if len(self.yard.hub.issues) < 4:
            self.yard.file("Work", by, *([label] if label else []))

    @precondition(lambda self: self.yard.hub.issues)
    @rule(data=st.data(), by=people, label=st.sampled_from([BUGFIX, SMALL, DESIGN, IGNORE]))
    def label(self, data, by, label):
        self.yard.label(self._thread(data), label, by)

    @precondition(lambda self: self.yard.hub.issues)
    @rule(data=st.data(), by=people)
    def speak(self, data, by):
        self.yard.say(self._thread(data), "words", by)

    @precondition(lambda self: self.yard.hub.comments)
    @rule(data=st.data())
    def edit(self, data):
        self.yard.tick()
        comment = data.draw(st.sampled_from(sorted(self.yard.hub.comments)))
        body = f"changed at {self.clock.now()}"
        if self.yard.hub.comments[comment]["user"]["login"] != self.yard.hub.login:
            self.yard.hub.edit(ItemKind.ISSUE_COMMENT, comment, body)

    @precondition(lambda self: self.yard.hub.issues)
    @rule(data=st.data())
    def rewrite(self, data):
        self.yard.change(self._thread(data), body=f"text of {self.clock.now()}")

    @precondition(lambda self: self.yard.hub.issues)
    @rule(data=st.data(), state=st.sampled_from(["open", "closed"]))
    def close_or_open(self, data, state):
        self.yard.change(self._thread(data), state=state)

    @precondition(lambda self: self.yard.hub.pulls)
    @rule(data=st.data())
    def merge(self, data):
        number = data.draw(st.sampled_from(sorted(self.yard.hub.pulls)))
        if self.yard.hub.pulls[number]["state"] == "open":
            self.yard.tick()
            self.yard.hub.merge(number)

    @precondition(lambda self: self.yard.hub.issues)
    @rule(data=st.data())
    def take_labels_off(self, data):
        self.yard.change(self._thread(data), labels=[])

    # What the operator does.

    @precondition(lambda self: self._in(TaskState.BLOCKED))
    @rule(data=st.data())
    def reset(self, data):
        task = data.draw(st.sampled_from(self._in(TaskState.BLOCKED)))
        self._by_hand(task, lambda: unblock(*self._place, task, ResumeRequest("ann")))

    @precondition(lambda self: self.yard.hub.pulls)
    @rule(data=st.data())
    def resume(self, data):
        number = data.draw(st.sampled_from(sorted(self.yard.hub.pulls)))
        with self.yard.store.read() as tx:
            pull = find_pull(tx, self.yard.name, number)
            task = require_task(tx, pull.task) if pull else None
        if task is None:
            return
        merged = pull.status is PullStatus.MERGED
        if self._by_hand(task, lambda: resume_pull(*self._place, number, ResumeRequest("ann"))):
            assert not merged and self.yard.hub.pulls[number]["state"] == "open"

    @precondition(lambda self: self.tasks())
    @rule(data=st.data())
    def run_by_hand(self, data):
        issue = self.yard.hub.issue(data.draw(st.sampled_from(self.tasks())).number)
        # An implementation comes after its design, and is the one that is meant.
        task = [one for one in self.tasks() if one.number == issue.number][-1]

        def start() -> None:
            start_issue_now(self.yard.store, self.yard.watch, issue, at=self.yard.hub.now())

        self._by_hand(task, start)

    def _by_hand(self, task: Task, act: Callable[[], object]) -> bool:
        """Only a person leads out of what is over; whether that was allowed."""
        self.yard.tick()
        before = self.ended.pop(task.id, None)
        try:
            act()
        except (NotResumed, NotAnIssue):
            if before is not None:
                self.ended[task.id] = before
            return False
        if task.number in self.taken_over and self._going(task.number):
            self.taken_over.discard(task.number)
            self.given_back[task.number] = truncate_to_second(self.clock.now())
        return True

    def _going(self, issue: int) -> bool:
        return any(task.number == issue and not task.over for task in self.tasks())

    @property
    def _place(self) -> tuple[Store, FakeForge, RepoPolicy]:
        return self.yard.store, self.yard.hub, self.yard.watch

    # What we do.

    @rule()
    def poll(self):
        self.yard.tick()
        before = {task.id for task in self.tasks()}
        with self.yard.store.read() as tx:
            watched = [pull.pr_number for pull in pulls_in(tx, self.yard.name)]
        scan_repository(
            self.yard.store,
            self.yard.hub,
            self.yard.name,
            pulls=watched,
            settled=handle_settled_write,
        )
        taken = ingest_events(self.yard.store, self.yard.hub, self.yard.watch)
        self._note_takeovers({h.number for h in taken.events if h.kind == ItemKind.ISSUE})
        self._note_implementations(before)
        idle = {heard.key for heard in taken.events if not heard.decision.effects}
        self.unheard |= idle - {heard.key for heard in taken.events if heard.decision.waits}

    def _note_takeovers(self, seen: set[int]) -> None:
        """The label counts when it is seen: whoever starts such work by hand means it."""
        with self.yard.store.read() as tx:
            open_ = {pull.pr_number for pull in pulls_in(tx, self.yard.name)}
        for task in self.tasks():
            for number in ({task.number} | ({task.pr_number} & open_)) & seen:
                labels = self.yard.hub.issue(number).labels
                if IGNORE in labels and self.yard.hub.issue(task.number).state == "open":
                    self.taken_over.add(task.number)

    def _note_implementations(self, before: set[str]) -> None:
        """Merging a design ends a takeover, if the label is nowhere any more."""
        tasks = {task.id: task for task in self.tasks()}
        for task in tasks.values():
            if task.id in before or task.flow is not Flow.IMPLEMENTATION:
                continue
            design = tasks[task.parent_task or ""]
            pull = self.yard.hub.pulls[design.pr_number]
            for number in (task.number, design.pr_number):
                assert IGNORE not in self.yard.hub.issue(number).labels
            if task.number in self.taken_over:
                self.taken_over.discard(task.number)
                self.given_back[task.number] = truncate_to_second(pull["merged_at"])

    @rule()
    def send(self):
        sender = OutboxSender(
            self.yard.store,
            lambda _: self.yard.hub,
            self.clock,
            OutboxPolicy(),
            settled=handle_settled_write,
        )
        while (until := sender.send_due()) is not None:
            self.clock.advance(max((until - self.clock.now()).total_seconds(), 0.001))

    @precondition(lambda self: self._in(*STARTABLE))
    @rule(data=st.data())
    def begin(self, data):
        self._begin(data.draw(st.sampled_from(self._in(*STARTABLE))))

    @precondition(lambda self: self._in(TaskState.RUNNING))
    @rule(data=st.data(), changed=st.booleans())
    def finish(self, data, changed):
        self._finish(data.draw(st.sampled_from(self._in(TaskState.RUNNING))), changed)

    @precondition(lambda self: self._in(TaskState.RUNNING))
    @rule(data=st.data(), outcome=st.sampled_from(FAILURES))
    def fail(self, data, outcome):
        task = data.draw(st.sampled_from(self._in(TaskState.RUNNING)))
        with self.yard.store.write(*SCOPES) as tx:
            present = require_task(tx, task.id)
            step = decide_after_run(present, ended(outcome), RunEndFacts(tx.now()), LIMITS)
            apply_transition(tx, present, step)

    @precondition(lambda self: self._in(TaskState.RUNNING))
    @rule(data=st.data())
    def get_stuck(self, data):
        self._block(data.draw(st.sampled_from(self._in(TaskState.RUNNING))))

    @precondition(lambda self: self._in(TaskState.AWAITING_FEEDBACK))
    @rule(data=st.data(), words=st.booleans(), end=st.sampled_from(["go on", "close", "merge", ""]))
    def stuck_on_a_pull_request(self, data, words, end):
        """Somebody speaks, the turn gets stuck, somebody speaks again, and it goes on or ends."""
        waiting_ = [task for task in self._in(TaskState.AWAITING_FEEDBACK) if task.pr_number]
        if not waiting_:
            return
        task = data.draw(st.sampled_from(waiting_))
        self.yard.say(task.pr_number, "words", "ann")
        self.poll()
        queued = [one for one in self._in(TaskState.QUEUED) if one.id == task.id]
        if not queued:
            return
        self._block(self._begin(queued[0]))
        if words:
            self.yard.say(task.pr_number, "more words", "bob")
            self.poll()
        if end == "close":
            self.yard.change(task.pr_number, state="closed")
        elif end == "merge" and self.yard.hub.pulls[task.pr_number]["state"] == "open":
            self.yard.hub.merge(task.pr_number)
        elif end == "go on":
            stuck = [one for one in self._in(TaskState.BLOCKED) if one.id == task.id]
            if stuck:
                self._by_hand(
                    stuck[0], lambda: unblock(*self._place, stuck[0], ResumeRequest("ann"))
                )

    def _block(self, task: Task) -> None:
        with self.yard.store.write(*SCOPES) as tx:
            present = require_task(tx, task.id)
            verdict = said("blocked", summary="No key.")
            apply_transition(
                tx, present, decide_after_run(present, verdict, RunEndFacts(tx.now()), LIMITS)
            )

    @precondition(lambda self: self._in(*STARTABLE))
    @rule(data=st.data())
    def deliver(self, data):
        self._deliver(data.draw(st.sampled_from(self._in(*STARTABLE))))

    @precondition(lambda self: self.yard.hub.pulls)
    @rule(data=st.data(), by=people, delivered=st.booleans())
    def review(self, data, by, delivered):
        """Somebody speaks on a pull request, and perhaps it is taken up at once."""
        number = data.draw(st.sampled_from(sorted(self.yard.hub.pulls)))
        self.yard.say(number, "words", by)
        self.poll()
        queued = [task for task in self._in(TaskState.QUEUED) if task.pr_number == number]
        if queued and delivered:
            self._deliver(queued[0])

    @precondition(lambda self: self.yard.hub.pulls)
    @rule(data=st.data())
    def edit_under_way(self, data):
        """Words change while the agent answers them."""
        number = data.draw(st.sampled_from(sorted(self.yard.hub.pulls)))
        said_ = self.yard.say(number, "words", "bob")
        self.poll()
        queued = [task for task in self._in(TaskState.QUEUED) if task.pr_number == number]
        if queued:
            begun = self._begin(queued[0])
            self.yard.tick()
            self.yard.hub.edit(ItemKind.ISSUE_COMMENT, said_, "other words")
            self.poll()
            self._finish(begun, changed=True)
            assert self._in(TaskState.QUEUED)

    # What must hold.

    @invariant()
    def an_issue_has_one_task_per_flow_and_one_at_a_time(self):
        per_flow = Counter((task.number, task.flow) for task in self.tasks())
        assert all(count == 1 for count in per_flow.values())
        going = Counter(task.number for task in self.tasks() if not task.over)
        assert all(count == 1 for count in going.values())

    @invariant()
    def nothing_starts_again_by_itself(self):
        for task in self.tasks():
            before = self.ended.get(task.id)
            if before is not None and task.state is not before:
                assert (before, task.state) == (TaskState.STOPPED, TaskState.DONE)
            if task.state in OVER:
                self.ended[task.id] = task.state

    @invariant()
    def only_allowed_people_caused_it(self):
        for task in self.tasks():
            assert task.approved_by in ALLOWED
        with self.yard.store.read() as tx:
            rows = rows_by_key(tx, self.yard.name, self.handed)
        assert all(row.author in ALLOWED for row in rows)

    @invariant()
    def a_block_stands_on_task_and_pull_request(self):
        tasks = {task.id: task for task in self.tasks()}
        with self.yard.store.read() as tx:
            rows = {row.pr_number: row for row in pulls_in(tx, self.yard.name)}
        for task in tasks.values():
            if task.state is TaskState.BLOCKED and task.pr_number in rows:
                assert rows[task.pr_number].status is PullStatus.BLOCKED
        for row in rows.values():
            if row.status is PullStatus.BLOCKED:
                assert tasks[row.task].state is TaskState.BLOCKED or tasks[row.task].over

    @invariant()
    def no_word_of_a_takeover_is_told_later(self):
        with self.yard.store.read() as tx:
            for task in self._in(*set(TaskState) - OVER):
                since = self.given_back.get(task.number, "")
                rows = rows_by_key(tx, self.yard.name, pending_event_keys(tx, task))
                assert all(row.updated_at >= since for row in rows)

    @invariant()
    def what_is_taken_over_rests(self):
        assert not any(self._going(issue) for issue in self.taken_over)

    @invariant()
    def no_word_is_answered_twice(self):
        assert all(count == 1 for count in self.answered.values())

    @invariant()
    def no_word_of_an_allowed_person_is_lost(self):
        """Consumed means: answered, waiting for its turn, or replaced by an edit."""
        with self.yard.store.read() as tx:
            for task in self._in(*set(TaskState) - OVER):
                for row in self._consumed_words(tx, task):
                    let_go = row.updated_at < self.given_back.get(task.number, "")
                    if row.event_key not in self.answered and not let_go:
                        assert row.event_key in {*pending_event_keys(tx, task), *self.unheard}

    @invariant()
    def nothing_waits_in_the_inbox_for_a_task_that_hears(self):
        """What was held back is looked at again by the next poll."""
        with self.yard.store.read() as tx:
            known = rows_to_look_at(tx, self.yard.name, ("issue_comment",))
            hidden = {row.event_key for row in pending_inbox_rows(tx, self.yard.name)}
            hidden -= {row.event_key for row in known}
            rows = [row for row in rows_by_key(tx, self.yard.name, hidden) if row.deferred_at]
            stuck = blocked_threads(tx, self.yard.name)
        assert all(row.scope_number in stuck for row in rows)

    def _consumed_words(self, tx, task: Task) -> list[InboxRow]:
        if task.pr_number is None:
            return []
        rows = rows_of_thread(tx, self.yard.name, task.pr_number, "issue_comment")
        return [
            row for row in rows if row.consumed_at and row.author in ALLOWED and is_newest(tx, row)
        ]

    @invariant()
    def implementations_follow_merged_designs(self):
        designs = {task.id: task for task in self.tasks() if task.flow is Flow.DESIGN}
        for task in self.tasks():
            if task.flow is Flow.IMPLEMENTATION:
                assert designs[task.parent_task or ""].state is TaskState.DONE

    def _deliver(self, task: Task) -> None:
        self._finish(self._begin(task), changed=True)
        self.send()

    def _begin(self, task: Task) -> Task:
        with self.yard.store.write(*SCOPES) as tx:
            begun = begin_turn(tx, require_task(tx, task.id))
        self.handed |= set(begun.turn_keys)
        return begun

    def _finish(self, task: Task, changed: bool) -> None:
        self.yard.hub.branches[task.branch] = "1" * 40
        work = FinishedWork(Sha("1" * 40), "main", "1" * 40 if changed else "", has_commits=changed)
        with self.yard.store.write(*SCOPES) as tx:
            present = require_task(tx, task.id)
            more = bool(set(pending_event_keys(tx, present)) - set(present.turn_keys))
            delivery = WorkDelivery(work, said(), load_turn_input(tx, present).comments, more)
            apply_transition(
                tx, present, decide_after_delivery(present, delivery, RunEndFacts(tx.now()), LIMITS)
            )
        self.answered.update(task.turn_keys)

    def _thread(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.yard.hub.issues)))

    def _in(self, *states: TaskState) -> list[Task]:
        return [task for task in self.tasks() if task.state in states]


class Pick:
    """Stands in for `st.data()`: a rule that is called by hand draws this value."""

    def __init__(self, value: object) -> None:
        self.value = value

    def draw(self, _strategy: object) -> object:
        return self.value


# The numbers of the first issue and of its pull request.
ISSUE, PULL = 1, 2


@pytest.fixture
def life() -> Iterator[Life]:
    machine = Life()
    yield machine
    machine.teardown()


def walk(life: Life, *steps: Callable[[], object]) -> list[Flow]:
    """Do these steps and check all invariants after each; the flows of all tasks."""
    for step in steps:
        step()
        for one in life.invariants:
            one.function(life)
    return [task.flow for task in life.yard.tasks()]


def test_the_life_of_tasks():
    """To reproduce a failure, put the printed @reproduce_failure on the class Life.

    Keep what was found as a test below.
    """
    run_state_machine_as_test(
        Life, settings=settings(max_examples=examples(8, 100), stateful_step_count=30)
    )


@pytest.mark.parametrize("labelled", [ISSUE, PULL])
@pytest.mark.parametrize("polled", [False, True])
def test_merging_a_design_with_the_label_ignore_starts_nothing(life, labelled, polled):
    flows = walk(
        life,
        lambda: life.one_issue_is_well_on_its_way(DESIGN),
        lambda: life.label(Pick(labelled), "ann", IGNORE),
        lambda: life.resume(Pick(PULL)),
        *([life.poll] if polled else []),
        lambda: life.merge(Pick(PULL)),
        lambda: life.edit_under_way(Pick(PULL)),
    )
    assert flows == [Flow.DESIGN]


@pytest.mark.parametrize("labelled", [ISSUE, PULL])
@pytest.mark.parametrize("polled", [False, True])
def test_merging_a_design_without_the_label_ends_a_takeover(life, labelled, polled):
    flows = walk(
        life,
        lambda: life.one_issue_is_well_on_its_way(DESIGN),
        lambda: life.label(Pick(labelled), "ann", IGNORE),
        life.poll,
        lambda: life.take_labels_off(Pick(labelled)),
        lambda: life.speak(Pick(ISSUE), "ann"),
        *([life.poll] if polled else []),
        lambda: life.merge(Pick(PULL)),
        life.poll,
    )
    assert flows == [Flow.DESIGN, Flow.IMPLEMENTATION]
