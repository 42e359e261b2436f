"""Git refs, and the branches among them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hostler.sandbox.call import Call
from hostler.sandbox.errors import not_found, unprocessable
from hostler.sandbox.git import commits, names, refs
from hostler.sandbox.git.errors import BadName, NoSuchObject, NotFastForward, RefMoved
from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.refs import Ref
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.http import Response, json_response, no_content
from hostler.sandbox.plain_pages import plain_page
from hostler.sandbox.pull_entities import Protection
from hostler.sandbox.ref_moves import announce_call
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.shapes import commits as shapes
from hostler.sandbox.shapes.issues import repo_url

router = Router()
REFS = REPO + "/git/refs"


@router.route("GET", REPO + "/git/ref/{ref...}")
async def get_ref(call: Call) -> Response:
    """Exactly this ref."""
    name = _full(call.params["ref"])
    found = await refs.matching(call.git(), name)
    exact = next((ref for ref in found if ref.name == name), None)
    if exact is None:
        raise not_found()
    return json_response(shapes.ref(exact, call.repo.id, call.frame))


@router.route("GET", REPO + "/git/matching-refs/{ref...}")
async def matching_refs(call: Call) -> Response:
    """Every ref whose name begins so."""
    found = await refs.matching(call.git(), f"refs/{call.params['ref']}")
    return plain_page(call, found, lambda ref: shapes.ref(ref, call.repo.id, call.frame))


@router.route("POST", REFS, access="write", creates=True)
async def create_ref(call: Call) -> Response:
    """A new branch or tag."""
    git, fields = call.git(), call.fields("Reference")
    text, sha = fields.text("ref", required=True) or "", fields.text("sha", required=True) or ""
    if not text.startswith("refs/") or text.count("/") < 2:
        raise unprocessable("Reference name must start with 'refs/' and have two more slashes")
    name = _writable(text)
    async with git.lock:
        await _check_object(git, name, sha)
        try:
            move = await refs.move(git, name, sha, expected=ZERO)
        except RefMoved:
            raise unprocessable("Reference already exists") from None
        await announce_call(call, move)
    made = shapes.ref(await _ref(git, name), call.repo.id, call.frame)
    return json_response(made, 201, Location=made["url"])


@router.route("PATCH", REFS + "/{ref...}", access="write")
async def update_ref(call: Call) -> Response:
    """Move a ref; without force only forward."""
    git, fields = call.git(), call.fields("Reference")
    sha, force = fields.text("sha", required=True) or "", fields.flag("force")
    name = _writable(call.params["ref"])
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
        await announce_call(call, move)
    return json_response(shapes.ref(await _ref(git, name), call.repo.id, call.frame))


@router.route("DELETE", REFS + "/{ref...}", access="write")
async def delete_ref(call: Call) -> Response:
    """Remove a branch or tag."""
    git, name = call.git(), _writable(call.params["ref"])
    if name == f"refs/heads/{call.repo.default_branch}":
        raise unprocessable("Cannot delete the default branch")
    async with git.lock:
        old = await refs.find(git, name)
        if old is None:
            raise unprocessable("Reference does not exist")
        await announce_call(call, await refs.move(git, name, ZERO, expected=old))
    return no_content()


@router.route("GET", REPO + "/branches")
async def list_branches(call: Call) -> Response:
    """All branches, by name."""
    found = await refs.matching(call.git(), "refs/heads/")
    return plain_page(call, found, lambda ref: _short_branch(call, ref))


@router.route("GET", REPO + "/branches/{branch...}")
async def get_branch(call: Call) -> Response:
    """One branch with its newest commit."""
    git, name = call.git(), call.params["branch"]
    sha = await refs.branch(git, name) if names.is_branch_name(name) else None
    if sha is None:
        raise not_found()
    newest = shapes.commit(await commits.get(git, sha), call.repo.id, call.frame)
    url = f"{repo_url(call.repo.id, call.frame)}/branches/{quote(name)}"
    page = f"{shapes.page_url(call.repo.id, call.frame)}/tree/{quote(name)}"
    return json_response(
        {
            "name": name,
            "commit": newest,
            "_links": {"self": url, "html": page},
            **_protection(call, name),
            "protection_url": f"{url}/protection",
        }
    )


def _short_branch(call: Call, ref: Ref) -> dict[str, Any]:
    url = repo_url(call.repo.id, call.frame)
    name = ref.name.removeprefix("refs/heads/")
    return {
        "name": name,
        "commit": {"sha": ref.sha, "url": f"{url}/commits/{ref.sha}"},
        **_protection(call, name),
        "protection_url": f"{url}/branches/{quote(name)}/protection",
    }


def _protection(call: Call, branch: str) -> dict[str, Any]:
    rule = call.tables.find(Protection, call.repo.id, branch)
    contexts = list(rule.contexts) if rule else []
    checks = {
        "enforcement_level": "everyone" if contexts else "off",
        "contexts": contexts,
        "checks": [{"context": name, "app_id": None} for name in contexts],
    }
    protection = {"enabled": rule is not None, "required_status_checks": checks}
    return {"protected": rule is not None, "protection": protection}


def _full(text: str) -> str:
    try:
        return names.full_ref(text)
    except BadName:
        raise not_found() from None


def _writable(text: str) -> str:
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


async def _ref(git: Repository, name: str) -> Ref:
    found = [ref for ref in await refs.matching(git, name) if ref.name == name]
    if not found:
        raise not_found()
    return found[0]
