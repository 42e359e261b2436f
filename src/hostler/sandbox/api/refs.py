"""Refs and branches, and the protection of branches."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hostler.sandbox.git import commits, names, refs
from hostler.sandbox.git.errors import BadName, NoSuchObject, NotFastForward, RefMoved
from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.refs import GitRef
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.http.call import ApiCall, respond_with_page
from hostler.sandbox.http.errors import ApiError, not_found, unprocessable, wrong_type
from hostler.sandbox.http.requests import JsonFields, SandboxResponse, json_response, no_content
from hostler.sandbox.http.router import REPO, ApiRouter
from hostler.sandbox.pulls.entities import Protection
from hostler.sandbox.pulls.pushes import announce_moves
from hostler.sandbox.serializers import repos as shapes
from hostler.sandbox.serializers.repos import repo_url

router = ApiRouter()
REFS = REPO + "/git/refs"


@router.route("GET", REPO + "/git/ref/{ref...}")
async def get_ref(call: ApiCall) -> SandboxResponse:
    """Exactly this ref."""
    name = _full_ref(call.params["ref"])
    found = await refs.matching(call.git(), name)
    exact = next((ref for ref in found if ref.name == name), None)
    if exact is None:
        raise not_found()
    return json_response(shapes.serialize_ref(exact, call.repo.id, call.frame))


@router.route("GET", REPO + "/git/matching-refs/{ref...}")
async def list_matching_refs(call: ApiCall) -> SandboxResponse:
    """Return every ref whose name begins with a prefix."""
    found = await refs.matching(call.git(), f"refs/{call.params['ref']}")
    return respond_with_page(
        call, found, lambda ref: shapes.serialize_ref(ref, call.repo.id, call.frame)
    )


@router.route("POST", REFS, access="write", creates=True)
async def create_ref(call: ApiCall) -> SandboxResponse:
    """Create a branch or tag."""
    git, fields = call.git(), call.fields("Reference")
    text, sha = fields.text("ref", required=True) or "", fields.text("sha", required=True) or ""
    if not text.startswith("refs/") or text.count("/") < 2:
        raise unprocessable("Reference name must start with 'refs/' and have two more slashes")
    name = _writable_ref(text)
    async with git.lock:
        await _check_object(git, name, sha)
        try:
            move = await refs.move(git, name, sha, expected=ZERO)
        except RefMoved:
            raise unprocessable("Reference already exists") from None
        await announce_moves(call, move)
    made = shapes.serialize_ref(await _find_ref(git, name), call.repo.id, call.frame)
    return json_response(made, 201, Location=made["url"])


@router.route("PATCH", REFS + "/{ref...}", access="write")
async def update_ref(call: ApiCall) -> SandboxResponse:
    """Move a ref; without force only forward."""
    git, fields = call.git(), call.fields("Reference")
    sha, force = fields.text("sha", required=True) or "", fields.flag("force")
    name = _writable_ref(call.params["ref"])
    async with git.lock:
        await _check_object(git, name, sha)
        try:
            move = await refs.forward(git, name, sha, force=force)
        except NoSuchObject:
            raise unprocessable("Reference does not exist") from None
        except NotFastForward:
            raise unprocessable("Update is not a fast forward") from None
        except RefMoved:
            raise unprocessable("Reference cannot be updated") from None
        await announce_moves(call, move)
    return json_response(shapes.serialize_ref(await _find_ref(git, name), call.repo.id, call.frame))


@router.route("DELETE", REFS + "/{ref...}", access="write")
async def delete_ref(call: ApiCall) -> SandboxResponse:
    """Remove a branch or tag."""
    git, name = call.git(), _writable_ref(call.params["ref"])
    if name == f"refs/heads/{call.repo.default_branch}":
        raise unprocessable("Cannot delete the default branch")
    async with git.lock:
        old = await refs.find(git, name)
        if old is None:
            raise unprocessable("Reference does not exist")
        await announce_moves(call, await refs.move(git, name, ZERO, expected=old))
    return no_content()


@router.route("GET", REPO + "/branches")
async def list_branches(call: ApiCall) -> SandboxResponse:
    """Return all branches, by name."""
    found = await refs.matching(call.git(), "refs/heads/")
    return respond_with_page(call, found, lambda ref: _short_branch(call, ref))


@router.route("GET", REPO + "/branches/{branch...}")
async def get_branch(call: ApiCall) -> SandboxResponse:
    """Return one branch with its newest commit."""
    git, name = call.git(), call.params["branch"]
    sha = await refs.branch(git, name) if names.is_branch_name(name) else None
    if sha is None:
        raise not_found()
    newest = shapes.serialize_commit(await commits.get_commit(git, sha), call.repo.id, call.frame)
    url = f"{repo_url(call.repo.id, call.frame)}/branches/{quote(name)}"
    page = f"{shapes.page_url(call.repo.id, call.frame)}/tree/{quote(name)}"
    return json_response(
        {
            "name": name,
            "commit": newest,
            "_links": {"self": url, "html": page},
            **_protection_fields(call, name),
            "protection_url": f"{url}/protection",
        }
    )


def _short_branch(call: ApiCall, ref: GitRef) -> dict[str, Any]:
    url = repo_url(call.repo.id, call.frame)
    name = ref.name.removeprefix("refs/heads/")
    return {
        "name": name,
        "commit": {"sha": ref.sha, "url": f"{url}/commits/{ref.sha}"},
        **_protection_fields(call, name),
        "protection_url": f"{url}/branches/{quote(name)}/protection",
    }


def _protection_fields(call: ApiCall, branch: str) -> dict[str, Any]:
    rule = call.tables.find(Protection, call.repo.id, branch)
    contexts = list(rule.contexts) if rule else []
    checks = {
        "enforcement_level": "everyone" if contexts else "off",
        "contexts": contexts,
        "checks": [{"context": name, "app_id": None} for name in contexts],
    }
    protection = {"enabled": rule is not None, "required_status_checks": checks}
    return {"protected": rule is not None, "protection": protection}


def _full_ref(text: str) -> str:
    try:
        return names.full_ref(text)
    except BadName:
        raise not_found() from None


def _writable_ref(text: str) -> str:
    try:
        name = names.full_ref(text)
    except BadName:
        raise unprocessable(f"{text[:80]} is not a valid ref name.") from None
    if name.startswith("refs/pull/"):
        raise unprocessable("Reference cannot be updated")
    return name


async def _check_object(git: Repository, name: str, sha: str) -> None:
    if not names.is_sha(sha):
        raise unprocessable(f"Invalid request.\n\nFor 'properties/sha', {sha[:80]!r} is not a sha.")
    kind = await refs.object_kind(git, sha)
    if kind is None:
        raise unprocessable("Object does not exist")
    if kind != "commit" and name.startswith("refs/heads/"):
        raise unprocessable("Object is not a commit")


async def _find_ref(git: Repository, name: str) -> GitRef:
    found = [ref for ref in await refs.matching(git, name) if ref.name == name]
    if not found:
        raise not_found()
    return found[0]


PROTECTION = REPO + "/branches/{branch}/protection"


@router.route("GET", PROTECTION, access="admin")
def get_protection(call: ApiCall) -> SandboxResponse:
    """Return the rule of a branch."""
    return json_response(_serialize_rule(call, _find_rule(call)))


@router.route("PUT", PROTECTION, access="admin")
async def set_protection(call: ApiCall) -> SandboxResponse:
    """Set the rule: a number of approvals, and names of checks that must pass."""
    branch, fields = call.params["branch"], call.fields("Branch")
    known = names.is_branch_name(branch) and await refs.branch(call.git(), branch)
    if not known:
        raise ApiError(404, "Branch not found")
    reviews = _object_field(fields, "required_pull_request_reviews")
    checks = _object_field(fields, "required_status_checks")
    old = call.tables.find(Protection, call.repo.id, branch)
    rule = Protection(
        id=old.id if old else call.world.new_id("protection"),
        repo_id=call.repo.id,
        branch=branch,
        approvals=reviews.number("required_approving_review_count") or 0,
        contexts=tuple(checks.texts("contexts") or ()),
    )
    return json_response(_serialize_rule(call, call.world.put(rule)))


@router.route("DELETE", PROTECTION, access="admin")
def delete_protection(call: ApiCall) -> SandboxResponse:
    """Drop the rule."""
    call.world.remove(_find_rule(call))
    return no_content()


def _find_rule(call: ApiCall) -> Protection:
    rule = call.tables.find(Protection, call.repo.id, call.params["branch"])
    if rule is None:
        raise ApiError(404, "Branch not protected")
    return rule


def _object_field(fields: JsonFields, name: str) -> JsonFields:
    value = fields.values.get(name) or {}
    if not isinstance(value, dict):
        raise wrong_type(name, value, "an object")
    return JsonFields("Branch", value)


def _serialize_rule(call: ApiCall, rule: Protection) -> dict[str, Any]:
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
