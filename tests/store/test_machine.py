"""Both databases and a plain model, driven by the same random steps, always agree."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from database import PATIENT, Database
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from example_counts import examples
from hostler.clock import FakeClock
from hostler.errors import StoreConflict
from hostler.model import ActionToken, RepoName, ScopeKind, Surface, TokenStatus
from hostler.store import known_repositories
from hostler.store.outbox import TokenEvent, next_attempts, next_status
from hostler.store.schema import action_tokens, poll_cursors, repositories
from hostler.store.transaction import normal_stamp

NAMES = [RepoName("octo", "a"), RepoName("octo", "b"), RepoName("octo", "c")]
repos = st.sampled_from(NAMES)
tokens = st.sampled_from(["t1", "t2", "t3"])
scopes = st.integers(1, 2)
surfaces = st.sampled_from([Surface.REPO_ISSUES, Surface.PR_ISSUE_COMMENTS])
moments = st.datetimes().map(lambda moment: moment.isoformat() + "Z")
ids = st.integers(0, 2**62)
numbers = st.none() | st.integers(1, 3)


class Undone(Exception):
    """Raised to have a transaction undone."""


class Model:
    """What a store must answer, in plain dictionaries."""

    def __init__(self):
        self.cursors, self.tokens, self.repositories = {}, {}, {}

    def copy(self):
        other = Model()
        other.cursors, other.tokens = dict(self.cursors), dict(self.tokens)
        other.repositories = dict(self.repositories)
        return other

    def rename(self, old, new):
        if new in self.repositories and new != old:
            raise StoreConflict("both known")
        for table in (self.cursors, self.tokens):
            for key in [key for key in table if key[0] == old != new]:
                # Rows of a name that no repository has yet may stand in the way.
                if (new, *key[1:]) in table:
                    raise StoreConflict("rows of both")
                table[(new, *key[1:])] = table.pop(key)
        if old in self.repositories:
            self.repositories[new] = self.repositories.pop(old)

    def add(self, name, number):
        known = [other for other, found in self.repositories.items() if found and found == number]
        if known and known[0] != name:
            self.rename(known[0], name)
        before = self.repositories.setdefault(name, None)
        if number is not None and before not in (None, number):
            raise StoreConflict("another one")
        self.repositories[name] = number if number is not None else before


class StoreMachine(RuleBasedStateMachine):
    """Each step runs on every store and on the model; answers and errors must be the same."""

    databases: ClassVar[list[Database]] = []

    @initialize()
    def begin(self):
        self.clock = FakeClock()
        self.stores = [database.open(self.clock, PATIENT) for database in self.databases]
        self.model = Model()
        for store in self.stores:
            with store.write() as tx:
                for table in (action_tokens, poll_cursors, repositories):
                    tx.execute(table.delete())

    def teardown(self):
        for store in getattr(self, "stores", []):
            store.close()

    def everywhere(self, act, expect, undo=False):
        """Run on all; compare with the model, which keeps the change only if all store it."""
        after = self.model.copy()
        expected = self.outcome(lambda: expect(after))
        for store in self.stores:
            assert self.outcome(lambda store=store: self.run(store, act, undo)) == expected
        if not undo and expected[0] == "ok":
            self.model = after

    def run(self, store, act, undo):
        answer = None
        try:
            with store.write("machine") as tx:
                answer = act(store, tx)
                if undo:
                    raise Undone
        except Undone:
            pass
        return answer

    def outcome(self, action):
        try:
            return "ok", action()
        except (StoreConflict, ValueError) as error:
            return "error", type(error)

    @rule(name=repos, surface=surfaces, scope=scopes, at=moments, last=ids, undo=st.booleans())
    def move_cursor(self, name, surface, scope, at, last, undo):
        def act(store, tx):
            found = store.repo(name).upsert_poll_cursor(
                tx, surface, scope,
                last_updated_at=at, last_comment_id=last, bootstrap_complete=last % 2 == 0,
            )  # fmt: skip
            return found.last_updated_at, found.last_comment_id, found.bootstrap_complete

        def expect(model):
            row = (normal_stamp(at), last, last % 2 == 0)
            model.cursors[(name, surface, scope)] = row
            return row

        self.everywhere(act, expect, undo)

    @rule(name=repos, token=tokens, scope=scopes, undo=st.booleans())
    def plan_token(self, name, token, scope, undo):
        def act(store, tx):
            found = store.repo(name).record_action_token_planned(
                tx, token, scope_kind=ScopeKind.ISSUE, scope_number=scope, source="machine"
            )
            return found.status, found.attempt_count

        def expect(model):
            new = ActionToken(
                token, ScopeKind.ISSUE, scope, "machine", TokenStatus.PLANNED, 0, None, None, "", ""
            )
            found = model.tokens.setdefault((name, token), new)
            if found.scope_number != scope:
                raise StoreConflict("another scope")
            return found.status, found.attempt_count

        self.everywhere(act, expect, undo)

    @rule(name=repos, token=tokens, event=st.sampled_from(TokenEvent), comment=ids, at=moments)
    def hear_of_token(self, name, token, event, comment, at):
        def act(store, tx):
            repo = store.repo(name)
            if event is TokenEvent.OBSERVED:
                found = repo.record_action_token_observed(
                    tx, token, comment_id=comment, updated_at=at
                )
            elif event is TokenEvent.POSTED:
                found = repo.record_action_token_posted(tx, token)
            else:
                found = repo.record_action_token_failed(tx, token)
            return found and (found.status, found.attempt_count, found.observed_comment_id)

        def expect(model):
            found = model.tokens.get((name, token))
            if found is None and event is TokenEvent.OBSERVED:
                return None
            if found is None:
                raise StoreConflict("never planned")
            found = replace(
                found,
                status=next_status(found.status, event),
                attempt_count=next_attempts(found.attempt_count, event),
            )
            if event is TokenEvent.OBSERVED:
                found = replace(found, observed_comment_id=comment)
            model.tokens[(name, token)] = found
            return found.status, found.attempt_count, found.observed_comment_id

        self.everywhere(act, expect)

    @rule(name=repos, number=numbers, undo=st.booleans())
    def add_repository(self, name, number, undo):
        def act(store, tx):
            return store.repo(name).add(tx, number).github_id

        def expect(model):
            model.add(name, number)
            return model.repositories[name]

        self.everywhere(act, expect, undo)

    @precondition(lambda self: self.model.repositories)
    @rule(data=st.data(), new=repos)
    def rename(self, data, new):
        old = data.draw(st.sampled_from(sorted(self.model.repositories)))
        self.everywhere(
            lambda store, tx: store.repo(old).rename(tx, new).name,
            lambda model: model.rename(old, new) or new,
        )

    @rule(seconds=st.floats(-1e6, 1e6))
    def the_clock_jumps(self, seconds):
        self.clock.jump(seconds)

    @rule()
    def read_everything(self):
        for store in self.stores:
            with store.read() as tx:
                found = {item.name: item.github_id for item in known_repositories(tx)}
                assert found == self.model.repositories
                for name in NAMES:
                    for token in ("t1", "t2", "t3"):
                        stored = store.repo(name).get_action_token(tx, token)
                        expected = self.model.tokens.get((name, token))
                        assert (stored and stored.status) == (expected and expected.status)
                    for surface in (Surface.REPO_ISSUES, Surface.PR_ISSUE_COMMENTS):
                        for scope in (1, 2):
                            cursor = store.repo(name).get_poll_cursor(tx, surface, scope)
                            row = self.model.cursors.get((name, surface, scope))
                            assert (cursor and cursor.last_comment_id) == (row and row[1])


# Nothing is remembered between runs: a run that a busy machine cut off would be replayed for ever.
SETTINGS = settings(
    max_examples=examples(12, 100), stateful_step_count=20, deadline=None, database=None
)


def run_machine(databases):
    machine = type("Machine", (StoreMachine,), {"databases": databases})
    run_state_machine_as_test(machine, settings=SETTINGS)


@pytest.fixture
def in_memory(sqlite_template):
    """A database on a disk that syncs for nothing: rules are tested here, not durability."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="hostler-machine-", dir=memory) as folder:
        shutil.copy(sqlite_template, folder)
        yield Database(Path(folder))


def test_sqlite_agrees_with_the_model(in_memory):
    run_machine([in_memory])


@pytest.mark.slow
@pytest.mark.postgres
def test_both_databases_and_the_model_agree(in_memory, postgres_database):
    run_machine([in_memory, postgres_database])
