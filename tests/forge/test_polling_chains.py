"""Chains against a list that changes between readings: nothing is missed, nothing asked in vain."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import examples
from hostler.forge.github.client import pagination
from hostler.forge.github.client.pagination import (
    page_tags,
    read_ascending,
    read_by_id,
    read_numbered,
)
from hostler.forge.github.client.transport import ApiAnswer
from hostler.forge.github.polling.cursors import keep_chain
from hostler.forge.github.rate_limit.limits import RateLimitBudget
from hostler.forge.port import ListReading

SMALL = 3
SILENT = RateLimitBudget(None, None, None, None)


def moment(second):
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


class Host:
    """A list with ETags, between whose readings people work."""

    def __init__(self, seconds):
        self.items = dict(enumerate(seconds, start=1))
        self.last = len(seconds)
        self.now = max(seconds, default=0)

    def act(self, kind, which, pause):
        self.now += pause
        ids = sorted(self.items)
        if kind == "add" or not ids:
            self.last += 1
            self.items[self.last] = self.now
        elif kind == "late":
            self.last += 1
            self.items[self.last] = max(self.now - which, 0)
        elif kind == "edit":
            self.items[ids[which % len(ids)]] = self.now
        else:
            del self.items[ids[which % len(ids)]]

    def answer(self, rows, etag):
        fresh = repr(rows)
        data = [{"id": key, "updated_at": moment(second)} for second, key in rows]
        if fresh == etag:
            return ApiAnswer(304, None, SILENT, etag=fresh)
        return ApiAnswer(200, data, SILENT, etag=fresh)

    def rows(self, since=""):
        return sorted((s, k) for k, s in self.items.items() if moment(s) >= since)

    def cut(self, rows, number):
        return rows[(number - 1) * SMALL : number * SMALL]

    def read_by_change(self, since, known):
        etags = page_tags(known)

        def page(anchor, number):
            rows = self.cut(self.rows(anchor or ""), number)
            return self.answer(rows, etags.get((anchor or "", number), ""))

        return read_ascending(page, since, known)

    def read_by_number(self, known, **how):
        etags = page_tags(known)
        rows = sorted(self.rows(), key=lambda row: row[1])

        def page(number):
            return self.answer(self.cut(rows, number), etags.get(("", number), ""))

        return read_numbered(page, known, **how)


def chain_of(found):
    return keep_chain(ListReading((), found.complete, found.chain), most=100)


def versions(found):
    return {(item["id"], item["updated_at"]) for item in found.items}


acts = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "edit", "edit", "late", "delete"]),
        st.integers(0, 40),
        st.integers(0, 2),
    ),
    max_size=4,
)
histories = st.lists(acts, max_size=10)
seconds = st.lists(st.integers(0, 12), max_size=20)


@settings(max_examples=examples(120, 1000))
@given(seconds, histories, st.none() | st.integers(0, 12).map(moment))
def test_what_is_not_in_the_answer_was_in_an_earlier_one(when, history, since):
    host, chain, seen = Host(when), (), set()
    with patch.object(pagination, "PAGE_SIZE", SMALL):
        for acts_now in [[], *history]:
            for act in acts_now:
                host.act(*act)
            before = {(k, moment(s)) for s, k in host.rows(since or "")}
            found = host.read_by_change(since, chain)
            assert found.complete
            seen |= versions(found)
            assert before <= seen
            if found.unchanged:
                assert not found.items and not found.pages
            chain = chain_of(found)


@settings(max_examples=examples(80, 1000))
@given(seconds, st.none() | st.integers(0, 12).map(moment))
def test_a_list_that_is_as_it_was_costs_no_content(when, since):
    host = Host(when)
    with patch.object(pagination, "PAGE_SIZE", SMALL):
        first = host.read_by_change(since, ())
        again = host.read_by_change(since, chain_of(first))
    assert again.unchanged and again.asked == first.asked and again.pages == 0
    assert again.chain == first.chain


@settings(max_examples=examples(80, 1000))
@given(st.integers(0, 12), st.lists(st.integers(0, 5), max_size=8))
def test_what_is_added_behind_full_pages_is_found(count, additions):
    host, seen = Host(list(range(count))), set()
    with patch.object(pagination, "PAGE_SIZE", SMALL):
        found = host.read_by_number(())
        seen |= versions(found)
        chain = found.chain
        for more in additions:
            for _ in range(more):
                host.act("add", 0, 1)
            found = host.read_by_number(chain[-1:])
            seen |= versions(found)
            assert seen == {(k, moment(s)) for s, k in host.rows()}
            assert found.unchanged == (more == 0)
            pages = {page.number: page for page in (*chain, *found.chain)}
            chain = tuple(pages[number] for number in sorted(pages))


def test_one_page_is_one_request():
    host = Host(list(range(9)))
    with patch.object(pagination, "PAGE_SIZE", SMALL):
        chain = host.read_by_number(()).chain
        again = host.read_by_number(chain[1:2], one_page=True)
    assert (again.asked, again.unchanged) == (1, True)


def test_a_full_page_by_id_proves_nothing():
    full = [{"id": n, "updated_at": moment(n)} for n in range(SMALL)]
    with patch.object(pagination, "PAGE_SIZE", SMALL):
        assert read_by_id(lambda url: ApiAnswer(200, full, SILENT, etag="x")).chain == ()
        short = read_by_id(lambda url: ApiAnswer(200, full[:2], SILENT, etag="x"))
        assert [page.etag for page in short.chain] == ["x"]
        again = read_by_id(lambda url: ApiAnswer(304, None, SILENT, etag="x"), short.chain)
    assert again.unchanged and again.chain == short.chain
