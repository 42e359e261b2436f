"""Repository feeds, thread feeds and full scans find the same, whatever happens, whoever dies."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polled_repositories import fleet

from example_counts import examples
from hostler.forge.github.client import pagination
from hostler.forge.github.polling.poller import PollPlan
from hostler.forge.port import ItemKind
from hostler.store.pull_requests import PullStatus

PLANS = {
    "repository": PollPlan(),
    "threads": PollPlan(feeds="threads"),
    "shadow": PollPlan(incremental="shadow"),
    "full": PollPlan(incremental=False),
}
COMMENT, LINE = ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT
PULLS = 3

KINDS = {
    "say": 2,
    "line": 1,
    "review": 1,
    "edit": 2,
    "edit_line": 1,
    "delete": 1,
    "burst": 1,
    "late": 1,
    "wait": 2,
    "poll": 3,
    "die": 1,
    "block": 1,
    "unblock": 1,
}
moves = st.lists(
    st.tuples(st.sampled_from(list(Counter(KINDS).elements())), st.integers(0, 1000)), max_size=35
)


class Stream:
    """What people do, and when everybody looks."""

    def __init__(self, hub, homes):
        self.hub, self.homes = hub, homes
        for number in range(PULLS):
            hub.branches[f"b{number}"] = str(number) * 40
        self.pulls = [hub.open_pull(f"b{n}", "main", "x", by="hostler-bot") for n in range(PULLS)]
        for home in homes.values():
            for number in self.pulls:
                home.follow(number)

    def play(self, kind, which):
        getattr(self, kind)(which)

    def say(self, which):
        return self.hub.say(self.pulls[which % PULLS], f"words {which}", by="alice")

    def line(self, which):
        return self.hub.review_line(self.pulls[which % PULLS], f"line {which}", by="bob")

    def review(self, which):
        return self.hub.review(self.pulls[which % PULLS], "COMMENTED", f"all {which}", by="bob")

    def burst(self, which):
        for place in range(which % 12):
            self.say(which + place)

    def edit(self, which):
        self._edit(COMMENT, which)

    def edit_line(self, which):
        self._edit(LINE, which)

    def _edit(self, kind, which):
        ids = sorted(self.hub.remarks(kind))
        if ids:
            self.hub.edit(kind, ids[which % len(ids)], f"edited {which}")

    def delete(self, which):
        ids = sorted(self.hub.comments)
        if ids:
            self.hub.delete(COMMENT, ids[which % len(ids)])

    def late(self, which):
        made = (self.say, self.line, self.review)[which % 3](which)
        self.hub.hide(made, which % 290)

    def wait(self, which):
        self.hub.clock.advance((0, 1, 4, 30, 280, 4000)[which % 6])

    def poll(self, _which=0):
        for home in self.homes.values():
            home.poll()

    def die(self, which):
        for home in self.homes.values():
            home.poll(dies_after=which % 12)

    def block(self, which):
        self._stand(which, PullStatus.BLOCKED)

    def unblock(self, which):
        self._stand(which, PullStatus.AWAITING_FEEDBACK)

    def _stand(self, which, status):
        for home in self.homes.values():
            home.stands(self.pulls[which % PULLS], status)


@settings(
    max_examples=examples(5, 50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(moves)
def test_all_feeds_find_what_the_full_scan_finds(database_template, played):
    with (
        fleet(database_template, **PLANS) as (hub, homes),
        patch.object(pagination, "PAGE_SIZE", 5),
    ):
        stream = Stream(hub, homes)
        for move in played:
            stream.play(*move)
        hub.clock.advance(300)
        for number in range(PULLS):
            stream.unblock(number)
        for _ in range(16):
            stream.poll()
        wanted = {key for key, _ in homes["full"].rows()}
        for name, home in homes.items():
            found = Counter(key for key, _ in home.rows())
            assert set(found) == wanted, name
            assert not found or max(found.values()) == 1
