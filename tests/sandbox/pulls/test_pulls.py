"""Pull requests: opening, reading, listing, changing, merging."""

from __future__ import annotations

from typing import Any

import pytest
from pull_fixture import TEXT, House


def problem(answer: Any, status: int = 422) -> str:
    """The words of a refusal."""
    assert answer.status_code == status, answer.text
    errors = answer.json().get("errors") or [answer.json()["message"]]
    first = errors[0]
    return first if isinstance(first, str) else str(first.get("message") or first)


def test_a_pull_request_is_an_issue_too(house: House) -> None:
    first = house.made("POST", "issues", title="An issue")["number"]
    number = house.pull(body="Words", draft=True)
    assert number == first + 1
    issue = house.get(f"issues/{number}")
    assert issue["pull_request"]["merged_at"] is None and issue["draft"] is True
    assert {item["number"] for item in house.get("issues")} == {first, number}
    house.made("POST", f"issues/{number}/labels", labels=["ready"])
    assert [label["name"] for label in house.get(f"pulls/{number}")["labels"]] == ["ready"]
    assert house.call("GET", f"pulls/{first}").status_code == 404


def test_what_it_shows_of_git(house: House) -> None:
    base = house.head()
    number = house.pull()
    pull = house.get(f"pulls/{number}")
    assert pull["head"]["label"] == "alice:topic" and pull["head"]["sha"] == house.head("topic")
    assert pull["base"]["sha"] == base and pull["base"]["repo"]["full_name"] == house.name
    assert (pull["commits"], pull["additions"], pull["changed_files"]) == (1, 20, 1)
    (file,) = house.get(f"pulls/{number}/files")
    assert (file["filename"], file["status"], file["changes"]) == ("topic.txt", "added", 20)
    assert file["patch"].startswith("@@ -0,0 +1,20 @@")
    (commit,) = house.get(f"pulls/{number}/commits")
    assert commit["sha"] == pull["head"]["sha"] and commit["author"]["login"] == "alice"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"head": "nothing"}, "'head', 'code': 'invalid'"),
        ({"base": "nothing"}, "'base', 'code': 'invalid'"),
        ({"head": None}, "missing_field"),
        ({"base": None}, "missing_field"),
        ({"title": None}, "missing_field"),
        ({"title": "x" * 257}, "too long"),
        ({"head": "main"}, "No commits between main and main"),
        ({"head": "empty"}, "No commits between main and empty"),
        ({"head": "dave:topic"}, "'head', 'code': 'invalid'"),
        ({"head": "../x"}, "'head', 'code': 'invalid'"),
        ({"head": "-x"}, "'head', 'code': 'invalid'"),
        ({"head": "topic^{commit}"}, "'head', 'code': 'invalid'"),
        ({"head": 7}, "not a string"),
        ({"draft": "yes"}, "not a boolean"),
        ({"body": "x" * 65_537}, "too long (maximum is 65536 characters)"),
    ],
)
def test_a_bad_opening_is_refused(house: House, fields: dict[str, Any], words: str) -> None:
    house.branch("empty")
    house.branch("topic")
    house.commit("topic")
    asked = {"title": "T", "head": "topic", "base": "main", **fields}
    assert words in problem(house.send("POST", "pulls", **asked))
    assert house.get("issues?state=all") == []


def test_the_longest_body_is_taken(house: House) -> None:
    number = house.pull(body="x" * 65_536)
    assert len(house.get(f"pulls/{number}")["body"]) == 65_536


def test_two_branches_have_one_open_pull_request(house: House) -> None:
    number = house.pull()
    again = house.send("POST", "pulls", title="T", head="alice:topic", base="main")
    assert problem(again) == "A pull request already exists for alice:topic."
    house.made("PATCH", f"pulls/{number}", state="closed")
    second = house.made("POST", "pulls", title="T", head="topic", base="main")["number"]
    refused = house.send("PATCH", f"pulls/{number}", state="open")
    assert problem(refused) == "A pull request already exists for alice:topic."
    house.made("PATCH", f"pulls/{second}", state="closed")
    assert house.made("PATCH", f"pulls/{number}", state="open")["state"] == "open"
    assert house.events(number) == ["closed", "reopened"]


def test_of_many_who_open_or_merge_at_once_one_does(house: House) -> None:
    house.branch("topic")
    house.commit("topic")
    asked = {"title": "T", "head": "topic", "base": "main"}
    assert house.at_once(5, "POST", "pulls", **asked) == [201, 422, 422, 422, 422]
    (pull,) = house.get("pulls")
    path = f"pulls/{pull['number']}/merge"
    assert house.at_once(5, "PUT", path) == [200, 405, 405, 405, 405]
    assert house.events(pull["number"]) == ["merged", "closed"]


