"""Statuses, check runs and workflow runs, with CI played by hand."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from pull_fixture import House

from hostler.sandbox.api.actions import parse_created
from hostler.sandbox.ci.runs import conclusion_of
from hostler.sandbox.http.errors import ApiError


def play(house: House, action: str, method: str = "POST", **fields: Any) -> Any:
    """Tell the sandbox what its CI does."""
    path = f"/_sandbox/actions/{action}"
    return house.made(method, path, **{"repo": house.name, **fields})


def test_a_run_as_it_is_told(house: House) -> None:
    jobs = [
        {"name": "lint", "log": "all good\n"},
        {
            "name": "test",
            "conclusion": "failure",
            "log": "E   assert 1 == 2\n",
            "steps": ["a", "b"],
        },
    ]
    told = play(house, "runs", branch="main", jobs=jobs)
    run = house.get(f"actions/runs/{told['id']}")
    assert (run["status"], run["conclusion"], run["head_sha"]) == (
        "completed",
        "failure",
        house.head(),
    )
    assert (run["run_number"], run["run_attempt"], run["name"]) == (1, 1, "CI")
    found = house.get(f"actions/runs/{told['id']}/jobs")
    assert found["total_count"] == 2
    assert [job["conclusion"] for job in found["jobs"]] == ["success", "failure"]
    assert [step["conclusion"] for step in found["jobs"][1]["steps"]] == ["success", "failure"]
    checks = house.get(f"commits/{house.head()}/check-runs")["check_runs"]
    assert {check["name"]: check["conclusion"] for check in checks} == {
        "lint": "success",
        "test": "failure",
    }


def test_logs_lie_behind_a_redirect_that_needs_no_token(house: House) -> None:
    jobs = [{"name": "te/st", "conclusion": "failure", "log": "Fehler: ü\n"}]
    told = play(house, "runs", jobs=jobs)
    (job,) = house.get(f"actions/runs/{told['id']}/jobs")["jobs"]
    there = house.call("GET", f"actions/jobs/{job['id']}/logs")
    assert there.status_code == 302
    log = house.call("GET", there.headers["location"], "nobody")
    assert log.text == "Fehler: ü\n" and log.headers["content-type"].startswith("text/plain")
    there = house.call("GET", f"actions/runs/{told['id']}/logs")
    archive = house.call("GET", there.headers["location"], "nobody").content
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        assert files.read("0_te_st.txt").decode() == "Fehler: ü\n"
    forged = there.headers["location"][:-4] + "0000"
    assert house.call("GET", forged, "nobody").status_code == 403


def test_a_run_in_progress_ends_when_told(house: House) -> None:
    told = play(house, "runs", jobs=[{"name": "a", "conclusion": None}, {"name": "b"}])
    path = f"actions/runs/{told['id']}"
    run = house.get(path)
    assert (run["status"], run["conclusion"]) == ("in_progress", None)
    assert house.call("GET", f"{path}/logs").status_code == 404
    assert house.send("POST", f"{path}/rerun").status_code == 403
    house.tick(5)
    assert play(house, "finish", run_id=told["id"])["conclusion"] == "success"
    assert house.get(path)["updated_at"] > run["updated_at"]
    again = house.send("POST", "/_sandbox/actions/finish", repo=house.name, run_id=told["id"])
    assert again.status_code == 400


def test_failed_jobs_run_again_and_good_ones_keep_their_end(house: House) -> None:
    jobs = [{"name": "good", "log": "ok"}, {"name": "bad", "conclusion": "failure", "log": "no"}]
    told = play(house, "runs", jobs=jobs)
    path = f"actions/runs/{told['id']}"
    house.tick(5)
    before = house.get(path)
    assert house.send("POST", f"{path}/rerun-failed-jobs").status_code == 201
    run = house.get(path)
    assert (run["run_attempt"], run["status"], run["conclusion"]) == (2, "queued", None)
    assert run["updated_at"] > before["updated_at"] and run["created_at"] == before["created_at"]
    ends = {job["name"]: job["conclusion"] for job in house.get(f"{path}/jobs")["jobs"]}
    assert ends == {"good": "success", "bad": None}
    play(house, "finish", run_id=told["id"], conclusion="success")
    assert house.get(path)["conclusion"] == "success"
    assert house.get(f"{path}/attempts/1")["conclusion"] == "failure"
    assert len(house.get(f"{path}/jobs?filter=all")["jobs"]) == 4
    assert house.get(f"{path}/attempts/1/jobs")["total_count"] == 2
    assert house.send("POST", f"{path}/rerun-failed-jobs").status_code == 403
    assert house.send("POST", f"{path}/rerun").status_code == 201


def test_a_run_is_cancelled_once(house: House) -> None:
    told = play(house, "runs", jobs=[{"name": "a", "conclusion": None}])
    path = f"actions/runs/{told['id']}"
    assert house.send("POST", f"{path}/cancel").status_code == 202
    assert house.get(path)["conclusion"] == "cancelled"
    assert house.send("POST", f"{path}/cancel").status_code == 409


def test_the_feed_of_runs_and_its_filters(house: House) -> None:
    house.branch("topic")
    sha = house.commit("topic")
    first = play(house, "runs", branch="main")["id"]
    house.tick(100)
    second = play(house, "runs", branch="topic", event="pull_request", actor="bob")["id"]
    house.tick(100)
    third = play(house, "runs", branch="main", jobs=[{"name": "x", "conclusion": None}])["id"]
    moment = house.get(f"actions/runs/{second}")["created_at"]

    def listed(query: str) -> list[int]:
        found = house.get(f"actions/runs?{query}")
        assert found["total_count"] == len(found["workflow_runs"])
        return [run["id"] for run in found["workflow_runs"]]

    assert listed("") == [third, second, first]
    assert listed("branch=topic") == listed(f"head_sha={sha}") == [second]
    assert listed("event=pull_request") == listed("actor=BOB") == [second]
    assert listed("status=completed") == listed("status=success") == [second, first]
    assert listed("status=in_progress") == [third]
    assert listed(f"created=>={moment}") == [third, second]
    assert listed(f"created=<{moment}") == [first]
    assert listed("created=2000-01-01..2000-01-02") == []
    assert house.call("GET", "actions/runs?created=soon").status_code == 422
    assert house.get("actions/workflows")["total_count"] == 1
    assert listed("per_page=100") == [
        run["id"] for run in house.get("actions/workflows/ci.yml/runs")["workflow_runs"]
    ]
    page = house.call("GET", "actions/runs?per_page=1")
    assert page.json()["total_count"] == 3 and 'rel="next"' in page.headers["link"]


def test_a_script_follows_every_push(house: House) -> None:
    assert house.get("actions/runs")["total_count"] == 0
    play(house, "script", "PUT", jobs=[{"name": "test", "conclusion": "failure", "log": "no"}])
    number = house.pull()
    runs = house.get("actions/runs?branch=topic")["workflow_runs"]
    # One for the new branch, one for its commit.
    assert [run["conclusion"] for run in runs] == ["failure", "failure"]
    assert [pull["number"] for pull in runs[0]["pull_requests"]] == [number]
    assert house.known(number)["mergeable_state"] == "unstable"
    play(house, "script", "DELETE")
    house.commit("topic", "more.txt")
    assert house.get("actions/runs?branch=topic")["total_count"] == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"repo": "no/body"},
        {"sha": "nothing"},
        {"sha": 7},
        {"jobs": "x"},
        {"jobs": [{}]},
        {"jobs": [{"name": "a", "conclusion": "great"}]},
        {"jobs": [{"name": "a", "log": 7}]},
    ],
)
def test_a_badly_told_run_is_refused(house: House, fields: dict[str, Any]) -> None:
    told = house.send("POST", "/_sandbox/actions/runs", **{"repo": house.name, **fields})
    assert told.status_code == 400 and told.json()["field"]


def test_statuses_come_to_one(house: House) -> None:
    sha = house.head()
    assert house.get("commits/main/status")["state"] == "pending"
    for context, state in (("a", "failure"), ("b", "success"), ("a", "success")):
        house.made("POST", f"statuses/{sha}", state=state, context=context)
        house.tick()
    whole = house.get("commits/main/status")
    assert (whole["state"], whole["total_count"], whole["sha"]) == ("success", 2, sha)
    every = house.get(f"commits/{sha}/statuses")
    assert [item["state"] for item in every] == ["success", "success", "failure"]
    house.made("POST", f"statuses/{sha}", state="error", context="c")
    assert house.get(f"commits/{sha}/status")["state"] == "failure"
    for bad in ({}, {"state": "fine"}, {"state": "success", "description": "x" * 141}):
        assert house.send("POST", f"statuses/{sha}", **bad).status_code == 422
    assert house.send("POST", f"statuses/{'0' * 40}", state="success").status_code == 422


def test_a_check_run_from_start_to_end(house: House) -> None:
    sha = house.head()
    check = house.made("POST", "check-runs", "app", name="lint", head_sha=sha, status="in_progress")
    assert (check["status"], check["conclusion"]) == ("in_progress", None)
    path = f"check-runs/{check['id']}"
    assert house.send("PATCH", path, "app", status="completed").status_code == 422
    output = {"title": "T", "summary": "S", "annotations": [{"path": "a"}]}
    done = house.made("PATCH", path, "app", conclusion="neutral", output=output)
    assert (done["status"], done["conclusion"]) == ("completed", "neutral")
    assert done["output"]["annotations_count"] == 1 and done["completed_at"]
    assert house.get(path)["name"] == "lint"
    house.made("POST", "check-runs", "app", name="lint", head_sha=sha, conclusion="success")
    assert house.get(f"commits/{sha}/check-runs")["total_count"] == 1
    assert house.get(f"commits/{sha}/check-runs?filter=all")["total_count"] == 2
    assert house.get(f"commits/{sha}/check-runs?check_name=none")["total_count"] == 0


def test_only_apps_make_check_runs_and_change_their_own(house: House) -> None:
    sha = house.head()
    refused = house.send("POST", "check-runs", name="lint", head_sha=sha)
    assert refused.status_code == 403
    assert refused.json()["message"] == "You must authenticate via a GitHub App."
    check = house.made("POST", "check-runs", "app", name="lint", head_sha=sha)
    assert house.send("PATCH", f"check-runs/{check['id']}", status="queued").status_code == 403
    house.made("POST", "/_sandbox/actions/runs", repo=house.name, branch="main")
    checks = house.get(f"commits/{sha}/check-runs")["check_runs"]
    foreign = next(item["id"] for item in checks if item["id"] != check["id"])
    refused = house.send("PATCH", f"check-runs/{foreign}", "app", status="queued")
    assert refused.status_code == 403 and "created it" in refused.text


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "x"},
        {"name": "x", "head_sha": "main"},
        {"name": "x", "head_sha": "0" * 40},
        {"name": "x", "conclusion": "great"},
        {"name": "x", "output": "text"},
        {"name": "x", "output": {"summary": "x" * 65_537}},
        {"name": "x", "started_at": "yesterday"},
    ],
)
def test_a_bad_check_run_is_refused(house: House, fields: dict[str, Any]) -> None:
    sha = {"head_sha": house.head()} if len(fields) == 2 and "head_sha" not in fields else {}
    assert house.send("POST", "check-runs", "app", **{**sha, **fields}).status_code == 422


def test_readers_look_and_writers_act(house: House) -> None:
    told = play(house, "runs", jobs=[{"name": "a", "conclusion": "failure"}])
    path = f"actions/runs/{told['id']}"
    for who in ("carol", "dave", "nobody"):
        assert house.call("GET", path, who).status_code == 200
        expected = 401 if who == "nobody" else 403
        assert house.send("POST", f"{path}/rerun", who).status_code == expected
        assert house.send("POST", f"statuses/{house.head()}", who).status_code == expected
    assert house.send("POST", f"{path}/rerun", "bob").status_code == 201


def test_what_jobs_come_to() -> None:
    assert conclusion_of(["success", "skipped"]) == "success"
    assert conclusion_of(["success", "cancelled"]) == "cancelled"
    assert conclusion_of(["cancelled", "failure"]) == "failure"
    assert conclusion_of(["failure", None]) is None


def test_spans_of_time() -> None:
    day = 1_767_225_600  # 2026-01-01
    assert parse_created("").holds(0)
    assert parse_created("2026-01-01").holds(day + 86_399)
    assert not parse_created("2026-01-01").holds(day + 86_400)
    assert not parse_created(">2026-01-01").holds(day + 86_399)
    assert parse_created("*..2026-01-01").holds(day)
    assert not parse_created("2026-01-01T00:00:01Z..*").holds(day)
    with pytest.raises(ApiError):
        parse_created(">=x")
