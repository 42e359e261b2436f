"""Lists: order, since, pages, Link."""

from __future__ import annotations

import pytest
from local_sandbox import START, Local

from hostler.sandbox.state.clock import iso

COMMENTS = "/repos/alice/demo/issues/comments"
ISSUES = "/repos/alice/demo/issues"


def talk(local: Local, count: int) -> list[int]:
    issue = local.issue()
    made = []
    for _ in range(count):
        made.append(local.comment(issue.number).json()["id"])
        local.pass_time(10)
    return made


def links(header: str) -> dict[str, str]:
    parts = [part.split("; ") for part in header.split(", ")] if header else []
    return {rel[5:-1]: url[1:-1] for url, rel in parts}


def test_comments_come_by_id_and_direction_is_ignored_without_sort(local):
    made = talk(local, 3)
    assert local.get(COMMENTS).ids() == made
    assert local.get(f"{COMMENTS}?direction=desc").ids() == made


def test_comments_sorted_by_updated_honour_the_direction(local):
    first, second, third = talk(local, 3)
    local.patch(f"{COMMENTS}/{first}", {"body": "changed"})
    assert local.get(f"{COMMENTS}?sort=updated").ids() == [second, third, first]
    assert local.get(f"{COMMENTS}?sort=updated&direction=desc").ids() == [first, third, second]


def test_since_is_inclusive_and_edits_come_back(local):
    first, second, third = talk(local, 3)
    assert local.get(f"{COMMENTS}?since={iso(START + 10)}").ids() == [second, third]
    assert local.get(f"{COMMENTS}?since={iso(START + 11)}").ids() == [third]
    local.patch(f"{COMMENTS}/{first}", {"body": "changed"})
    assert local.get(f"{COMMENTS}?since={iso(START + 11)}").ids() == [first, third]


def test_a_fraction_of_a_second_in_since_rounds_up(local):
    local.issue()
    at_start = local.comment(1).json()["id"]
    moment = iso(START).removesuffix("Z")
    assert local.get(f"{COMMENTS}?since={moment}.000Z").ids() == [at_start]
    for fraction in (".001", ".499", ".999"):
        assert local.get(f"{COMMENTS}?since={moment}{fraction}Z").ids() == []
    earlier = iso(START - 1).removesuffix("Z")
    assert local.get(f"{COMMENTS}?since={earlier}.999Z").ids() == [at_start]


def test_a_thread_ignores_sort_and_honours_since(local):
    first, second = talk(local, 2)
    path = "/repos/alice/demo/issues/1/comments"
    assert local.get(f"{path}?sort=updated&direction=desc").ids() == [first, second]
    assert local.get(f"{path}?since={iso(START + 5)}").ids() == [second]


def test_timestamps_have_whole_seconds(local):
    local.pass_time(0.75)
    talk(local, 1)
    assert local.get(COMMENTS).json()[0]["created_at"] == iso(START)


def test_issues_are_open_ones_newest_first_by_default(local):
    numbers = []
    for title in ("one", "two", "three"):
        numbers.append(local.issue(title).number)
        local.pass_time(1)
    local.patch(f"{ISSUES}/2", {"state": "closed"})
    assert [item["number"] for item in local.get(ISSUES).json()] == [3, 1]
    everything = local.get(f"{ISSUES}?state=all&sort=updated&direction=asc").json()
    assert [item["number"] for item in everything] == [1, 3, 2]


def test_issues_are_filtered_by_label_creator_and_assignee(local):
    local.issue("mine", labels=("bug", "urgent"), assignees=("bob",))
    local.issue("his", user="bob", labels=("bug",))
    for query, numbers in {
        "labels=bug": {1, 2},
        "labels=bug,URGENT": {1},
        "labels=nothing": set(),
        "creator=Bob": {2},
        "assignee=bob": {1},
        "assignee=none": {2},
        "assignee=*": {1},
        "milestone=7": {1, 2},
    }.items():
        assert {item["number"] for item in local.get(f"{ISSUES}?{query}").json()} == numbers, query


