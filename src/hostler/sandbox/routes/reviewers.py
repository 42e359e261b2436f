"""Who is asked to review a pull request."""

from __future__ import annotations

from dataclasses import replace

from hostler.sandbox.call import Call
from hostler.sandbox.entities import User
from hostler.sandbox.errors import unprocessable
from hostler.sandbox.http import Response, json_response
from hostler.sandbox.identity import Identity
from hostler.sandbox.issuing import touch
from hostler.sandbox.pull_entities import Pull
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.routes.pulls import find_pull
from hostler.sandbox.shapes.people import simple_user

router = Router()
ASKED = REPO + "/pulls/{number}/requested_reviewers"


@router.route("GET", ASKED)
def list_reviewers(call: Call) -> Response:
    """Those who were asked and have not answered."""
    users = [simple_user(login, call.frame) for login in find_pull(call).reviewers]
    return json_response({"users": users, "teams": []})


@router.route("POST", ASKED, access="triage")
def ask(call: Call) -> Response:
    """Ask somebody who works on this repository."""
    pull = find_pull(call)
    wanted = [
        _reviewer(call, login) for login in call.fields("PullRequest").texts("reviewers") or []
    ]
    new = [login for login in dict.fromkeys(wanted) if login not in pull.reviewers]
    return _changed(call, pull, (*pull.reviewers, *new), new, "review_requested", 201)


@router.route("DELETE", ASKED, access="triage")
def unask(call: Call) -> Response:
    """No longer ask."""
    pull = find_pull(call)
    gone = {login.lower() for login in call.fields("PullRequest").texts("reviewers") or []}
    left = tuple(login for login in pull.reviewers if login.lower() not in gone)
    changed = [login for login in pull.reviewers if login.lower() in gone]
    return _changed(call, pull, left, changed, "review_request_removed", 200)


def _changed(
    call: Call, pull: Pull, now: tuple[str, ...], changed: list[str], event: str, status: int
) -> Response:
    issue = call.issue()
    if changed:
        pull = call.world.put(replace(pull, reviewers=now))
        issue = touch(call, issue)
        for login in changed:
            call.world.note(issue, event, call.actor, requested_reviewer=login)
            call.world.tell("pull_request", pull, event, call.actor)
    return call.one(issue, status, "pull")


def _reviewer(call: Call, login: str) -> str:
    user = call.world.truth.find(User, login.lower())
    if login.lower() == call.issue().user.lower():
        raise unprocessable("Review cannot be requested from pull request author.")
    known = (
        user and Identity(key="", login=user.login).association(call.tables, call.repo) != "NONE"
    )
    if user is None or not known:
        raise unprocessable(
            "Reviews may only be requested from collaborators. One or more of the users or teams "
            f"you specified is not a collaborator of the {call.repo.full_name} repository."
        )
    return user.login
