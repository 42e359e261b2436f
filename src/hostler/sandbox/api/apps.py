"""GitHub Apps: themselves, their installations, and tokens for these."""

from __future__ import annotations

from typing import Any

from hostler.sandbox.auth import AppRegistration, Installation, SandboxToken, installation_secret
from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.errors import forbidden, not_found, unprocessable
from hostler.sandbox.http.requests import SandboxResponse, json_response, no_content
from hostler.sandbox.http.router import REPO, ApiRouter
from hostler.sandbox.serializers.base import RenderContext, serialize, serializer
from hostler.sandbox.serializers.repos import html_root, node_id, simple_user, user_of
from hostler.sandbox.state.clock import iso
from hostler.sandbox.state.entities import Repo
from hostler.sandbox.state.world import World

router = ApiRouter()
TOKEN_LIFETIME_SECONDS = 3600
APP_PERMISSIONS = {
    "actions": "write",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}
APP_EVENTS = ["issues", "issue_comment", "pull_request", "push"]


@serializer(AppRegistration)
def serialize_app(app: AppRegistration, frame: RenderContext) -> dict[str, Any]:
    """Return an App."""
    return {
        "id": app.id,
        "slug": app.slug,
        "client_id": app.client_id,
        "node_id": node_id("App", app.id),
        "owner": simple_user(app.owner, frame),
        "name": app.name,
        "description": "",
        "external_url": html_root(frame),
        "html_url": f"{html_root(frame)}/apps/{app.slug}",
        "created_at": iso(app.created_at),
        "updated_at": iso(app.created_at),
        "permissions": APP_PERMISSIONS,
        "events": APP_EVENTS,
        "installations_count": len(frame.tables.group(Installation, "app", app.id).select()),
    }


@serializer(Installation)
def serialize_installation(item: Installation, frame: RenderContext) -> dict[str, Any]:
    """Return an installation."""
    app = frame.tables.get(AppRegistration, item.app_id)
    account = user_of(frame.tables, item.account)
    return {
        "id": item.id,
        "account": simple_user(item.account, frame),
        "repository_selection": "all" if item.repos is None else "selected",
        "access_tokens_url": f"{frame.root}/app/installations/{item.id}/access_tokens",
        "repositories_url": f"{frame.root}/installation/repositories",
        "html_url": f"{html_root(frame)}/settings/installations/{item.id}",
        "app_id": item.app_id,
        "app_slug": app.slug if app else "",
        "client_id": app.client_id if app else "",
        "target_id": account.id,
        "target_type": account.type,
        "permissions": APP_PERMISSIONS,
        "events": APP_EVENTS,
        "created_at": iso(item.created_at),
        "updated_at": iso(item.created_at),
        "single_file_name": None,
        "suspended_by": None,
        "suspended_at": None,
    }


@router.route("GET", "/app", app=True)
def get_app(call: ApiCall) -> SandboxResponse:
    """Return the App that sends the request."""
    app = call.tables.get(AppRegistration, call.viewer.app_id or 0)
    if app is None:
        raise not_found()
    return call.one(app)


@router.route("GET", "/app/installations", app=True)
def list_installations(call: ApiCall) -> SandboxResponse:
    """Return the App's installations."""
    return call.page(call.tables.group(Installation, "app", call.viewer.app_id).select())


@router.route("GET", "/app/installations/{installation_id}", app=True)
def get_installation(call: ApiCall) -> SandboxResponse:
    """Return one installation."""
    return call.one(_find_installation(call))


@router.route("GET", REPO + "/installation", app=True)
def get_repo_installation(call: ApiCall) -> SandboxResponse:
    """Return the App's installation that covers a repository."""
    for found in call.tables.group(Installation, "app", call.viewer.app_id).select():
        if found.covers(call.repo.owner, call.repo.id):
            return call.one(found)
    raise not_found()


@router.route("POST", "/app/installations/{installation_id}/access_tokens", app=True)
def create_access_token(call: ApiCall) -> SandboxResponse:
    """Create a token that speaks for an installation for one hour."""
    found = _find_installation(call)
    chosen = _chosen_repos(call, found)
    token = create_token(call.world, found, chosen)
    body: dict[str, Any] = {
        "token": token.secret,
        "expires_at": iso(token.expires_at or 0),
        "permissions": APP_PERMISSIONS,
        "repository_selection": "all" if found.repos is None else "selected",
    }
    if call.request.json():
        body["repositories"] = [serialize(repo, call.frame) for repo in chosen]
    return json_response(body, 201)


def create_token(world: World, found: Installation, repos: list[Repo]) -> SandboxToken:
    """Put a token into the world that speaks for an installation on these repositories."""
    app = world.truth.get(AppRegistration, found.app_id)
    number = world.count("id:token")
    token = SandboxToken(
        id=number,
        secret=installation_secret(number),
        login=f"{app.slug if app else 'app'}[bot]",
        installation_id=found.id,
        app_id=found.app_id,
        repos=tuple(repo.id for repo in repos),
        expires_at=world.now() + TOKEN_LIFETIME_SECONDS,
    )
    with world.hiding(0):
        return world.put(token)


def covered_repos(world: World, found: Installation) -> list[Repo]:
    """Return every repository that an installation reaches."""
    return [repo for repo in world.truth.all(Repo) if found.covers(repo.owner, repo.id)]


@router.route("GET", "/installation/repositories", login=True)
def list_installation_repos(call: ApiCall) -> SandboxResponse:
    """Return what an installation's token reaches."""
    if call.viewer.installation_id is None:
        raise forbidden(
            "You must authenticate with an installation access token"
            " in order to list repositories for an installation."
        )
    wanted = call.viewer.repos or frozenset()
    found = [repo for repo in call.tables.all(Repo) if repo.id in wanted]
    return call.wrapped(found, "repositories")


@router.route("DELETE", "/installation/token", login=True)
def revoke_token(call: ApiCall) -> SandboxResponse:
    """Give a token back before its time."""
    for token in call.tables.all(SandboxToken):
        if f"token:{token.id}" == call.viewer.key and token.installation_id is not None:
            call.world.remove(token)
            return no_content()
    raise not_found()


def _find_installation(call: ApiCall) -> Installation:
    found = call.tables.get(Installation, call.number("installation_id"))
    if found is None or found.app_id != call.viewer.app_id:
        raise not_found()
    return found


def _chosen_repos(call: ApiCall, found: Installation) -> list[Repo]:
    """Return a token's repositories: all of the installation's, or the named ones."""
    reached = covered_repos(call.world, found)
    fields = call.fields("Installation")
    names = fields.texts("repositories")
    ids = fields.values.get("repository_ids")
    if names is None and ids is None:
        return reached
    wanted = {name.lower() for name in names or []}
    numbers = set(ids) if isinstance(ids, list) and all(type(one) is int for one in ids) else set()
    chosen = [repo for repo in reached if repo.name.lower() in wanted or repo.id in numbers]
    if len(chosen) != len(wanted) + len(numbers):
        raise unprocessable(
            "There is at least one repository that is not accessible to the parent installation."
        )
    return chosen