def test_pages_are_linked_by_the_repository_s_number(local):
    made = talk(local, 5)
    first = local.get(f"{COMMENTS}?per_page=2")
    assert first.ids() == made[:2]
    found = links(first.headers["Link"])
    assert set(found) == {"next", "last"}
    assert found["next"].startswith(
        f"http://localhost/repositories/{local.demo.id}/issues/comments?"
    )
    second = local.get(found["next"].removeprefix("http://localhost"))
    assert second.ids() == made[2:4]
    assert set(links(second.headers["Link"])) == {"prev", "next", "last", "first"}
    last = local.get(found["last"].removeprefix("http://localhost"))
    assert last.ids() == made[4:]
    assert set(links(last.headers["Link"])) == {"prev", "first"}


def test_a_list_that_fits_has_no_link(local):
    talk(local, 2)
    assert "Link" not in local.get(COMMENTS).headers


def test_links_keep_the_query_and_the_prefix_of_enterprise_clients(local):
    talk(local, 3)
    answer = local.get(f"{COMMENTS}?per_page=1&sort=updated", root="http://localhost/api/v3")
    url = links(answer.headers["Link"])["next"]
    assert url.startswith("http://localhost/api/v3/repositories/")
    assert "per_page=1" in url and "sort=updated" in url and "page=2" in url


@pytest.mark.parametrize("query", ["per_page=0", "per_page=-5", "per_page=x", "page=0", "page=x"])
def test_nonsense_in_paging_counts_as_the_default(local, query):
    made = talk(local, 3)
    assert local.get(f"{COMMENTS}?{query}").ids() == made


def test_a_page_holds_thirty_by_default_and_a_hundred_at_most(local):
    issue = local.issue()
    for _ in range(120):
        local.seed.comment(issue, "alice", "x")
    assert len(local.get(COMMENTS).ids()) == 30
    assert len(local.get(f"{COMMENTS}?per_page=1000").ids()) == 100
    assert local.get(f"{COMMENTS}?page=9").json() == []


def test_pages_past_ten_thousand_items_are_refused(local):
    issue = local.issue()
    for _ in range(10_050):
        local.seed.comment(issue, "alice", "x")
    assert len(local.get(f"{COMMENTS}?per_page=100&page=100").ids()) == 100
    answer = local.get(f"{COMMENTS}?per_page=100&page=101")
    assert answer.status == 422
    assert "pagination is limited" in answer.json()["message"]


def test_an_unreadable_since_is_refused(local):
    answer = local.get(f"{COMMENTS}?since=yesterday")
    assert answer.status == 422
    assert "since" in answer.json()["message"]


@pytest.mark.parametrize(
    "text",
    [iso(START), "2027-01-15T08:00:00+00:00", "2027-01-15T08:00:00%2B00:00", "2027-01-15"],
)
def test_since_is_read_in_the_usual_forms(local, text):
    talk(local, 1)
    assert local.get(f"{COMMENTS}?since={text}").status == 200


def test_events_come_newest_first_for_the_repository_and_oldest_first_for_an_issue(local):
    local.issue()
    local.patch(f"{ISSUES}/1", {"state": "closed"})
    local.patch(f"{ISSUES}/1", {"state": "open"})
    events = [item["event"] for item in local.get(f"{ISSUES}/events").json()]
    assert events == ["reopened", "closed"]
    events = [item["event"] for item in local.get(f"{ISSUES}/1/events").json()]
    assert events == ["closed", "reopened"]
    assert local.get(f"{ISSUES}/events").json()[0]["issue"]["number"] == 1


def test_a_timeline_has_events_and_comments(local):
    local.issue()
    local.comment(1)
    local.pass_time(1)
    local.patch(f"{ISSUES}/1", {"state": "closed"})
    events = [item["event"] for item in local.get(f"{ISSUES}/1/timeline").json()]
    assert events == ["commented", "closed"]
