"""Reading whole lists while they change, against a model."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.errors import ServerFailed
from hostler.forge.github.client import pagination
from hostler.forge.github.client.pagination import read_ascending, read_by_id
from hostler.forge.github.client.transport import ApiAnswer
from hostler.forge.github.rate_limit.limits import RateLimitBudget
from hostler.forge.port import SurfaceFeed

SMALL = 3


def answer(data, next_url="", last_url=""):
    return ApiAnswer(
        200, data, RateLimitBudget(None, None, None, None), next_url=next_url, last_url=last_url
    )


def moment(second):
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


class Host:
    """A list of items that somebody edits, adds to and deletes from between two pages."""

    def __init__(self, seconds, moves):
        self.items = dict(enumerate(seconds, start=1))
        self.now = max(seconds, default=0) + 1
        self.moves = list(moves)
        self.deleted, self.edited = set(), set()

    def stir(self):
        for kind, which in self.moves.pop(0) if self.moves else ():
            ids = sorted(self.items)
            self.now += 1
            if kind == "add" or not ids:
                self.items[max(ids, default=0) + 1] = self.now
            elif kind == "edit":
                self.edited.add(ids[which % len(ids)])
                self.items[ids[which % len(ids)]] = self.now
            else:
                gone = ids[which % len(ids)]
                self.deleted.add(gone)
                del self.items[gone]

    def by_change(self, since, page):
        shown = sorted((second, key) for key, second in self.items.items())
        wanted = [(s, k) for s, k in shown if since is None or moment(s) >= since]
        cut = wanted[(page - 1) * SMALL : page * SMALL]
        self.stir()
        return answer([{"id": key, "updated_at": moment(second)} for second, key in cut])

    def read_by_id(self, url):
        page = int(url.rpartition("=")[2]) if url else 1
        ids = sorted(self.items)
        last = max((len(ids) + SMALL - 1) // SMALL, 1)
        cut = ids[(page - 1) * SMALL : page * SMALL]
        self.stir()
        more = "http://x/list?per_page=3&page={}".format
        following = more(page + 1) if page < last else ""
        return answer([{"id": key} for key in cut], following, more(last) if following else "")


moves = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["add", "edit", "edit", "delete"]), st.integers(0, 50)),
        max_size=3,
    ),
    max_size=15,
)
seconds = st.lists(st.integers(0, 12), max_size=25)


@settings(max_examples=200)
@given(seconds, moves, st.none() | st.integers(0, 12).map(moment))
def test_nothing_that_was_there_is_skipped_while_others_move(when, stirred, since):
    host = Host(when, stirred)
    wanted = {key for key, second in host.items.items() if since is None or moment(second) >= since}
    with patch.object(pagination, "PAGE_SIZE", SMALL):
        found = read_ascending(host.by_change, since, max_pages=500)
    assert found.complete
    missed = wanted - host.deleted - {item["id"] for item in found.items}
    # Where pages had to be counted, one that is edited just then is left to the next reading.
    crowded = any(when.count(second) >= SMALL for second in when)
    assert missed <= (host.edited if crowded else set())


@settings(max_examples=200)
@given(seconds, moves)
def test_a_list_by_id_loses_nothing_to_deletions(when, stirred):
    host = Host(when, stirred)
    wanted = set(host.items)
    found = read_by_id(host.read_by_id)
    assert found.complete
    assert wanted - host.deleted <= {item["id"] for item in found.items}
    ids = [item["id"] for item in found.items]
    assert ids == sorted(set(ids))


def test_a_reading_that_is_too_long_is_a_beginning():
    host = Host(list(range(30)), [])
    with patch.object(pagination, "PAGE_SIZE", SMALL):
        found = read_ascending(host.by_change, None, max_pages=4)
    assert not found.complete
    ids = [item["id"] for item in found.items]
    assert ids == list(range(1, len(ids) + 1))


NO_ITEMS = [None, {}, "x", [1], [[]], [{}], [{"id": "x"}], [{"id": None}], [{"id": True}]]


@pytest.mark.parametrize("data", NO_ITEMS)
def test_a_page_that_is_no_list_of_objects_is_a_failing_server(data):
    with pytest.raises(ServerFailed):
        read_by_id(lambda url: answer(data))


@pytest.mark.parametrize("data", [*NO_ITEMS, [{"id": 1}]])
def test_a_sorted_page_without_its_order_is_a_failing_server(data):
    with pytest.raises(ServerFailed):
        read_ascending(lambda since, page: answer(data), None)


def test_a_link_without_a_page_is_a_failing_server():
    with pytest.raises(ServerFailed):
        read_by_id(lambda url: answer([], "http://x/?after=cursor", "http://x/?after=other"))


def test_the_real_host_gives_all_pages(sandbox_repo):
    number = sandbox_repo.issue()
    ids = [sandbox_repo.say(number, f"comment {n}") for n in range(230)]
    assert [item.id for item in sandbox_repo.forge.thread(number)] == ids
    found = sandbox_repo.forge.changes(SurfaceFeed.ISSUE_COMMENTS, None)
    # All share one second, so that pages had to be counted.
    assert sorted(item.id for item in found.items) == ids
    for comment in ids[::40]:
        sandbox_repo.pass_time(1)
        sandbox_repo.do("PATCH", f"issues/comments/{comment}", body="edited")
    found = sandbox_repo.forge.changes(SurfaceFeed.ISSUE_COMMENTS, None)
    assert sorted(item.id for item in found.items) == ids
