"""ETags: what they depend on, and what a 304 costs."""

from __future__ import annotations

from hostler.sandbox.auth import SandboxToken

COMMENTS = "/repos/alice/demo/issues/comments"


def used(answer):
    return int(answer.headers["X-RateLimit-Used"])


def test_a_304_is_free_of_the_primary_limit_and_costs_one_point(strict):
    strict.issue()
    first = strict.get(COMMENTS)
    again = strict.get(COMMENTS, if_none_match=first.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    assert used(again) == used(first) == 1
    entry = strict.app.pipeline.ledger.answer({})["entries"][-1]
    assert (entry["primary"], entry["secondary"], entry["status"]) == (0, 1, 304)


def test_a_304_to_nobody_is_paid(strict):
    first = strict.get(COMMENTS, login=None)
    again = strict.get(COMMENTS, login=None, if_none_match=first.headers["ETag"])
    assert again.status == 304
    assert used(again) == 2


def test_a_tag_is_weak_and_matches_in_both_forms(local):
    tag = local.get(COMMENTS).headers["ETag"]
    assert tag.startswith('W/"')
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        assert local.get(COMMENTS, if_none_match=known).status == 304, known
    assert local.get(COMMENTS, if_none_match='W/"other"').status == 200


def test_a_full_page_one_keeps_its_tag_when_items_land_on_page_two(local):
    local.issue()
    for _ in range(2):
        local.comment(1)
    page = f"{COMMENTS}?per_page=2"
    tag = local.get(page).headers["ETag"]
    local.comment(1)
    assert local.get(page, if_none_match=tag).status == 304
    assert len(local.get(COMMENTS).json()) == 3


def test_a_page_that_is_not_full_changes_its_tag(local):
    local.issue()
    local.comment(1)
    page = f"{COMMENTS}?per_page=2"
    tag = local.get(page).headers["ETag"]
    local.comment(1)
    assert local.get(page, if_none_match=tag).status == 200


def test_tags_differ_between_users_and_between_tokens_of_one_user(local):
    local.world.put(SandboxToken(900, "ghp_second", "alice"))
    tags = {
        local.get(COMMENTS).headers["ETag"],
        local.get(COMMENTS, login="bob").headers["ETag"],
        local.get(COMMENTS, token="ghp_second").headers["ETag"],
        local.get(COMMENTS, login=None).headers["ETag"],
    }
    assert len(tags) == 4


def test_an_edit_changes_the_tag_and_so_does_a_deletion(local):
    local.issue()
    comment = local.comment(1).json()["id"]
    before = local.get(COMMENTS).headers["ETag"]
    local.patch(f"{COMMENTS}/{comment}", {"body": "changed"})
    after = local.get(COMMENTS).headers["ETag"]
    local.delete(f"{COMMENTS}/{comment}")
    assert len({before, after, local.get(COMMENTS).headers["ETag"]}) == 3


def test_a_label_s_new_colour_changes_the_tag_of_issues_that_bear_it(local):
    local.issue(labels=("bug",))
    path = "/repos/alice/demo/issues"
    tag = local.get(path).headers["ETag"]
    local.patch("/repos/alice/demo/labels/bug", {"color": "ff0000"})
    answer = local.get(path, if_none_match=tag)
    assert answer.status == 200
    assert answer.json()[0]["labels"][0]["color"] == "ff0000"


def test_if_modified_since_serves_single_resources(local):
    local.issue()
    path = "/repos/alice/demo/issues/1"
    date = local.get(path).headers["Last-Modified"]
    assert local.get(path, if_modified_since=date).status == 304
    local.pass_time(5)
    local.comment(1)
    assert local.get(path, if_modified_since=date).status == 200
    assert local.get(path, if_modified_since="nonsense").status == 200
    assert "Last-Modified" not in local.get(COMMENTS).headers


def test_head_is_get_without_the_work_of_reading(local):
    answer = local.call("HEAD", COMMENTS)
    assert answer.status == 200
    assert answer.headers["ETag"] == local.get(COMMENTS).headers["ETag"]


def test_the_date_follows_the_virtual_clock(local):
    before = local.get("/zen").headers["Date"]
    local.pass_time(86_400)
    assert local.get("/zen").headers["Date"] != before
