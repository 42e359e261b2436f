"""A drain, in every order of requests, work, time, kills and ends."""

from __future__ import annotations

from contextlib import ExitStack
from io import StringIO

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from intake_yard import database

from example_counts import examples
from hostler.clock import FakeClock
from hostler.errors import StoreBusy
from hostler.service.restart import DrainEvent, RestartDrain, next_drain_state
from hostler.service.scheduling.gates import restart_denial
from hostler.service.service_log import ServiceLog
from hostler.store.operator import (
    RESTART,
    CommandRow,
    CommandStatus,
    Step,
    add_command,
    find_command,
    find_operation,
)
from hostler.store.outbox import open_writes
from hostler.telemetry.logs import LogDestinations
from hostler.workflows.commands import (
    RESTART_SCOPES,
    current_restart,
    request_restart,
    store_restart_step,
)

TIMEOUT = 900.0
SAID_AT = "2026-01-01T00:00:00.000Z"
looks = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.floats(0, 400)), max_size=40)


@given(looks)
def test_any_row_of_looks_leads_to_sound_acts(looks):
    drain, now = None, 0.0
    for wanted, pending, seconds in looks:
        now += seconds
        before = drain
        drain, acts = next_drain_state(drain, wanted, pending, now, TIMEOUT)
        assert (DrainEvent.STARTED in acts) == (wanted and before is None)
        assert (DrainEvent.COMPLETED in acts) == (wanted and pending == 0)
        began = before.started_at if before else now
        late = wanted and pending > 0 and now - began >= TIMEOUT
        assert (DrainEvent.TIMEOUT in acts) == late
        assert (drain is None) == (not wanted or late)
        if drain is not None:
            # The timer begins once, and is never set anew while it runs.
            assert drain.started_at == began


@given(looks)
def test_progress_is_told_when_the_number_changes(looks):
    drain, now, told = None, 0.0, None
    for _, pending, seconds in looks:
        now += min(seconds, 1.0)
        drain, acts = next_drain_state(drain, True, pending + 1, now, TIMEOUT)
        assert (DrainEvent.PROGRESS in acts) == (told is not None and told != pending + 1)
        told = pending + 1


class Draining(RuleBasedStateMachine):
    """People who ask, work that goes on, a service that is killed and started again."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.clock = FakeClock()
        self.store = self.stack.enter_context(database(self.clock))
        self.pending = 0
        self.asked = 0
        self.ends: dict[str, str] = {}
        self.gone = False
        self.start()

    def teardown(self) -> None:
        self.stack.close()

    def start(self) -> None:
        left = self._operation() if self.gone else None
        log = LogDestinations(self.clock, None, terminal=StringIO()).log
        self.drain = RestartDrain(self.store, ServiceLog(log), self.clock)
        self.drain.report_finished_restart()
        if left is not None:
            # Done only if the thing that was asked for has happened.
            done = left.step in (Step.READY, Step.UPDATED)
            found = self._operation()
            assert found is not None and found.status == ("done" if done else "failed")
        self.gone = False

    def _operation(self):
        with self.store.read() as tx:
            return find_operation(tx, RESTART)

    @rule()
    def somebody_asks(self) -> None:
        self.asked += 1
        key = f"k{self.asked}"
        row = CommandRow(key, "octo/barn", 7, self.asked, "ann", "restart", SAID_AT)
        with self.store.write(*RESTART_SCOPES) as tx:
            if request_restart(tx, "ann", row):
                add_command(tx, row)

    @precondition(lambda self: not self.gone and not self.drain.is_requested())
    @rule()
    def work_begins(self) -> None:
        self.pending += 1

    @precondition(lambda self: self.pending)
    @rule()
    def work_ends(self) -> None:
        self.pending -= 1

    @rule(seconds=st.sampled_from([0.1, 60.0, 450.0, 900.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: not self.gone)
    @rule()
    def a_turn(self) -> None:
        wanted = self.drain.is_requested()
        if self.drain.advance(self.pending, TIMEOUT):
            assert wanted and self.pending == 0
            self.gone = True

    @precondition(lambda self: self.gone)
    @rule(step=st.sampled_from(Step))
    def the_restart_goes_on(self, step: Step) -> None:
        with self.store.write(*RESTART_SCOPES) as tx:
            assert store_restart_step(tx, step) is not None

    @rule()
    def killed_and_started_again(self) -> None:
        """In any stage; work that was under way is adopted."""
        self.start()

    @invariant()
    def every_command_has_at_most_one_answer_and_none_is_forgotten(self) -> None:
        with self.store.read() as tx:
            replies = [row.token for row in open_writes(tx)]
            found = [find_command(tx, f"k{number}") for number in range(1, self.asked + 1)]
            under_way = current_restart(tx)
        assert len(replies) == len(set(replies))
        known = [one for one in found if one is not None]
        over = [one for one in known if not one.open]
        assert len(replies) == len(over)
        waits = [one.command_key for one in known if one.open]
        assert waits == ([under_way.command_key] if under_way else [])
        for one in over:
            # What was answered stays as it was answered.
            assert self.ends.setdefault(one.command_key, one.result) == one.result
            assert one.status in (CommandStatus.APPLIED, CommandStatus.FAILED)

    @invariant()
    def who_has_left_left_the_row_running(self) -> None:
        with self.store.read() as tx:
            found = current_restart(tx)
        if self.gone:
            assert found is not None and found.status == "running"
        else:
            assert found is None or found.status == "pending"


def test_what_a_busy_database_keeps_from_being_told_is_told_later_and_nothing_begins(monkeypatch):
    clock, told = FakeClock(), []
    with database(clock) as store:
        log = LogDestinations(clock, None, terminal=StringIO()).log
        drain = RestartDrain(store, ServiceLog(log, told.append), clock)
        with store.write(*RESTART_SCOPES) as tx:
            request_restart(tx, "ann")
        assert drain.advance(0, TIMEOUT)
        again = RestartDrain(store, ServiceLog(log, told.append), clock)
        with monkeypatch.context() as patch:
            patch.setattr(store, "write", refuse)
            again.report_finished_restart()
        assert again.is_requested() and "busy" in told[-1]
        assert not again.advance(0, TIMEOUT) and not again.is_requested()
        assert told[-1].startswith("The restart failed.")
        # Told once, and no drain was begun for it.
        again.advance(0, TIMEOUT)
        assert len([line for line in told if "restart failed" in line]) == 1
        assert len([line for line in told if "Restart requested" in line]) == 1


def test_nothing_begins_while_a_restart_is_under_way():
    with database(FakeClock()) as store:
        with store.read() as tx:
            assert restart_denial(tx) == ""
        with store.write(*RESTART_SCOPES) as tx:
            request_restart(tx, "ann")
        with store.read() as tx:
            assert "nothing starts before" in restart_denial(tx)


def refuse(*_scopes: str) -> None:
    raise StoreBusy("somebody", 15.0)


TestDraining = Draining.TestCase
TestDraining.settings = settings(
    max_examples=examples(10, 100), stateful_step_count=30, deadline=None
)
