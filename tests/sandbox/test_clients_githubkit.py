"""githubkit as it is, with nothing changed but its address. It checks every answer's shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import githubkit
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pull_fixture import House, street

from hostler.sandbox.auth import AppRegistration, Installation, token_for
from hostler.sandbox.server import Running


@pytest.fixture(scope="module")
def git_sandbox() -> Iterator[Running]:
    with street(primary_limit=5000) as made:
        yield made


def connect(git_sandbox: Running, auth: Any, **options: Any) -> Any:
    """Its cache is switched off unless a test asks for it: it answers for a minute by itself."""
    settings = {"http_cache": False, "auto_retry": False, **options}
    return githubkit.GitHub(auth, base_url=git_sandbox.url, **settings)


@pytest.fixture
def alice(git_sandbox: Running) -> Any:
    return connect(git_sandbox, token_for("alice"))


@pytest.fixture
def bob(git_sandbox: Running) -> Any:
    return connect(git_sandbox, token_for("bob"))


def test_issues_and_comments(alice: Any, house: House) -> None:
    rest, where = alice.rest, house.name.split("/")
    issue = rest.issues.create(*where, title="Broken", labels=["bug"]).parsed_data
    assert issue.user.login == "alice"
    comment = rest.issues.create_comment(*where, issue.number, body="Indeed").parsed_data
    rest.issues.update_comment(*where, comment.id, body="Indeed!")
    listed = rest.issues.list_comments(*where, issue.number).parsed_data
    assert [item.body for item in listed] == ["Indeed!"]
    closed = rest.issues.update(*where, issue.number, state="closed").parsed_data
    assert closed.state == "closed"
    assert rest.users.get_authenticated().parsed_data.login == "alice"


def test_paging_and_since(alice: Any, house: House) -> None:
    rest, where = alice.rest, house.name.split("/")
    number = rest.issues.create(*where, title="Talk").parsed_data.number
    for text in range(7):
        rest.issues.create_comment(*where, number, body=str(text))
        house.tick(10)
    owner, repo = where
    every = list(
        rest.paginate(
            rest.issues.list_comments, owner=owner, repo=repo, issue_number=number, per_page=3
        )
    )
    assert [item.body for item in every] == [str(text) for text in range(7)]
    late = rest.issues.list_comments_for_repo(
        *where, sort="updated", direction="asc", since=every[3].updated_at
    ).parsed_data
    assert [item.body for item in late] == ["3", "4", "5", "6"]


def test_a_pull_request_from_branch_to_merge(alice: Any, bob: Any, house: House) -> None:
    where = house.name.split("/")
    house.branch("topic")
    house.commit("topic", "song.txt")
    pulls = alice.rest.pulls
    pull = pulls.create(*where, title="Sing", head="topic", base="main").parsed_data
    assert (pull.state, pull.mergeable, pull.head.ref) == ("open", None, "topic")
    number = pull.number
    assert [file.filename for file in pulls.list_files(*where, number).parsed_data] == ["song.txt"]
    assert len(pulls.list_commits(*where, number).parsed_data) == 1
    remark = bob.rest.pulls.create_review_comment(
        *where, number, body="Why?", commit_id=pull.head.sha, path="song.txt", line=2
    ).parsed_data
    answer = pulls.create_reply_for_review_comment(*where, number, remark.id, body="So")
    assert answer.parsed_data.in_reply_to_id == remark.id
    review = bob.rest.pulls.create_review(
        *where,
        number,
        event="APPROVE",
        body="Good",
        comments=[{"path": "song.txt", "line": 1, "body": "Nice"}],
    ).parsed_data
    assert review.state == "APPROVED"
    assert len(pulls.list_review_comments(*where, number).parsed_data) == 3
    assert len(pulls.list_review_comments_for_repo(*where).parsed_data) == 3
    inside = pulls.list_comments_for_review(*where, number, review.id).parsed_data
    assert [item.body for item in inside] == ["Nice"]
    assert pulls.list_reviews(*where, number).parsed_data[-1].state == "APPROVED"
    pulls.get(*where, number)
    assert pulls.get(*where, number).parsed_data.mergeable is True
    assert [item.number for item in pulls.list(*where).parsed_data] == [number]
    done = pulls.merge(*where, number, merge_method="rebase", sha=pull.head.sha).parsed_data
    assert done.merged and pulls.check_if_merged(*where, number).status_code == 204
    house.made("POST", "/_sandbox/clock", advance=1)
    assert pulls.get(*where, number).parsed_data.merged_by.login == "alice"


def test_outdated_remarks_have_a_shape_too(alice: Any, house: House) -> None:
    where = house.name.split("/")
    number = house.pull()
    place = {"path": "topic.txt", "line": 3, "commit_id": house.head("topic"), "body": "x"}
    made = house.made("POST", f"pulls/{number}/comments", **place)
    house.commit("topic", "topic.txt", "other\n")
    after = alice.rest.pulls.get_review_comment(*where, made["id"]).parsed_data
    assert (after.line, after.position, after.original_line) == (None, None, 3)
    assert alice.rest.pulls.list_reviews(*where, number).parsed_data[0].state == "COMMENTED"


def test_refs_files_and_compare(alice: Any, house: House) -> None:
    rest, where = alice.rest, house.name.split("/")
    head = rest.git.get_ref(*where, "heads/main").parsed_data.object_.sha
    rest.git.create_ref(*where, ref="refs/heads/topic", sha=head)
    content = "bGEK"
    made = rest.repos.create_or_update_file_contents(
        *where, "song.txt", message="Sing", content=content, branch="topic"
    ).parsed_data
    assert made.content.path == "song.txt"
    shown = rest.repos.get_content(*where, "song.txt", ref="topic").parsed_data
    assert shown.content.strip() == content
    assert rest.repos.compare_commits(*where, "main...topic").parsed_data.ahead_by == 1
    assert len(rest.repos.list_commits(*where, sha="topic").parsed_data) == 2
    assert rest.repos.get_commit(*where, "topic").parsed_data.files[0].filename == "song.txt"
    names = [branch.name for branch in rest.repos.list_branches(*where).parsed_data]
    assert names == ["main", "topic"]
    assert rest.repos.get_branch(*where, "topic").parsed_data.name == "topic"
    assert len(rest.git.list_matching_refs(*where, "heads/").parsed_data) == 2
    assert rest.git.get_tree(*where, "topic").parsed_data.tree[-1].path == "song.txt"
    rest.git.delete_ref(*where, "heads/topic")


def test_checks_statuses_and_workflow_runs(alice: Any, house: House) -> None:
    rest, where, sha = alice.rest, house.name.split("/"), house.head()
    made = rest.repos.create_commit_status(*where, sha, state="success", context="ci").parsed_data
    assert made.creator.login == "alice"
    whole = rest.repos.get_combined_status_for_ref(*where, "main").parsed_data
    assert whole.state == "success" and whole.statuses[0].context == "ci"
    lint = {"name": "lint", "head_sha": sha, "conclusion": "success"}
    with connect(house.sandbox, house.app_token()) as robot:
        check = robot.rest.checks.create(*where, **lint).parsed_data
    assert rest.checks.get(*where, check.id).parsed_data.name == "lint"
    assert rest.checks.list_for_ref(*where, sha).parsed_data.total_count == 1
    jobs = [{"name": "test", "conclusion": "failure", "log": "no\n"}]
    told = house.made("POST", "/_sandbox/actions/runs", repo=house.name, jobs=jobs)
    runs = rest.actions.list_workflow_runs_for_repo(*where, branch="main").parsed_data
    assert [run.id for run in runs.workflow_runs] == [told["id"]]
    assert rest.actions.get_workflow_run(*where, told["id"]).parsed_data.conclusion == "failure"
    (job,) = rest.actions.list_jobs_for_workflow_run(*where, told["id"]).parsed_data.jobs
    log = rest.actions.download_job_logs_for_workflow_run(*where, job.id)
    assert log.text == "no\n"
    rest.actions.re_run_workflow_failed_jobs(*where, told["id"])
    assert rest.actions.get_workflow_run(*where, told["id"]).parsed_data.run_attempt == 2
    assert rest.actions.cancel_workflow_run(*where, told["id"]).status_code == 202


def test_refusals_are_its_own_errors(alice: Any, house: House) -> None:
    where = house.name.split("/")
    with pytest.raises(githubkit.exception.RequestFailed) as refused:
        alice.rest.pulls.create(*where, title="x", head="none", base="main")
    assert refused.value.response.status_code == 422


def test_asking_again_costs_nothing(alice: Any, house: House) -> None:
    first = alice.request("GET", f"/repos/{house.name}/issues")
    house.sandbox.control.delete("/ledger").raise_for_status()
    tag = {"If-None-Match": first.headers["etag"]}
    again = alice.request("GET", f"/repos/{house.name}/issues", headers=tag)
    assert again.status_code == 304
    ledger = house.sandbox.control.get("/ledger", params={"method": "GET"}).json()
    assert [(row["status"], row["primary"]) for row in ledger["entries"]] == [(304, 0)]


def test_its_own_cache_does_not_ask_for_a_minute(git_sandbox: Running, house: House) -> None:
    cached = connect(git_sandbox, token_for("alice"), http_cache=True)
    house.sandbox.control.delete("/ledger").raise_for_status()
    with cached:
        for _ in range(3):
            assert cached.request("GET", f"/repos/{house.name}/labels").status_code == 200
    ledger = house.sandbox.control.get("/ledger", params={"method": "GET"}).json()
    assert ledger["matching"]["primary"] == 1


def test_an_installation_of_an_app(house: House) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    app = {"slug": "robot", "owner": "alice", "public_key": public.decode()}
    house.sandbox.control.post("/clock", json={"real": True}).raise_for_status()
    house.sandbox.seed({"apps": [{**app, "installed_on": ["alice"]}]})
    number = house.sandbox.do(lambda world: world.truth.all(AppRegistration)[-1].id)
    place = house.sandbox.do(lambda world: world.truth.all(Installation)[-1].id)
    jwt = githubkit.AppAuthStrategy(number, private)
    with connect(house.sandbox, jwt) as entry:
        assert entry.rest.apps.get_authenticated().parsed_data.slug == "robot"
    with connect(house.sandbox, jwt.as_installation(place)) as robot:
        made = robot.rest.issues.create(*house.name.split("/"), title="From a robot").parsed_data
        assert made.user.login == "robot[bot]"
