"""PyGithub as it is, with nothing changed but its address."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from github import Auth, Github, GithubException, GithubIntegration
from pull_fixture import House, street

from hostler.sandbox.auth import AppRegistration, Installation, token_for
from hostler.sandbox.server import Running


@pytest.fixture(scope="module")
def git_sandbox() -> Iterator[Running]:
    with street(primary_limit=5000) as made:
        yield made


@pytest.fixture
def client(git_sandbox: Running) -> Iterator[Any]:
    """Its throttle, a courtesy to the real host, is switched off; that is an option of its own."""
    opened: list[Github] = []

    def connect(login: str = "alice", token: str = "") -> Github:
        made = Github(
            base_url=git_sandbox.url,
            auth=Auth.Token(token or token_for(login)),
            seconds_between_requests=0,
            seconds_between_writes=0,
            retry=None,
        )
        opened.append(made)
        return made

    yield connect
    for made in opened:
        made.close()


def test_issues_and_comments(client: Any, house: House) -> None:
    repo = client().get_repo(house.name)
    issue = repo.create_issue("Broken", body="It is broken", labels=["bug"])
    assert (issue.number, issue.user.login, issue.labels[0].name) == (1, "alice", "bug")
    comment = issue.create_comment("Indeed")
    comment.edit("Indeed!")
    assert [item.body for item in issue.get_comments()] == ["Indeed!"]
    issue.edit(title="Mended", state="closed", state_reason="completed")
    assert repo.get_issue(1).state == "closed"
    assert client().get_user().login == "alice"


def test_paging_and_since(client: Any, house: House) -> None:
    repo = client().get_repo(house.name)
    issue = repo.create_issue("Talk")
    for number in range(7):
        issue.create_comment(str(number))
        house.tick(10)
    slow = Github(
        base_url=house.sandbox.url,
        auth=Auth.Token(token_for("alice")),
        per_page=3,
        seconds_between_requests=0,
    )
    listed = slow.get_repo(house.name).get_issue(issue.number).get_comments()
    assert [item.body for item in listed] == [str(number) for number in range(7)]
    assert listed.totalCount == 7
    middle = listed[3].updated_at
    late = slow.get_repo(house.name).get_issues_comments(sort="updated", since=middle)
    assert [item.body for item in late] == ["3", "4", "5", "6"]
    none = repo.get_issues(state="all", since=middle + timedelta(days=1))
    assert list(none) == []
    slow.close()


def test_a_pull_request_from_branch_to_merge(client: Any, house: House) -> None:
    repo, other = client().get_repo(house.name), client("bob").get_repo(house.name)
    head = repo.get_branch("main").commit.sha
    repo.create_git_ref("refs/heads/topic", head)
    made = repo.create_file("song.txt", "Sing", "la\nla\n", branch="topic")
    pull = repo.create_pull(base="main", head="topic", title="Sing", body="Words", draft=False)
    assert (pull.number, pull.commits, pull.changed_files) == (1, 1, 1)
    assert [file.filename for file in pull.get_files()] == ["song.txt"]
    seen = other.get_pull(1)
    commit = other.get_commit(made["commit"].sha)
    remark = seen.create_review_comment("Why?", commit, "song.txt", line=2)
    answer = pull.create_review_comment_reply(remark.id, "Because")
    assert answer.in_reply_to_id == remark.id
    review = seen.create_review(
        commit, "Good", "APPROVE", [{"path": "song.txt", "line": 1, "body": "Nice"}]
    )
    assert review.state == "APPROVED"
    assert [item.body for item in pull.get_comments()] == ["Why?", "Because", "Nice"]
    assert [item.state for item in pull.get_reviews()][-1] == "APPROVED"
    with pytest.raises(GithubException) as refused:
        pull.create_review(commit, "Me too", "APPROVE")
    assert refused.value.status == 422
    assert pull.merge(merge_method="squash", sha=pull.head.sha).merged
    assert repo.get_pull(1).merged and pull.is_merged()
    assert [event.event for event in repo.get_issue(1).get_events()] == ["merged", "closed"]


def test_a_conflict_and_a_stale_head(client: Any, house: House) -> None:
    number = house.pull()
    repo = client().get_repo(house.name)
    with pytest.raises(GithubException) as stale:
        repo.get_pull(number).merge(sha="0" * 40)
    assert stale.value.status == 409
    house.commit("main", "topic.txt", "other\n")
    assert house.known(number)["mergeable"] is False
    assert repo.get_pull(number).mergeable is False
    with pytest.raises(GithubException) as conflict:
        repo.get_pull(number).merge()
    assert conflict.value.status == 405


def test_files_compare_and_checks(client: Any, house: House) -> None:
    house.pull()
    repo = client().get_repo(house.name)
    assert repo.compare("main", "topic").ahead_by == 1
    assert repo.get_contents("README.md").decoded_content.startswith(b"# ")
    file = repo.get_contents("topic.txt", ref="topic")
    repo.update_file(file.path, "Change", "new\n", file.sha, branch="topic")
    commit = repo.get_commit("topic")
    commit.create_status("success", context="ci", description="Fine")
    assert commit.get_combined_status().state == "success"
    robot = client(token=house.app_token()).get_repo(house.name)
    check = robot.create_check_run("lint", commit.sha, status="in_progress")
    check.edit(conclusion="success")
    assert [item.conclusion for item in commit.get_check_runs()] == ["success"]


def test_workflow_runs(client: Any, house: House) -> None:
    jobs = [{"name": "test", "conclusion": "failure", "log": "no\n"}]
    house.made("POST", "/_sandbox/actions/runs", repo=house.name, jobs=jobs)
    repo = client().get_repo(house.name)
    (run,) = repo.get_workflow_runs(branch="main", status="failure")
    assert run.conclusion == "failure" and [job.name for job in run.jobs()] == ["test"]
    assert run.rerun_failed_jobs() is True
    assert repo.get_workflow_run(run.id).run_attempt == 2
    assert run.cancel() is True


def test_asking_again_costs_nothing(client: Any, house: House) -> None:
    repo = client().get_repo(house.name)
    issue = repo.create_issue("Still")
    issue = repo.get_issue(issue.number)
    house.sandbox.control.delete("/ledger").raise_for_status()
    assert issue.update() is False
    house.tick()
    house.made("POST", f"issues/{issue.number}/comments", body="news")
    assert issue.update() is True
    ledger = house.sandbox.control.get("/ledger", params={"method": "GET"}).json()
    paid = [(row["status"], row["primary"], row["secondary"]) for row in ledger["entries"]]
    assert paid == [(304, 0, 1), (200, 1, 1)]


def test_errors_keep_their_shape(client: Any, house: House) -> None:
    with pytest.raises(GithubException) as missing:
        client().get_repo("alice/nothing")
    assert missing.value.status == 404
    stranger = client("dave").get_repo(house.name)
    with pytest.raises(GithubException) as forbidden:
        stranger.create_git_ref("refs/heads/x", house.head())
    assert forbidden.value.status == 403


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
    entry = GithubIntegration(auth=Auth.AppAuth(number, private), base_url=house.sandbox.url)
    with entry.get_github_for_installation(place) as robot:
        made = robot.get_repo(house.name).create_issue("From a robot")
        assert made.user.login == "robot[bot]" and made.user.type == "Bot"
    entry.close()
