"""The root, the caller, other people, and what is left of the budget."""

from __future__ import annotations

from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.errors import forbidden, not_found
from hostler.sandbox.http.requests import SandboxResponse, json_response
from hostler.sandbox.http.router import ApiRouter
from hostler.sandbox.serializers.base import serialize
from hostler.sandbox.state.entities import User

router = ApiRouter()

_ROOT = {
    "current_user_url": "/user",
    "current_user_authorizations_html_url": "/settings/connections/applications{/client_id}",
    "authorizations_url": "/authorizations",
    "code_search_url": "/search/code?q={query}{&page,per_page,sort,order}",
    "commit_search_url": "/search/commits?q={query}{&page,per_page,sort,order}",
    "emails_url": "/user/emails",
    "emojis_url": "/emojis",
    "events_url": "/events",
    "feeds_url": "/feeds",
    "followers_url": "/user/followers",
    "following_url": "/user/following{/target}",
    "gists_url": "/gists{/gist_id}",
    "issue_search_url": "/search/issues?q={query}{&page,per_page,sort,order}",
    "issues_url": "/issues",
    "keys_url": "/user/keys",
    "label_search_url": "/search/labels?q={query}&repository_id={repository_id}{&page,per_page}",
    "notifications_url": "/notifications",
    "organization_url": "/orgs/{org}",
    "organization_repositories_url": "/orgs/{org}/repos{?type,page,per_page,sort}",
    "organization_teams_url": "/orgs/{org}/teams",
    "public_gists_url": "/gists/public",
    "rate_limit_url": "/rate_limit",
    "repository_url": "/repos/{owner}/{repo}",
    "repository_search_url": "/search/repositories?q={query}{&page,per_page,sort,order}",
    "current_user_repositories_url": "/user/repos{?type,page,per_page,sort}",
    "starred_url": "/user/starred{/owner}{/repo}",
    "starred_gists_url": "/gists/starred",
    "user_url": "/users/{user}",
    "user_organizations_url": "/user/orgs",
    "user_repositories_url": "/users/{user}/repos{?type,page,per_page,sort}",
    "user_search_url": "/search/users?q={query}{&page,per_page,sort,order}",
}


@router.route("GET", "/")
def get_root(call: ApiCall) -> SandboxResponse:
    """Return the URLs of the API."""
    return json_response({name: call.request.root + rest for name, rest in _ROOT.items()})


@router.route("GET", "/zen")
def get_zen(_call: ApiCall) -> SandboxResponse:
    """Return a fixed sentence of GitHub's zen."""
    return SandboxResponse(
        200, b"Keep it logically awesome.", content_type="text/plain; charset=utf-8"
    )


@router.route("GET", "/meta")
def get_meta(_call: ApiCall) -> SandboxResponse:
    """Return facts about this host."""
    return json_response({"verifiable_password_authentication": False, "hooks": ["127.0.0.1/32"]})


@router.route("GET", "/user", login=True)
def get_authenticated_user(call: ApiCall) -> SandboxResponse:
    """Return the authenticated user."""
    user = call.tables.find(User, call.actor.lower())
    if user is None or call.viewer.installation_id is not None:
        raise forbidden("Resource not accessible by integration")
    private = {
        "private_gists": 0,
        "total_private_repos": 0,
        "owned_private_repos": 0,
        "disk_usage": 0,
        "collaborators": 0,
        "two_factor_authentication": True,
    }
    return json_response({**serialize(user, call.frame), **private})


@router.route("GET", "/users/{login}")
def get_user(call: ApiCall) -> SandboxResponse:
    """Return a user or organisation."""
    user = call.tables.find(User, call.params["login"].lower())
    if user is None:
        raise not_found()
    return json_response(serialize(user, call.frame))


@router.route("GET", "/rate_limit", free=True)
def get_rate_limit(call: ApiCall) -> SandboxResponse:
    """Return the caller's rate limit; the request itself costs nothing."""
    account = call.account
    core = {
        "limit": account.limit,
        "used": account.used,
        "remaining": max(account.limit - account.used, 0),
        "reset": account.reset,
        "resource": "core",
    }
    names = ("core", "search", "graphql", "integration_manifest", "code_search")
    return json_response({"resources": dict.fromkeys(names, core), "rate": core})
