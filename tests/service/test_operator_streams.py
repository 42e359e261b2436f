"""Random streams of comments, cut off anywhere: one effect and one reply for each command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from intake_yard import BUGFIX, database
from operator_bench import BOT, OLGA, STRANGER, Bench

from hostler.clock import FakeClock
from hostler.forge.port import ItemKind
from hostler.intake.operator_commands import refusal_token, reply_token
from hostler.intake.operator_syntax import (
    OperatorVerb,
    ParsedCommand,
    has_other_text,
    parse_command,
)
from hostler.service.operator_commands import executor
from hostler.store import Transaction
from hostler.store.operator import CommandRow, CommandStatus

WORDS = "Please add a line."
TEXTS = [
    "/hostler status",
    "/hostler pause",
    "/hostler unpause",
    "/hostler retry issue=4711",
    "/hostler restart",
    "/hostler stop now",
    "/hostler",
    "so:\n\n/hostler pause\n",
    "/hostler pause\n/hostler pause",
    "> /hostler pause",
    WORDS,
]
PEOPLE = [OLGA, OLGA, OLGA, "ann", STRANGER, BOT]
# What a command of each verb comes to here.
ENDS = {
    OperatorVerb.STATUS: CommandStatus.APPLIED,
    OperatorVerb.PAUSE: CommandStatus.APPLIED,
    OperatorVerb.UNPAUSE: CommandStatus.FAILED,
    OperatorVerb.RETRY: CommandStatus.FAILED,
}
moves = st.lists(
    st.one_of(
        st.tuples(
            st.just("say"), st.integers(0, 3), st.sampled_from(PEOPLE), st.sampled_from(TEXTS)
        ),
        st.tuples(st.just("edit"), st.integers(0, 9), st.sampled_from(TEXTS)),
        st.tuples(st.just("look")),
        st.tuples(st.just("cut"), st.integers(1, 6), st.booleans()),
        st.tuples(st.just("replay")),
        st.tuples(st.just("wake")),
    ),
    min_size=3,
    max_size=14,
)


class Cut(BaseException):
    """The process is gone."""


class Fragile:
    """A store that is cut off at its n-th write: before it is stored, or right after."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.left = 0
        self.stored = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def write(self, *scopes: str, **more: Any) -> Iterator[Transaction]:
        self.left -= 1
        now = self.left == 0
        with self._store.write(*scopes, **more) as tx:
            yield tx
            if now and not self.stored:
                raise Cut
        if now:
            raise Cut


class Stream:
    """A bench on a fragile store, with threads where commands count and where they do not."""

    def __init__(self, store: Any, clock: FakeClock) -> None:
        self.store = Fragile(store)
        self.bench = yard = Bench(self.store, clock, Path())  # type: ignore[arg-type]
        yard.post = replace(yard.post, app=replace(yard.post.app, store=self.store))
        number = yard.file("Crash", "ann", BUGFIX)
        elsewhere = yard.file("No label", "ann")
        yard.wake()
        yard.poll()
        pull = yard.open_pull(yard.task())
        self.threads = [yard.operations, number, pull, elsewhere]
        self.heard = {yard.operations, number, pull}
        self.said: dict[int, tuple[int, str, str]] = {}

    def play(self, move: tuple[Any, ...]) -> None:
        getattr(self, move[0])(*move[1:])

    def say(self, thread: int, who: str, text: str) -> None:
        number = self.threads[thread]
        self.said[self.bench.say(number, text, by=who)] = (number, who, text)

    def edit(self, which: int, text: str) -> None:
        if self.said:
            comment = sorted(self.said)[which % len(self.said)]
            self.bench.tick()
            self.bench.hub.edit(ItemKind.ISSUE_COMMENT, comment, text)
            number, who, _ = self.said[comment]
            self.said[comment] = (number, who, text)

    def look(self) -> None:
        self.bench.poll()

    def cut(self, left: int, stored: bool) -> None:
        """A look that is cut off, and a new service."""
        self.store.left, self.store.stored = left, stored
        try:
            self.bench.poll()
        except Cut:
            pass
        finally:
            self.store.left = 0
        self.bench.wake()

    def wake(self) -> None:
        self.bench.wake()

    def replay(self) -> None:
        """The feeds begin from farther back, and show again what they have shown."""
        with self.store.write() as tx:
            tx.constant("DELETE FROM github_comment_poll_cursors WHERE scope_number = 0")
            tx.constant("DELETE FROM github_feed_pages")

    def commands(self) -> dict[int, tuple[int, str, str]]:
        """What stands on GitHub in the end, and is a command where commands count."""
        return {
            comment: said
            for comment, said in self.said.items()
            if said[0] in self.heard and said[1] != BOT and parse_command(said[2]) is not None
        }


