"""The rules of sending as a state machine: whatever goes wrong, each write has one effect."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from outbox_rows import NOW, PACE, REFUSALS, UNCLEAR, WAITS, write

from example_counts import examples
from hostler.forge.outbox.rules import (
    LookupStep,
    NotFoundOutcome,
    SendStep,
    WaitStep,
    apply_outcome,
    choose_step,
    mark_attempt,
    mark_sent,
)
from hostler.forge.port import ActionResult
from hostler.store.outbox import WriteState


class Sending(RuleBasedStateMachine):
    """Several writes, a host that hides, loses and refuses, a sender that dies: each once."""

    @initialize(count=st.integers(1, 4), threads=st.integers(1, 2))
    def begin(self, count, threads):
        self.now = NOW
        self.rows = {n: write(n, thread=n % threads) for n in range(1, count + 1)}
        # When each effect came to be, and when it can be seen.
        self.effects: dict[int, list[datetime]] = {n: [] for n in self.rows}
        self.visible: dict[int, datetime] = {}
        self.order: list[int] = []

    def open(self):
        return [row for row in self.rows.values() if not row.settled]

    def chosen(self):
        return choose_step(self.open(), self.now, None, PACE)

    def take_effect(self, row, hidden):
        self.effects[row.sequence].append(self.now)
        self.visible.setdefault(row.sequence, self.now + timedelta(seconds=hidden))
        self.order.append(row.sequence)

    @precondition(lambda self: isinstance(self.chosen(), SendStep))
    @rule(
        answer=st.sampled_from(["201", "lost", "lost before", "crash", "crash before", "no"]),
        hidden=st.integers(0, 299),
        refusal=st.sampled_from([*WAITS, *REFUSALS]),
    )
    def send(self, answer, hidden, refusal):
        row = mark_attempt(self.chosen().row, self.now, self.now, PACE)
        if answer in ("201", "lost", "crash"):
            self.take_effect(row, hidden)
        if answer == "201":
            row = apply_outcome(row, ActionResult(id=row.sequence), self.now, PACE)
        elif answer.startswith("lost"):
            row = apply_outcome(row, UNCLEAR, self.now, PACE)
        elif answer == "no":
            row = apply_outcome(row, refusal, self.now, PACE)
        self.rows[row.sequence] = row

    @precondition(lambda self: isinstance(self.chosen(), LookupStep))
    @rule(error=st.sampled_from([None, None, None, *WAITS]))
    def look(self, error):
        row = replace(self.chosen().row, state=WriteState.UNCLEAR)
        seen = self.visible.get(row.sequence, datetime.max.replace(tzinfo=UTC)) <= self.now
        outcome = error or (ActionResult(id=row.sequence) if seen else NotFoundOutcome(self.now))
        self.rows[row.sequence] = apply_outcome(row, outcome, self.now, PACE)

    @rule()
    def show(self):
        """A feed shows what can be seen of ours."""
        for row in self.open():
            if self.visible.get(row.sequence, datetime.max.replace(tzinfo=UTC)) <= self.now:
                self.rows[row.sequence] = mark_sent(row, ActionResult(id=row.sequence))

    @precondition(lambda self: isinstance(self.chosen(), WaitStep) and self.chosen().until)
    @rule()
    def wait(self):
        self.now = self.chosen().until

    @invariant()
    def no_write_has_two_effects(self):
        assert all(len(times) <= 1 for times in self.effects.values())

    @invariant()
    def what_is_sent_exists(self):
        for row in self.rows.values():
            if row.state is WriteState.SENT:
                assert len(self.effects[row.sequence]) == 1

    @invariant()
    def threads_keep_their_order(self):
        for thread in {row.scope_number for row in self.rows.values()}:
            made = [n for n in self.order if self.rows[n].scope_number == thread]
            assert made == sorted(made)

    def teardown(self):
        """Left alone with a host that works, everything comes to an end."""
        for _ in range(500):
            choice = self.chosen()
            if isinstance(choice, WaitStep):
                if choice.until is None:
                    break
                self.now = choice.until
            elif isinstance(choice, LookupStep):
                row = replace(choice.row, state=WriteState.UNCLEAR)
                seen = self.visible.get(row.sequence)
                found = seen is not None and seen <= self.now
                outcome = ActionResult(id=1) if found else NotFoundOutcome(self.now)
                self.rows[row.sequence] = apply_outcome(row, outcome, self.now, PACE)
            else:
                row = mark_attempt(choice.row, self.now, self.now, PACE)
                self.take_effect(row, 0)
                self.rows[row.sequence] = apply_outcome(row, ActionResult(id=1), self.now, PACE)
        assert not self.open()
        self.no_write_has_two_effects()


TestSending = Sending.TestCase
TestSending.settings = settings(max_examples=examples(30, 200), stateful_step_count=30)
