"""Turns between repositories: shares by weight, feedback first, and nobody starves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from hostler.model import format_timestamp
from hostler.service.scheduling.gates import AdmissionSnapshot, Placement, choose_next
from hostler.store.governor import after_turn
from hostler.store.tasks import Flow, Task, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
JOINS_FIRST = timedelta(minutes=15)
weights = st.dictionaries(
    st.sampled_from([f"p{n}" for n in range(6)]), st.integers(1, 100), min_size=2, max_size=6
)


class Fair:
    """Projects that compete for one place after the other."""

    def __init__(self, weights: dict[str, int]) -> None:
        self.weights = weights
        self.served: dict[str, int] = {}
        self.present = 0
        self.orders = 0

    def task(self, project: str, at: datetime = NOW, pull: int | None = None) -> Task:
        self.orders += 1
        return Task(
            id=f"t{self.orders}",
            project=project,
            repo_full_name=f"octo/{project}",
            issue_number=self.orders,
            pr_number=pull,
            flow=Flow.BUGFIX,
            title="Crash",
            author="ann",
            state=TaskState.QUEUED,
            state_since=format_timestamp(at),
            order=self.orders,
        )

    def next(self, waiting: list[Task], now: datetime = NOW) -> Task:
        places = {one.id: Placement(one.project, "helper", "command", "pool", 9) for one in waiting}
        yard = AdmissionSnapshot(
            now, places, last_turns=dict(self.served), promotion_wait=JOINS_FIRST
        )
        chosen = choose_next(waiting, yard).task
        assert chosen is not None
        ended, weight = self.served.get(chosen.project, 0), self.weights[chosen.project]
        self.served[chosen.project], self.present = after_turn(ended, self.present, weight)
        return chosen


@given(weights, st.integers(1, 400))
def test_repositories_that_always_want_a_place_get_it_by_their_weight(weights, grants):
    fair = Fair(weights)
    waiting = {name: fair.task(name) for name in weights}
    counts: Counter[str] = Counter()
    for _ in range(grants):
        chosen = fair.next(list(waiting.values()))
        counts[chosen.project] += 1
        waiting[chosen.project] = fair.task(chosen.project)
        for one, other in combinations(weights, 2):
            a, b = weights[one], weights[other]
            # Nobody is ever ahead of another by more than a turn of each.
            assert abs(counts[one] / a - counts[other] / b) <= 1 / a + 1 / b + 1e-3


@given(st.dictionaries(st.sampled_from("abcdef"), st.just(1), min_size=2, max_size=6))
def test_of_equals_the_one_served_longest_ago_is_next(weights):
    fair = Fair(weights)
    waiting = {name: fair.task(name) for name in weights}
    order = []
    for _ in range(3 * len(weights)):
        chosen = fair.next(list(waiting.values()))
        waiting[chosen.project] = fair.task(chosen.project)
        order.append(chosen.project)
    rounds = [order[at : at + len(weights)] for at in range(0, len(order), len(weights))]
    assert rounds[0] == rounds[1] == rounds[2] and set(rounds[0]) == set(weights)


@given(st.integers(1, 500), st.integers(1, 100))
def test_who_was_idle_has_no_claim_to_the_past(alone, weight):
    fair = Fair({"busy": 1, "idle": weight})
    for _ in range(alone):
        fair.next([fair.task("busy")])
    got = [fair.next([fair.task("busy"), fair.task("idle")]).project for _ in range(200)]
    # Its share from now on, and no more than that.
    share = weight / (weight + 1)
    assert abs(got.count("idle") - 200 * share) <= 2


class Flood:
    """One place a minute; some repositories flood it with words on pull requests."""

    def __init__(self, weights: dict[str, int], loud: set[str]) -> None:
        self.fair, self.loud = Fair(weights), loud
        self.now = NOW
        self.waiting = [self.fair.task(name) for name in weights if name not in loud]

    def minute(self) -> Task:
        for name in self.loud:
            self.waiting += [self.fair.task(name, self.now, pull=9) for _ in range(2)]
        chosen = self.fair.next(self.waiting, self.now)
        self.waiting.remove(chosen)
        self.now += timedelta(minutes=1)
        return chosen


@given(weights, st.data())
def test_a_quiet_repository_starves_under_no_flood(weights, data):
    names = st.sampled_from(sorted(weights))
    loud = data.draw(st.sets(names, min_size=1, max_size=len(weights) - 1))
    flood = Flood({name: min(weight, 4) for name, weight in weights.items()}, loud)
    quiet = set(weights) - loud
    # The wait that brings everybody into the first class, and a turn of each by its weight.
    longest = JOINS_FIRST // timedelta(minutes=1) + sum(flood.fair.weights.values()) + len(weights)
    got = {flood.minute().project for _ in range(longest)}
    assert quiet <= got


@given(weights)
def test_words_on_a_pull_request_go_before_new_issues_of_everybody(weights):
    fair = Fair(weights)
    first, *others = sorted(weights)
    waiting = [fair.task(name) for name in weights] + [fair.task(first, pull=3)]
    for _ in range(50):
        fair.served[first], fair.present = after_turn(
            fair.served.get(first, 0), fair.present, weights[first]
        )
    assert fair.next(waiting).pr_number == 3
    assert others


def test_a_turn_of_a_task_that_waits_for_its_time_is_not_taken():
    fair = Fair({"a": 1, "b": 1})
    sleeping = replace(
        fair.task("a"), state=TaskState.RETRYING, wake_at=format_timestamp(NOW + timedelta(hours=1))
    )
    awake = fair.task("b")
    assert fair.next([sleeping, awake]) is awake
    assert "a" not in fair.served
