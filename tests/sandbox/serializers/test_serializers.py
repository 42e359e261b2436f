"""Every answer of the core is read by a foreign client that checks each field's type."""

from __future__ import annotations

from collections.abc import Iterator

import githubkit
import pytest

from hostler.sandbox.auth import token_for
from hostler.sandbox.server import running


@pytest.fixture(params=["", "/api/v3"], ids=["plain", "enterprise"])
def rest(request) -> Iterator:
    seed = {
        "users": [
            {"login": "alice"},
            {"login": "bob"},
            {"login": "acme", "type": "Organization", "members": ["alice"]},
        ],
        "repos": [{"name": "alice/demo", "labels": ["bug"]}],
    }
    with running(seed) as sandbox:
        client = githubkit.GitHub(
            token_for("alice"),
            base_url=f"{sandbox.url}{request.param}",
            auto_retry=False,
            http_cache=False,
        )
        yield client.rest


def test_people_and_limits(rest):
    assert rest.users.get_authenticated().parsed_data.login == "alice"
    assert rest.users.get_by_username("bob").parsed_data.login == "bob"
    assert rest.rate_limit.get().parsed_data.resources.core.limit == 5000
    assert rest.meta.root().parsed_data.rate_limit_url
    assert rest.meta.get().parsed_data.verifiable_password_authentication is False


def test_repositories(rest):
    made = rest.repos.create_for_authenticated_user(name="fresh", private=True).parsed_data
    assert made.full_name == "alice/fresh"
    assert rest.repos.create_in_org("acme", name="app").parsed_data.owner.login == "acme"
    assert rest.repos.get("alice", "demo").parsed_data.permissions.admin
    assert rest.repos.update("alice", "fresh", description="d").parsed_data.description == "d"
    assert len(rest.repos.list_for_authenticated_user().parsed_data) == 3
    assert len(rest.repos.list_for_org("acme").parsed_data) == 1
    assert len(rest.repos.list_for_user("alice").parsed_data) == 2
    rest.repos.add_collaborator("alice", "demo", "bob", permission="push")
    assert len(rest.repos.list_collaborators("alice", "demo").parsed_data) == 2
    level = rest.repos.get_collaborator_permission_level("alice", "demo", "bob").parsed_data
    assert level.permission == "write"
    rest.repos.delete("alice", "fresh")


def test_issues_and_comments(rest):
    issue = rest.issues.create("alice", "demo", title="t", body="b", labels=["bug"]).parsed_data
    other = rest.issues.create("alice", "demo", title="o", assignees=["bob"]).parsed_data
    where = ("alice", "demo", issue.number)
    assert rest.issues.get(*where).parsed_data.title == "t"
    assert rest.issues.update(*where, title="n", labels=[]).parsed_data.title == "n"
    assert len(rest.issues.list_for_repo("alice", "demo", state="all").parsed_data) == 2
    comment = rest.issues.create_comment(*where, body="hello").parsed_data
    assert rest.issues.get_comment("alice", "demo", comment.id).parsed_data.body == "hello"
    assert rest.issues.update_comment("alice", "demo", comment.id, body="x").parsed_data.body == "x"
    assert len(rest.issues.list_comments(*where).parsed_data) == 1
    assert len(rest.issues.list_comments_for_repo("alice", "demo").parsed_data) == 1
    reaction = rest.reactions.create_for_issue_comment("alice", "demo", comment.id, content="eyes")
    assert reaction.parsed_data.content == "eyes"
    assert len(rest.reactions.list_for_issue_comment("alice", "demo", comment.id).parsed_data) == 1
    blocked = rest.issues.add_blocked_by_dependency(*where, issue_id=other.id)
    assert blocked.parsed_data.number == issue.number
    assert len(rest.issues.list_dependencies_blocked_by(*where).parsed_data) == 1
    waiting = rest.issues.list_dependencies_blocking("alice", "demo", other.number)
    assert len(waiting.parsed_data) == 1
    assert rest.issues.remove_dependency_blocked_by(*where, issue_id=other.id).parsed_data.id
    rest.issues.lock(*where, lock_reason="spam")
    assert len(rest.issues.list_events(*where).parsed_data) == 6
    # This client's list of an issue's own events knows no "closed"; the others do.
    assert rest.issues.update(*where, state="closed").parsed_data.state == "closed"
    assert len(rest.issues.list_events_for_repo("alice", "demo").parsed_data) == 8
    assert len(rest.issues.list_events_for_timeline(*where).parsed_data) == 8
    rest.issues.delete_comment("alice", "demo", comment.id)


def test_labels(rest):
    made = rest.issues.create_label("alice", "demo", name="new", color="00ff00").parsed_data
    assert made.color == "00ff00"
    assert rest.issues.get_label("alice", "demo", "new").parsed_data.name == "new"
    assert len(rest.issues.list_labels_for_repo("alice", "demo").parsed_data) == 2
    rest.issues.create("alice", "demo", title="t")
    added = rest.issues.add_labels("alice", "demo", 1, labels=["new"]).parsed_data
    assert [label.name for label in added] == ["new"]
    assert len(rest.issues.list_labels_on_issue("alice", "demo", 1).parsed_data) == 1


def test_hooks(rest):
    config = {"url": "http://127.0.0.1:9/", "content_type": "json"}
    hook = rest.repos.create_webhook("alice", "demo", config=config, events=["push"]).parsed_data
    assert rest.repos.get_webhook("alice", "demo", hook.id).parsed_data.events == ["push"]
    assert len(rest.repos.list_webhooks("alice", "demo").parsed_data) == 1
    found = rest.repos.list_webhook_deliveries("alice", "demo", hook.id).parsed_data
    assert found[0].event == "ping"
    one = rest.repos.get_webhook_delivery("alice", "demo", hook.id, found[0].id).parsed_data
    assert one.guid == found[0].guid


def test_errors_are_read_too(rest):
    with pytest.raises(githubkit.exception.RequestFailed) as caught:
        rest.issues.create("alice", "demo", title="")
    assert caught.value.response.status_code == 422
    assert caught.value.response.parsed_data.message == "Validation Failed"