def test_of_many_who_write_a_file_at_once_one_does(house: House) -> None:
    made = {"message": "m", "content": "eA==", "branch": "main"}
    assert house.at_once(4, "PUT", "contents/x.txt", **made) == [201, 422, 422, 422]
    assert len(house.get("commits")) == 2


def test_an_issue_becomes_a_pull_request(house: House) -> None:
    issue = house.made("POST", "issues", title="Do it", body="Please")["number"]
    house.branch("topic")
    house.commit("topic")
    pull = house.made("POST", "pulls", issue=issue, head="topic", base="main")
    assert (pull["number"], pull["title"], pull["body"]) == (issue, "Do it", "Please")


def test_only_the_second_reader_learns_whether_it_merges(house: House) -> None:
    number = house.pull()
    first, second = house.get(f"pulls/{number}"), house.get(f"pulls/{number}")
    assert (first["mergeable"], first["mergeable_state"]) == (None, "unknown")
    assert (second["mergeable"], second["mergeable_state"]) == (True, "clean")
    house.commit("main", "other.txt")
    assert house.get(f"pulls/{number}")["mergeable"] is None
    assert house.get(f"pulls/{number}")["mergeable"] is True
    house.commit("main", "topic.txt", "other words\n")
    assert house.known(number)["mergeable_state"] == "dirty"


def test_drafts_failures_and_rules_have_words_of_their_own(house: House) -> None:
    number = house.pull(draft=True)
    assert house.known(number)["mergeable_state"] == "draft"
    other = house.pull("second", who="bob")
    house.made("POST", f"statuses/{house.head('second')}", state="failure", context="ci")
    assert house.known(other)["mergeable_state"] == "unstable"
    rule = {"required_approving_review_count": 1}
    house.made("PUT", "branches/main/protection", required_pull_request_reviews=rule)
    assert house.known(other)["mergeable_state"] == "blocked"
    assert house.send("PUT", f"pulls/{other}/merge").status_code == 405
    house.made("POST", f"pulls/{other}/reviews", event="APPROVE")
    assert house.known(other)["mergeable_state"] == "unstable"
    assert house.send("PUT", f"pulls/{other}/merge").status_code == 200


def test_only_the_verdicts_of_those_who_may_write_weigh(house: House) -> None:
    number = house.pull()
    rule = {"required_approving_review_count": 1}
    house.made("PUT", "branches/main/protection", required_pull_request_reviews=rule)
    reviews = f"pulls/{number}/reviews"
    house.made("POST", reviews, "carol", event="APPROVE")
    refused = house.send("PUT", f"pulls/{number}/merge")
    assert refused.status_code == 405
    assert refused.json()["message"].startswith("At least 1 approving review is required")
    house.made("POST", reviews, "bob", event="APPROVE")
    house.made("POST", reviews, "carol", event="REQUEST_CHANGES", body="no")
    assert house.known(number)["mergeable_state"] == "clean"
    house.made("PUT", "collaborators/dave", permission="push")
    house.made("POST", reviews, "dave", event="REQUEST_CHANGES", body="no")
    assert house.known(number)["mergeable_state"] == "blocked"
    assert house.send("PUT", f"pulls/{number}/merge").status_code == 405
    house.made("POST", reviews, "dave", event="APPROVE")
    assert house.send("PUT", f"pulls/{number}/merge").status_code == 200


def test_a_lacking_check_is_named(house: House) -> None:
    number = house.pull()
    checks = {"contexts": ["ci", "lint"]}
    house.made("PUT", "branches/main/protection", required_status_checks=checks)

    def words() -> str:
        refused = house.send("PUT", f"pulls/{number}/merge")
        assert refused.status_code == 405
        return str(refused.json()["message"])

    assert words() == "2 of 2 required status checks have not succeeded."
    sha = house.head("topic")
    house.made("POST", f"statuses/{sha}", state="success", context="ci")
    assert words() == 'Required status check "lint" is expected.'
    house.made("POST", f"statuses/{sha}", state="failure", context="lint")
    assert words() == 'Required status check "lint" has not succeeded.'
    house.made("POST", f"statuses/{sha}", state="success", context="lint")
    assert house.send("PUT", f"pulls/{number}/merge").status_code == 200