def effect(tx: Transaction, _post: object, command: CommandRow) -> str:
    """Something that cannot be done twice for one command."""
    tx.constant("INSERT INTO store_meta (key, value) VALUES (?, '')", [command.command_key])
    return "Done."


def broken(tx: Transaction, post: object, command: CommandRow) -> str:
    effect(tx, post, command)
    raise ZeroDivisionError


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("left", range(1, 10))
def test_a_look_that_is_cut_off_at_any_of_its_writes_repeats_and_loses_nothing(left, stored):
    said = [("say", 0, OLGA, text) for text in (*TEXTS[:3], TEXTS[5])]
    play([*said, ("say", 2, "ann", "/hostler pause"), ("cut", left, stored)])


@settings(max_examples=12)
@given(moves)
def test_each_command_has_one_effect_and_one_reply(played):
    play(played)


@pytest.mark.soak
@settings(max_examples=1000)
@given(moves)
def test_each_of_many_commands_has_one_effect_and_one_reply(played):
    play(played)


def play(played: list[tuple[Any, ...]]) -> None:
    """From an empty house to the end of a stream."""
    clock = FakeClock()
    with pytest.MonkeyPatch.context() as patch, database(clock) as store:
        patch.setitem(executor.WRITE_COMMANDS, OperatorVerb.PAUSE, effect)
        patch.setitem(executor.WRITE_COMMANDS, OperatorVerb.UNPAUSE, broken)
        stream = Stream(store, clock)
        for move in played:
            stream.play(move)
        stream.replay()
        for _ in range(2):
            stream.wake()
            stream.look()
        check(stream)


def check(stream: Stream) -> None:
    rows, replies = stream.bench.rows(), stream.bench.replies()
    for row in rows:
        check_end(row)
    answered = [row for row in rows if row.actor == OLGA and not row.open]
    refused = {row.thread_number for row in rows if row.actor != OLGA}
    # Exactly these were said, and each once.
    tokens = [reply_token(row.command_key) for row in answered]
    tokens += [refusal_token(number) for number in refused]
    found = Counter(reply.token for reply in replies if not reply.token.startswith("redirect"))
    assert found == Counter(tokens)
    assert effects(stream) == {
        row.command_key for row in answered if (row.verb, row.status) == ("pause", "applied")
    }
    # Whatever stands there as a command was heard as one, and is for no agent.
    heard = {(row.comment_id, row.thread_number, row.actor) for row in rows}
    for comment, (number, who, _) in stream.commands().items():
        assert (comment, number, who) in heard
    assert all(row.thread_number in stream.heard and row.actor != BOT for row in rows)
    check_words(stream)


def check_end(row: CommandRow) -> None:
    if row.actor != OLGA or row.verb == "unknown":
        assert row.status is CommandStatus.REFUSED
    elif row.verb == OperatorVerb.RESTART:
        assert row.status in (CommandStatus.WAITING, CommandStatus.FAILED)
    else:
        assert row.status is ENDS[OperatorVerb(row.verb)]


def effects(stream: Stream) -> set[str]:
    with stream.store.read() as tx:
        keys = tx.constant("SELECT key FROM store_meta WHERE key LIKE '%issue_comment%'")
        return set(keys.scalars())


def check_words(stream: Stream) -> None:
    """Only plain words of allowed people wait; commands do not, but for words beside them."""
    waiting = stream.bench.waiting(stream.bench.task())
    told = {int(key.split(":")[1]) for key in waiting}
    commands = set(stream.commands())
    beside = {comment for comment in told & commands if has_other_text(stream.said[comment][2])}
    assert told & commands == beside
    assert {stream.said[comment][1] for comment in told} <= {"ann"}


def test_the_texts_are_what_they_are_meant_to_be():
    asked = [parse_command(text) for text in TEXTS]
    assert sum(isinstance(one, ParsedCommand) for one in asked) == 6
    assert sum(one is None for one in asked) == 2
