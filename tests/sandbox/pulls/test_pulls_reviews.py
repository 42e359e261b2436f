"""Reviews and review comments: where they stand, who sees them, how they go out of date."""

from __future__ import annotations

from typing import Any

import pytest
from pull_fixture import TEXT, House


@pytest.fixture
def number(house: House) -> int:
    """A pull request that changes line 10 of a file of twenty lines."""
    house.commit("main", "song.txt")
    house.branch("topic")
    house.commit("topic", "song.txt", TEXT.replace("line 10\n", "line ten\n"))
    return int(house.made("POST", "pulls", title="Sing", head="topic", base="main")["number"])


def remark(house: House, number: int, who: str = "bob", **fields: Any) -> Any:
    place = {"path": "song.txt", "line": 10, "commit_id": house.head("topic"), "body": "Why?"}
    return house.made("POST", f"pulls/{number}/comments", who, **{**place, **fields})


def test_a_remark_on_a_line(house: House, number: int) -> None:
    made = remark(house, number)
    assert (made["line"], made["original_line"], made["side"]) == (10, 10, "RIGHT")
    assert made["diff_hunk"].splitlines()[0] == "@@ -7,7 +7,7 @@ line 6"
    assert made["diff_hunk"].splitlines()[-1] == "+line ten"
    assert made["position"] == 5 and made["user"]["login"] == "bob"
    (review,) = house.get(f"pulls/{number}/reviews")
    assert (review["id"], review["state"]) == (made["pull_request_review_id"], "COMMENTED")
    assert house.get(f"pulls/{number}")["review_comments"] == 1


def test_a_remark_on_the_old_side_and_on_a_stretch(house: House, number: int) -> None:
    left = remark(house, number, side="LEFT")
    assert left["diff_hunk"].endswith("-line 10")
    stretch = remark(house, number, start_line=8, line=12)
    assert (stretch["start_line"], stretch["line"], stretch["start_side"]) == (8, 12, "RIGHT")
    whole = remark(house, number, subject_type="file", line=None)
    assert (whole["subject_type"], whole["line"]) == ("file", None)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"path": "README.md"}, "path"),
        ({"path": "../song.txt"}, "path"),
        ({"line": 1}, "must be part of the diff"),
        ({"line": 900}, "must be part of the diff"),
        ({"line": -1}, "must be part of the diff"),
        ({"line": None}, "missing_field"),
        ({"line": "10"}, "not an integer"),
        ({"start_line": 11, "line": 10}, "must precede"),
        ({"start_line": 1, "line": 10}, "must be part of the diff"),
        ({"side": "MIDDLE"}, "invalid"),
        ({"commit_id": "0" * 40}, "invalid"),
        ({"commit_id": "--all"}, "invalid"),
        ({"commit_id": None}, "missing_field"),
        ({"body": ""}, "missing_field"),
        ({"body": "x" * 65_537}, "too long"),
    ],
)
def test_a_remark_that_stands_nowhere(
    house: House, number: int, fields: dict[str, Any], words: str
) -> None:
    place = {"path": "song.txt", "line": 10, "commit_id": house.head("topic"), "body": "Why?"}
    refused = house.send("POST", f"pulls/{number}/comments", **{**place, **fields})
    assert refused.status_code == 422 and words in refused.text
    assert house.get(f"pulls/{number}/reviews") == []


def test_answers_hang_on_the_first_remark(house: House, number: int) -> None:
    first = remark(house, number)
    path = f"pulls/{number}/comments"
    second = house.made("POST", f"{path}/{first['id']}/replies", body="Because.")
    third = house.made("POST", path, "bob", in_reply_to=first["id"], body="I see.")
    assert {second["in_reply_to_id"], third["in_reply_to_id"]} == {first["id"]}
    assert (second["path"], second["line"]) == ("song.txt", 10)
    assert "in_reply_to_id" not in first
    deeper = house.send("POST", f"{path}/{second['id']}/replies", body="No.")
    assert deeper.status_code == 422
    assert house.send("POST", f"{path}/999999/replies", body="No.").status_code == 404


