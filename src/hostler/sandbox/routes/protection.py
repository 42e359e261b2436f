"""What a branch asks of pull requests before they are merged into it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hostler.sandbox.call import Call
from hostler.sandbox.errors import ApiError, wrong_type
from hostler.sandbox.fields import Fields
from hostler.sandbox.git import names, refs
from hostler.sandbox.http import Response, json_response, no_content
from hostler.sandbox.pull_entities import Protection
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.shapes.issues import repo_url

router = Router()
ONE = REPO + "/branches/{branch}/protection"


@router.route("GET", ONE, access="admin")
def get(call: Call) -> Response:
    """The rule of a branch."""
    return json_response(_shown(call, _rule(call)))


@router.route("PUT", ONE, access="admin")
async def put(call: Call) -> Response:
    """Set the rule: a number of approvals, and names of checks that must pass."""
    branch, fields = call.params["branch"], call.fields("Branch")
    known = names.is_branch_name(branch) and await refs.branch(call.git(), branch)
    if not known:
        raise ApiError(404, "Branch not found")
    reviews = _object(fields, "required_pull_request_reviews")
    checks = _object(fields, "required_status_checks")
    old = call.tables.find(Protection, call.repo.id, branch)
    rule = Protection(
        id=old.id if old else call.world.new_id("protection"),
        repo_id=call.repo.id,
        branch=branch,
        approvals=reviews.number("required_approving_review_count") or 0,
        contexts=tuple(checks.texts("contexts") or ()),
    )
    return json_response(_shown(call, call.world.put(rule)))


@router.route("DELETE", ONE, access="admin")
def delete(call: Call) -> Response:
    """Drop the rule."""
    call.world.remove(_rule(call))
    return no_content()


def _rule(call: Call) -> Protection:
    rule = call.tables.find(Protection, call.repo.id, call.params["branch"])
    if rule is None:
        raise ApiError(404, "Branch not protected")
    return rule


def _object(fields: Fields, name: str) -> Fields:
    value = fields.values.get(name) or {}
    if not isinstance(value, dict):
        raise wrong_type(name, value, "an object")
    return Fields("Branch", value)


def _shown(call: Call, rule: Protection) -> dict[str, Any]:
    url = f"{repo_url(rule.repo_id, call.frame)}/branches/{quote(rule.branch, safe='')}/protection"
    contexts = list(rule.contexts)
    return {
        "url": url,
        "required_status_checks": {
            "url": f"{url}/required_status_checks",
            "strict": False,
            "contexts": contexts,
            "contexts_url": f"{url}/required_status_checks/contexts",
            "checks": [{"context": name, "app_id": None} for name in contexts],
        },
        "required_pull_request_reviews": {
            "url": f"{url}/required_pull_request_reviews",
            "dismiss_stale_reviews": False,
            "require_code_owner_reviews": False,
            "required_approving_review_count": rule.approvals,
        },
        "enforce_admins": {"url": f"{url}/enforce_admins", "enabled": True},
    }