@pytest.mark.parametrize("method", ["merge", "squash", "rebase"])
def test_merging(house: House, method: str) -> None:
    number = house.pull()
    house.commit("topic", "second.txt")
    house.commit("main", "meanwhile.txt")
    assert house.call("GET", f"pulls/{number}/merge").status_code == 404
    done = house.made("PUT", f"pulls/{number}/merge", "bob", merge_method=method)
    assert done["merged"] is True and done["sha"] == house.head()
    assert house.call("GET", f"pulls/{number}/merge").status_code == 204
    pull = house.get(f"pulls/{number}")
    assert (pull["state"], pull["merged"], pull["merged_by"]["login"]) == ("closed", True, "bob")
    assert pull["merge_commit_sha"] == done["sha"] and pull["mergeable"] is None
    assert house.events(number) == ["merged", "closed"]
    made = house.get(f"commits/{done['sha']}")
    assert len(made["parents"]) == (2 if method == "merge" else 1)
    names = {entry["name"] for entry in house.get("contents")}
    assert {"topic.txt", "second.txt", "meanwhile.txt"} <= names
    # The commits of a merged pull request stay what they were.
    assert len(house.get(f"pulls/{number}/commits")) == 2


def test_the_words_of_a_merge(house: House) -> None:
    number = house.pull(title="Sing")
    sha = house.made("PUT", f"pulls/{number}/merge")["sha"]
    message = house.get(f"commits/{sha}")["commit"]["message"]
    assert message == f"Merge pull request #{number} from alice/topic\n\nSing"
    second = house.pull("next", title="Dance")
    fields = {"merge_method": "squash", "commit_title": "Own", "commit_message": "words"}
    sha = house.made("PUT", f"pulls/{second}/merge", **fields)["sha"]
    assert house.get(f"commits/{sha}")["commit"]["message"] == "Own\n\nwords"


def test_merges_that_must_not_happen(house: House) -> None:
    number = house.pull()
    wrong = house.send("PUT", f"pulls/{number}/merge", sha="0" * 40)
    assert problem(wrong, 409).startswith("Head branch was modified")
    assert house.send("PUT", f"pulls/{number}/merge", merge_method="fly").status_code == 422
    draft = house.pull("draft", draft=True)
    assert "draft" in problem(house.send("PUT", f"pulls/{draft}/merge"), 405)
    house.made("PATCH", "", allow_squash_merge=False)
    squash = house.send("PUT", f"pulls/{number}/merge", merge_method="squash")
    assert problem(squash, 405) == "Squash merges are not allowed on this repository."
    house.commit("main", "topic.txt", "other words\n")
    assert problem(house.send("PUT", f"pulls/{number}/merge"), 405).endswith("not mergeable")
    house.made("PATCH", f"pulls/{number}", state="closed")
    assert house.send("PUT", f"pulls/{number}/merge").status_code == 405
    good = house.pull("good")
    house.made("PUT", f"pulls/{good}/merge", sha=house.head("good"))
    assert house.send("PUT", f"pulls/{good}/merge").status_code == 405


def test_a_merge_into_the_default_branch_closes_what_it_fixes(house: House) -> None:
    issue, other = (house.made("POST", "issues", title=t)["number"] for t in ("one", "two"))
    number = house.pull(body=f"Fixes #{issue}, closes {house.name}#{other}. See #1, fixes x/y#2.")
    assert house.get(f"issues/{issue}")["state"] == "open"
    house.made("PUT", f"pulls/{number}/merge")
    for closed in (issue, other):
        shown = house.get(f"issues/{closed}")
        assert (shown["state"], shown["state_reason"]) == ("closed", "completed")
        (event,) = house.get(f"issues/{closed}/events")
        assert (event["event"], event["commit_id"]) == ("closed", house.head())


def test_a_merge_elsewhere_closes_nothing(house: House) -> None:
    issue = house.made("POST", "issues", title="one")["number"]
    house.branch("release")
    number = house.pull(body=f"Fixes #{issue}", base="release")
    house.made("PUT", f"pulls/{number}/merge")
    assert house.get(f"issues/{issue}")["state"] == "open"


def test_the_branch_goes_with_the_merge_where_the_repository_says_so(house: House) -> None:
    house.made("PATCH", "", delete_branch_on_merge=True)
    number = house.pull()
    house.made("PUT", f"pulls/{number}/merge")
    assert house.call("GET", "git/ref/heads/topic").status_code == 404
    assert house.events(number) == ["merged", "closed", "head_ref_deleted"]


