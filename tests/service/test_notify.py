"""One call per cause, whatever is refused, restarted or cut off."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from intake_yard import Yard, database

from example_counts import examples
from hostler.clock import FakeClock
from hostler.config.settings import Notify, Settings
from hostler.errors import HostlerError
from hostler.service.notifications.delivery import NotificationFailed
from hostler.service.notifications.notifier import MAX_ATTEMPTS, Notifier
from hostler.service.outbox_thread import SenderThreads
from hostler.store.operator import NoticeState, count_notices
from hostler.store.tasks import TaskState

ENVIRONMENT = {"WHERE": "http://127.0.0.1:9/", "KEY": "secret"}
SETTINGS = Settings(notify=Notify(url_env="WHERE", secret_env="KEY"))


class Killed(BaseException):
    """The process is gone."""


class Line:
    """The other side: it takes calls, refuses them, or we die while it does."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.attempts: Counter[str] = Counter()
        self.mood = "takes"

    def __call__(self, address, call) -> int:
        delivery = call.headers["X-Hostler-Delivery"]
        self.attempts[delivery] += 1
        if self.mood == "busy":
            raise NotificationFailed("HTTP 503", retryable=True)
        if self.mood == "refuses":
            raise NotificationFailed("HTTP 404", retryable=False)
        self.taken.append(delivery)
        if self.mood == "dies":
            self.mood = "takes"
            raise Killed
        return 200


def notifier(yard: Yard, line: Line, **more) -> Notifier:
    return Notifier(yard.store, SETTINGS, yard.clock, ENVIRONMENT, send=line, **more)


class Calls(RuleBasedStateMachine):
    """Tasks that wait for people, and a service that comes and goes."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        clock = FakeClock()
        self.yard = Yard(self.stack.enter_context(database(clock)), clock)
        self.yard.file("Crash", "ann", "agent:bugfix")
        self.yard.poll()
        self.line = Line()
        self.service = notifier(self.yard, self.line)
        self.causes = 0
        self.deaths = 0

    def teardown(self) -> None:
        self.stack.close()

    @rule(state=st.sampled_from([TaskState.BLOCKED, TaskState.NEEDS_INPUT]))
    def somebody_is_needed(self, state):
        self.yard.tick()
        task = self.yard.task()
        if task.state is not state:
            self.yard.set(task, state=state, question="Which?", reason="Stuck.")
            self.causes += 1

    @rule()
    def work_goes_on(self):
        self.yard.tick()
        self.yard.set(self.yard.task(), state=TaskState.RUNNING)
        self.look()

    @rule(mood=st.sampled_from(["takes", "takes", "busy", "dies"]))
    def the_other_side_is(self, mood):
        self.line.mood = mood

    @rule()
    def restart(self):
        self.service = notifier(self.yard, self.line)

    @rule(seconds=st.integers(1, 1000))
    def time_passes(self, seconds):
        self.yard.clock.advance(seconds)

    @rule()
    def look(self):
        try:
            self.service.send_due()
        except Killed:
            self.deaths += 1
            self.restart()

    @invariant()
    def each_cause_is_called_for_once_but_for_deaths(self):
        assert len(set(self.line.taken)) <= self.causes
        repeated = sum(count - 1 for count in Counter(self.line.taken).values())
        assert repeated <= self.deaths
        assert all(count <= MAX_ATTEMPTS + self.deaths for count in self.line.attempts.values())


def test_calls_are_made_once():
    run_state_machine_as_test(
        Calls, settings=settings(max_examples=examples(8, 100), stateful_step_count=25)
    )


@pytest.fixture
def yard():
    clock = FakeClock()
    with database(clock) as store:
        found = Yard(store, clock)
        found.file("Crash", "ann", "agent:bugfix")
        found.poll()
        found.set(found.task(), state=TaskState.BLOCKED, reason="Stuck.")
        yield found


def count(yard: Yard, state: NoticeState) -> int:
    with yard.store.read() as tx:
        return count_notices(tx, state)


def test_a_refusal_is_tried_again_when_it_is_due_and_then_given_up(yard):
    line, told = Line(), []
    line.mood = "busy"
    service = notifier(yard, line, told=lambda notice: told.append(notice.state))
    for _ in range(20):
        seconds = service.send_due()
        if seconds is None:
            break
        # Not before its time.
        service.send_due()
        yard.clock.advance(seconds)
    assert line.attempts.total() == MAX_ATTEMPTS and told[-1] is NoticeState.FAILED
    assert count(yard, NoticeState.FAILED) == 1 and service.send_due() is None


def test_a_final_refusal_is_final(yard):
    line = Line()
    line.mood = "refuses"
    service = notifier(yard, line)
    service.send_due()
    yard.clock.advance(10_000)
    service.send_due()
    assert line.attempts.total() == 1


def test_an_address_that_is_missing_loses_no_call(yard):
    line = Line()
    broken = Notifier(yard.store, SETTINGS, yard.clock, {}, send=line)
    with pytest.raises(HostlerError):
        broken.send_due()
    notifier(yard, line).send_due()
    assert len(line.taken) == 1


def test_only_what_was_chosen_is_called_for(yard):
    line = Line()
    few = Settings(notify=Notify(url_env="WHERE", events=["parked"]))
    Notifier(yard.store, few, yard.clock, ENVIRONMENT, send=line).send_due()
    assert line.taken == [] and count(yard, NoticeState.QUEUED) == 0


def test_the_thread_calls_when_it_is_woken_and_leaves_when_it_is_told(yard):
    line = Line()
    told = yard.clock.wakeup()
    service = notifier(yard, line, told=lambda _: told.set())
    silent = Notifier(yard.store, Settings(), yard.clock, {}, send=line)
    both = SenderThreads(service, silent)
    both.start()
    both.wake()
    assert told.wait(None)
    assert both.leave(30) and len(line.taken) == 1