def test_feeds_of_remarks(house: House, number: int) -> None:
    ids = []
    for text in ("one", "two", "three"):
        ids.append(remark(house, number, body=text)["id"])
        house.tick(10)
    middle = house.get(f"pulls/comments/{ids[1]}")["created_at"]
    house.made("PATCH", f"pulls/comments/{ids[0]}", body="one more")

    def listed(query: str, where: str = "pulls/comments") -> list[int]:
        return [ids.index(item["id"]) for item in house.get(f"{where}?{query}")]

    assert listed("") == listed("direction=desc") == [0, 1, 2]
    assert listed("sort=updated") == [1, 2, 0]
    assert listed("sort=created&direction=desc") == [2, 1, 0]
    assert listed(f"since={middle}", f"pulls/{number}/comments") == [0, 1, 2]
    assert listed(f"since={house.get(f'pulls/comments/{ids[2]}')['created_at']}") == [0, 2]


def test_a_deleted_remark_moves_nothing(house: House, number: int) -> None:
    made = remark(house, number)
    before = house.get(f"pulls/{number}")["updated_at"]
    house.tick()
    assert house.call("DELETE", f"pulls/comments/{made['id']}", "carol").status_code == 403
    assert house.call("DELETE", f"pulls/comments/{made['id']}", "bob").status_code == 204
    assert house.get(f"pulls/{number}")["updated_at"] == before
    assert house.get("pulls/comments") == []


def test_a_remark_follows_its_line_and_goes_out_of_date_with_it(house: House, number: int) -> None:
    made = remark(house, number)
    shifted = "new first\n" + TEXT.replace("line 10\n", "line ten\n")
    sha = house.commit("topic", "song.txt", shifted)
    after = house.get(f"pulls/comments/{made['id']}")
    assert (after["line"], after["original_line"], after["commit_id"]) == (11, 10, sha)
    house.commit("topic", "song.txt", shifted.replace("line ten\n", "line X\n"))
    gone = house.get(f"pulls/comments/{made['id']}")
    assert (gone["line"], gone["position"], gone["original_line"]) == (None, None, 10)
    assert gone["original_commit_id"] == made["commit_id"]


def test_a_push_elsewhere_leaves_a_remark_alone(house: House, number: int) -> None:
    made = remark(house, number)
    sha = house.commit("topic", "other.txt")
    after = house.get(f"pulls/comments/{made['id']}")
    assert (after["line"], after["commit_id"]) == (10, sha)


def test_a_review_with_remarks(house: House, number: int) -> None:
    before = house.get(f"pulls/{number}")["updated_at"]
    house.tick()
    notes = [
        {"path": "song.txt", "line": 10, "body": "one"},
        {"path": "song.txt", "position": 1, "body": "two"},
    ]
    review = house.made(
        "POST", f"pulls/{number}/reviews", "bob", event="REQUEST_CHANGES", body="No", comments=notes
    )
    assert review["state"] == "CHANGES_REQUESTED" and "updated_at" not in review
    assert review["submitted_at"] > before == house.get(f"pulls/{number}")["created_at"]
    found = house.get(f"pulls/{number}/reviews/{review['id']}/comments")
    assert {item["pull_request_review_id"] for item in found} == {review["id"]}
    assert [item["line"] for item in found] == [10, 7]
    assert house.get(f"pulls/{number}")["updated_at"] == review["submitted_at"]


def test_a_bad_remark_spoils_the_whole_review(house: House, number: int) -> None:
    notes = [
        {"path": "song.txt", "line": 10, "body": "good"},
        {"path": "none.txt", "line": 1, "body": "bad"},
    ]
    asked = {"event": "COMMENT", "body": "x", "comments": notes}
    assert house.send("POST", f"pulls/{number}/reviews", "bob", **asked).status_code == 422
    for comments in ("x", [7], {"a": 1}):
        asked = {"event": "COMMENT", "body": "x", "comments": comments}
        assert house.send("POST", f"pulls/{number}/reviews", "bob", **asked).status_code == 422
    assert house.get(f"pulls/{number}/reviews") == house.get("pulls/comments") == []