def test_lists(house: House) -> None:
    first = house.pull("a")
    house.tick()
    second = house.pull("b", who="bob")
    house.tick()
    third = house.pull("c", draft=True)
    house.tick()
    house.made("POST", f"issues/{first}/comments", body="hm")
    house.made("PATCH", f"pulls/{second}", state="closed")

    def numbers(query: str) -> list[int]:
        return [pull["number"] for pull in house.get(f"pulls?{query}")]

    assert numbers("") == [third, first]
    assert numbers("state=all&direction=asc") == [first, second, third]
    assert numbers("state=closed") == [second]
    assert numbers("state=all&sort=updated&direction=desc")[2] == third
    assert numbers("sort=popularity&direction=desc") == [first, third]
    assert numbers("state=all&head=ALICE:b") == [second]
    assert numbers("head=b") == [third, first]
    assert numbers("base=nothing") == []
    assert numbers("since=2999-01-01T00:00:00Z") == [third, first]
    page = house.call("GET", "pulls?state=all&per_page=2")
    assert 'rel="next"' in page.headers["link"] and "/repositories/" in page.headers["link"]


def test_a_pull_request_is_pointed_at_another_base(house: House) -> None:
    house.branch("release")
    house.commit("release", "r.txt")
    number = house.pull()
    assert house.known(number)["mergeable"] is True
    pull = house.made("PATCH", f"pulls/{number}", base="release", title="New")
    assert (pull["base"]["ref"], pull["title"], pull["mergeable"]) == ("release", "New", None)
    assert problem(house.send("PATCH", f"pulls/{number}", base="none")).count("invalid")


def test_a_branch_is_brought_up_to_date(house: House) -> None:
    number = house.pull()
    assert house.send("PUT", f"pulls/{number}/update-branch").status_code == 422
    house.commit("main", "other.txt")
    wrong = house.send("PUT", f"pulls/{number}/update-branch", expected_head_sha="0" * 40)
    assert wrong.status_code == 422
    answer = house.send("PUT", f"pulls/{number}/update-branch")
    assert answer.status_code == 202
    pull = house.get(f"pulls/{number}")
    assert pull["head"]["sha"] == house.head("topic") and pull["commits"] == 2


def test_reviewers_are_asked(house: House) -> None:
    number = house.pull()
    path = f"pulls/{number}/requested_reviewers"
    asked = house.made("POST", path, reviewers=["bob", "Carol"])
    assert [user["login"] for user in asked["requested_reviewers"]] == ["bob", "carol"]
    assert "author" in problem(house.send("POST", path, reviewers=["alice"]))
    assert "collaborators" in problem(house.send("POST", path, reviewers=["dave"]))
    house.made("POST", f"pulls/{number}/reviews", "carol", event="COMMENT", body="Hm")
    assert [user["login"] for user in house.get(path)["users"]] == ["bob"]
    house.made("DELETE", path, reviewers=["bob"])
    assert house.get(path) == {"users": [], "teams": []}


def test_a_pull_request_as_a_diff(house: House) -> None:
    number = house.pull()
    wanted = {"accept": "application/vnd.github.diff"}
    assert house.call("GET", f"pulls/{number}", headers=wanted).text.startswith("diff --git")
    wanted = {"accept": "application/vnd.github.patch"}
    assert house.call("GET", f"pulls/{number}", headers=wanted).text.startswith("From ")


def test_a_second_reader_with_the_tag_pays_nothing(house: House) -> None:
    number = house.pull()
    house.known(number)
    first = house.call("GET", f"pulls/{number}")
    again = {"if-none-match": first.headers["etag"]}
    assert house.call("GET", f"pulls/{number}", headers=again).status_code == 304
    house.commit("topic", "topic.txt", TEXT + "more\n")
    assert house.call("GET", f"pulls/{number}", headers=again).status_code == 200


def test_a_pull_request_without_its_branch_is_not_reopened_as_an_issue(
    house: House,
) -> None:
    number = house.pull()
    house.made("PATCH", f"issues/{number}", state="closed")
    house.send("DELETE", "git/refs/heads/topic")
    answer = house.call("PATCH", f"issues/{number}", json={"state": "open"})
    assert "has been deleted" in problem(answer)
    assert house.get(f"pulls/{number}")["state"] == "closed"


def test_a_closed_pull_request_is_reopened_as_an_issue(house: House) -> None:
    number = house.pull()
    house.made("PATCH", f"issues/{number}", state="closed")
    house.made("PATCH", f"issues/{number}", state="open")
    assert house.get(f"pulls/{number}")["state"] == "open"


def test_pull_requests_by_update_ascend_unless_told_otherwise(house: House) -> None:
    first = house.pull("one")
    house.tick()
    second = house.pull("two")
    house.tick()
    house.made("PATCH", f"pulls/{first}", title="moved")

    def order(query: str) -> list[int]:
        return [pull["number"] for pull in house.get(f"pulls?{query}")]

    assert order("sort=updated") == [second, first]
    assert order("sort=updated&direction=desc") == [first, second]
    assert order("sort=long-running") == [first, second]
    assert order("") == order("sort=created") == [second, first]
    assert order("direction=asc") == [first, second]
