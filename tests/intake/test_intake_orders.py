"""However events arrive (order, batches, repetitions), the tasks and words are the same."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from intake_yard import ALLOWED, BUGFIX, DESIGN, STRANGERS, Yard, database

from example_counts import examples
from hostler.clock import FakeClock
from hostler.forge.github import payloads
from hostler.forge.github.polling.ingest import ingest_items
from hostler.forge.outbox.queue import ignore_settled
from hostler.forge.port import Item, ItemKind

people = st.sampled_from([*ALLOWED, *STRANGERS])
PERSON = FakeClock().now()


def at(second: int) -> str:
    return (PERSON + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


def issue_version(number: int, second: int, author: str, labels: tuple[str, ...]) -> Item:
    payload: dict[str, Any] = {
        "id": 100 + number,
        "number": number,
        "title": f"Issue {number}",
        "body": f"as of {second}",
        "state": "open",
        "user": {"login": author},
        "labels": [{"name": label} for label in labels],
        "updated_at": at(second),
    }
    return payloads.parse_item(ItemKind.ISSUE, payload)


def comment_version(comment: int, number: int, second: int, author: str) -> Item:
    payload = {
        "id": 1000 + comment,
        "body": f"words of {second}",
        "user": {"login": author},
        "updated_at": at(second),
        "issue_url": f"https://x.example/issues/{number}",
    }
    return payloads.parse_item(ItemKind.ISSUE_COMMENT, payload)


@st.composite
def histories(draw: st.DrawFn) -> list[Item]:
    """Issues that get their label at some time and keep it, and words on them, edited or not."""
    items: list[Item] = []
    for number in range(1, draw(st.integers(1, 2)) + 1):
        author, label = draw(people), draw(st.sampled_from([BUGFIX, DESIGN]))
        plain, labelled = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        for second in range(plain + labelled):
            labels = (label,) if second >= plain else ()
            items.append(issue_version(number, 10 * second, author, labels))
        for comment in range(draw(st.integers(0, 3))):
            who = draw(people)
            for version in range(draw(st.integers(1, 2))):
                second = 5 + comment + 10 * version
                items.append(comment_version(10 * number + comment, number, second, who))
    return items


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[Item], list[list[Item]]]:
    """A history, and the same in another order, cut into batches, with repetitions."""
    history = draw(histories())
    again = draw(st.lists(st.sampled_from(history), max_size=4)) if history else []
    shuffled = draw(st.permutations([*history, *again]))
    cuts = sorted(draw(st.lists(st.integers(0, len(shuffled)), max_size=3)))
    edges = [0, *cuts, len(shuffled)]
    return history, [shuffled[one:two] for one, two in pairwise(edges)]


def outcome(batches: list[list[Item]]) -> object:
    clock = FakeClock()
    with database(clock) as store:
        yard = Yard(store, clock)
        for batch in batches:
            with store.write("outbox") as tx:
                ingest_items(tx, yard.name, yard.hub.login, batch, ignore_settled)
            yard.take()
        return sorted(
            (task.number, task.flow, task.state, task.body_digest, tuple(yard.waiting(task)))
            for task in yard.tasks()
        )


@settings(max_examples=examples(10, 100))
@given(arrivals())
def test_tasks_and_words_do_not_depend_on_how_events_arrive(given_):
    history, batches = given_
    assert outcome(batches) == outcome([history])


@settings(max_examples=examples(10, 100))
@given(arrivals())
def test_without_anybody_allowed_there_is_never_a_task(given_):
    _, batches = given_
    theirs = [[item for item in batch if item.author not in ALLOWED] for batch in batches]
    assert outcome(theirs) == []