@pytest.mark.parametrize(
    ("who", "fields", "words"),
    [
        ("alice", {"event": "APPROVE"}, "Can not approve your own pull request"),
        ("alice", {"event": "REQUEST_CHANGES", "body": "x"}, "Can not request changes on your own"),
        ("bob", {"event": "REQUEST_CHANGES"}, "blank"),
        ("bob", {"event": "COMMENT", "body": "  "}, "blank"),
        ("bob", {"event": "SHOUT"}, "invalid"),
        ("bob", {"event": "COMMENT", "body": "x" * 65_537}, "too long"),
        ("bob", {"event": "APPROVE", "commit_id": "garbage"}, "commit_id"),
        ("bob", {"event": "APPROVE", "commit_id": "0" * 40}, "commit_id"),
    ],
)
def test_verdicts_that_are_refused(
    house: House, number: int, who: str, fields: dict[str, Any], words: str
) -> None:
    refused = house.send("POST", f"pulls/{number}/reviews", who, **fields)
    assert refused.status_code == 422 and words in refused.text


def test_a_pending_review_is_its_authors_own_until_it_is_submitted(
    house: House, number: int
) -> None:
    notes = [{"path": "song.txt", "line": 10, "body": "hm"}]
    path = f"pulls/{number}/reviews"
    review = house.made("POST", path, "bob", comments=notes)
    assert review["state"] == "PENDING" and "submitted_at" not in review
    assert house.send("POST", path, "bob").status_code == 422
    assert [item["id"] for item in house.get(path, "bob")] == [review["id"]]
    assert house.get(path, "carol") == [] == house.get("pulls/comments", "carol")
    assert house.call("GET", f"{path}/{review['id']}", "carol").status_code == 404
    submit = f"{path}/{review['id']}/events"
    assert house.send("POST", submit, "bob").status_code == 422
    assert house.send("POST", submit, "carol", event="APPROVE").status_code == 404
    done = house.made("POST", submit, "bob", event="APPROVE")
    assert done["state"] == "APPROVED" and done["submitted_at"]
    assert len(house.get("pulls/comments", "carol")) == 1
    assert house.send("POST", submit, "bob", event="APPROVE").status_code == 422


def test_a_pending_review_is_thrown_away(house: House, number: int) -> None:
    notes = [{"path": "song.txt", "line": 10, "body": "hm"}]
    path = f"pulls/{number}/reviews"
    review = house.made("POST", path, "bob", comments=notes)
    house.made("DELETE", f"{path}/{review['id']}", "bob")
    assert house.get(path, "bob") == []
    spoken = house.made("POST", path, "bob", event="COMMENT", body="x")
    assert house.send("DELETE", f"{path}/{spoken['id']}", "bob").status_code == 422


def test_reviews_come_in_the_order_of_submission(house: House, number: int) -> None:
    path = f"pulls/{number}/reviews"
    pending = house.made("POST", path, "bob", body="later")["id"]
    house.tick()
    second = house.made("POST", path, "carol", event="COMMENT", body="x")["id"]
    house.tick()
    house.made("POST", f"{path}/{pending}/events", "bob", event="COMMENT")
    assert [item["id"] for item in house.get(f"{path}?since=2999-01-01T00:00:00Z")] == [
        second,
        pending,
    ]


def test_a_verdict_is_dismissed_by_those_who_may_write(house: House, number: int) -> None:
    path = f"pulls/{number}/reviews"
    review = house.made("POST", path, "carol", event="REQUEST_CHANGES", body="No")
    dismiss = f"{path}/{review['id']}/dismissals"
    assert house.send("PUT", dismiss, "carol", message="x").status_code == 403
    assert house.send("PUT", dismiss).status_code == 422
    assert house.made("PUT", dismiss, message="Old")["state"] == "DISMISSED"
    edited = house.made("PUT", f"{path}/{review['id']}", "carol", body="Yes")
    assert edited["body"] == "Yes"


def test_a_locked_pull_request_is_closed_to_strangers(house: House, number: int) -> None:
    house.call("PUT", f"issues/{number}/lock", json={})
    place = {"path": "song.txt", "line": 10, "commit_id": house.head("topic"), "body": "Why?"}
    assert house.send("POST", f"pulls/{number}/comments", "dave", **place).status_code == 403
    verdict = {"event": "COMMENT", "body": "x"}
    assert house.send("POST", f"pulls/{number}/reviews", "dave", **verdict).status_code == 403
    remark(house, number)
