"""Process a request: faults, caller, rate limits, access, handler, conditions, headers, ledger."""

from __future__ import annotations

import asyncio
import inspect
import json
from dataclasses import dataclass, field

from hostler.sandbox.auth import ANONYMOUS, Identity, identify
from hostler.sandbox.control.faults import Fault, FaultPlan
from hostler.sandbox.control.ledger import Ledger, LedgerEntry
from hostler.sandbox.git.errors import GitError
from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.conditional_requests import apply_conditions
from hostler.sandbox.http.errors import (
    ApiError,
    api_error_for,
    bad_request,
    forbidden,
    gone,
    not_found,
    unauthorized,
)
from hostler.sandbox.http.rate_limits import RateAccount, RateLimits
from hostler.sandbox.http.requests import SandboxRequest, SandboxResponse, json_response
from hostler.sandbox.http.router import ApiRoute, ApiRouter
from hostler.sandbox.serializers.base import Renderer
from hostler.sandbox.state.clock import http_date
from hostler.sandbox.state.entities import Repo
from hostler.sandbox.state.world import World


def _authorize(call: ApiCall) -> None:
    """Find the repository of the path and check the caller; raises GitHub's answer if not."""
    route, viewer = call.route, call.viewer
    if route.app != viewer.is_app:
        raise unauthorized("A JSON web token could not be decoded")
    if viewer.anonymous and route.login:
        raise unauthorized()
    if not route.in_repo:
        return
    call.repo = repo = _find_repo(call)
    if route.app:
        return
    if not call.can("read"):
        raise not_found()
    if viewer.anonymous and not call.request.is_read:
        raise unauthorized()
    if not call.can(route.access):
        raise forbidden(_missing_permission_message(route.access))
    if repo.archived and not call.request.is_read and route.access != "admin":
        raise forbidden("Repository was archived so is read-only.")
    if route.issues and not repo.has_issues:
        raise gone("Issues has been disabled in this repository.")


def _find_repo(call: ApiCall) -> Repo:
    if "repository_id" in call.params:
        found = call.tables.get(Repo, call.number("repository_id"))
        if found is None:
            raise not_found()
        return found
    name = f"{call.params['owner']}/{call.params['repo']}".lower()
    found = call.tables.find(Repo, name)
    if found is not None:
        return found
    former = call.tables.find(Repo, "former", name)
    if former is None or not call.viewer.can(call.tables, former, "read"):
        raise not_found()
    call.repo = former
    raise _redirect_to_new_name(call)


def _redirect_to_new_name(call: ApiCall) -> ApiError:
    """Return a redirect to a renamed repository: 301 for reads, 307 for writes."""
    url = call.numeric_url()
    if call.request.query_string:
        url += "?" + call.request.query_string
    read = call.request.is_read
    message = "Moved Permanently" if read else "Temporary Redirect"
    return ApiError(301 if read else 307, message, headers={"Location": url})


def _missing_permission_message(access: str) -> str:
    if access == "write":
        return "Must have push access to repository"
    return "Must have admin rights to Repository."


API_VERSIONS = ("2022-11-28", "2026-03-10")


class ConnectionCut(Exception):
    """The connection is cut; `partial` is the response of which half is sent (None: nothing)."""

    def __init__(self, partial: SandboxResponse | None = None) -> None:
        super().__init__("connection cut on purpose")
        self.partial = partial


@dataclass
class Exchange:
    """One request under way."""

    request: SandboxRequest
    route: ApiRoute | None
    params: dict[str, str]
    fault: Fault | None
    entry: LedgerEntry
    viewer: Identity = ANONYMOUS
    account: RateAccount | None = None
    charge: bool = False
    headers: dict[str, str] = field(default_factory=dict)


class Pipeline:
    """Takes requests to handlers and back, keeping GitHub's rules on the way."""

    def __init__(self, world: World, router: ApiRouter) -> None:
        self.world = world
        self.router = router
        self.limits = RateLimits(world.settings)
        self.faults = FaultPlan()
        self.ledger = Ledger()
        self.renderer = Renderer()
        self._requests = 0

    async def answer(self, request: SandboxRequest) -> SandboxResponse:
        """Return the finished response; raise ConnectionCut if the fault plan says so."""
        self.world.settle()
        exchange = self._open(request)
        response: SandboxResponse | None = None
        try:
            response = await self._through_faults(exchange)
            self._finish(exchange, response)
            return response
        except ConnectionCut as cut:
            if cut.partial:
                self._finish(exchange, cut.partial)
            raise
        finally:
            self._record(exchange, response)

    def _open(self, request: SandboxRequest) -> Exchange:
        found = self.router.match(request.method, request.path)
        route, params = found or (None, {})
        template = route.template if route else ""
        fault = self.faults.pick(request.method, template, request.path)
        entry = LedgerEntry(
            self.world.clock.now(), request.method, request.path, request.query_string, template
        )
        if fault:
            entry.fault = fault.kind
        return Exchange(request, route, params, fault, entry)

    async def _through_faults(self, exchange: Exchange) -> SandboxResponse:
        fault = exchange.fault
        if fault is None:
            return await self._answer(exchange)
        if fault.kind in ("fail_before", "status"):
            return _gateway_error(fault.status)
        if fault.kind == "cut" and fault.when == "before":
            raise ConnectionCut
        hidden = fault.seconds if fault.kind == "hide" else None
        with self.world.hiding(hidden):
            response = await self._answer(exchange)
        if fault.kind == "fail_after":
            return _gateway_error(fault.status)
        if fault.kind == "cut":
            raise ConnectionCut(response if fault.when == "body" else None)
        return response

    async def _answer(self, exchange: Exchange) -> SandboxResponse:
        """Return the response and charge for it; a fault that strikes later changes no budget."""
        response = await self._attempt(exchange)
        self._charge(exchange, response)
        return response

    async def _attempt(self, exchange: Exchange) -> SandboxResponse:
        try:
            _check_headers(exchange.request)
            exchange.viewer = identify(self.world, exchange.request.headers.get("authorization"))
            response = await self._serve(exchange, self._pay(exchange))
        except GitError as error:
            return self._refusal(exchange, api_error_for(error))
        except ApiError as error:
            return self._refusal(exchange, error)
        return apply_conditions(exchange.request, response, exchange.viewer)

    def _charge(self, exchange: Exchange, response: SandboxResponse) -> None:
        """Take one of the hour's budget; a 304 to a known caller is free."""
        free = response.status == 304 and not exchange.viewer.anonymous
        if exchange.charge and exchange.account is not None and not free:
            exchange.account.used += 1
            exchange.entry.primary = 1

    async def _serve(self, exchange: Exchange, account: RateAccount) -> SandboxResponse:
        """Return the handler's response; meanwhile the request counts as concurrent."""
        account.concurrent += 1
        try:
            if exchange.fault is not None and exchange.fault.kind == "delay":
                await asyncio.sleep(exchange.fault.seconds)
            return await self._route(exchange, account)
        finally:
            account.concurrent -= 1

    def _pay(self, exchange: Exchange) -> RateAccount:
        """Count the request against both limits; raise if one is reached."""
        viewer, route, request = exchange.viewer, exchange.route, exchange.request
        exchange.entry.login = viewer.login or viewer.key
        now = self.world.clock.now()
        account = exchange.account = self.limits.account(viewer, now)
        if route is not None and route.free:
            return account
        points = 1 if request.is_read else 5
        exchange.entry.secondary = points
        self._strike_limit(exchange, account)
        self.limits.admit(account, now, points, route is not None and route.creates)
        self.limits.check_primary(account)
        exchange.charge = True
        return account

    def _strike_limit(self, exchange: Exchange, account: RateAccount) -> None:
        fault = exchange.fault
        if fault is None or fault.kind != "limit":
            return
        if fault.limit == "secondary":
            raise self.limits.secondary(fault.status)
        account.used = max(account.used, account.limit)
        raise self.limits.primary(fault.status)

    async def _route(self, exchange: Exchange, account: RateAccount) -> SandboxResponse:
        route = exchange.route
        if route is None:
            raise not_found()
        call = ApiCall(
            exchange.request,
            route,
            exchange.params,
            self.world,
            self.renderer,
            exchange.viewer,
            account,
        )
        _authorize(call)
        result = route.handler(call)
        return await result if inspect.isawaitable(result) else result

    def _refusal(self, exchange: Exchange, error: ApiError) -> SandboxResponse:
        now = self.world.clock.now()
        if exchange.account is None:
            # An unknown caller gets the headers of the anonymous budget.
            exchange.account = self.limits.account(ANONYMOUS, now)
        elif error.status in (404, 410):
            exchange.account.missing.add(now, 1)
        payload = error.payload()
        if error.status in (301, 307):
            payload["url"] = error.headers["Location"]
        response = json_response(payload, error.status)
        response.headers.update(error.headers)
        return response

    def _finish(self, exchange: Exchange, response: SandboxResponse) -> None:
        """Add the headers that every answer has; those of a budget where a caller was looked at."""
        now = self.world.clock.now()
        self._requests += 1
        version = exchange.request.headers.get("x-github-api-version", API_VERSIONS[0])
        response.headers |= {
            "Date": http_date(int(now)),
            "Server": "github.com",
            "X-GitHub-Media-Type": "github.v3; format=json",
            "X-GitHub-Request-Id": f"5A4D:{self._requests:08X}:0:0:{int(now):08X}",
            "X-GitHub-Api-Version-Selected": version,
            "Access-Control-Expose-Headers": "ETag, Link, Location, Retry-After",
            **(exchange.account.headers() if exchange.account else {}),
        }

    def _record(self, exchange: Exchange, response: SandboxResponse | None) -> None:
        entry = exchange.entry
        entry.status = response.status if response else 0
        entry.bytes = len(response.body) if response else 0
        self.ledger.add(entry)


def _check_headers(request: SandboxRequest) -> None:
    if not request.headers.get("user-agent", "").strip():
        raise forbidden(
            "Request forbidden by administrative rules. Please make sure your request has a "
            "User-Agent header."
        )
    version = request.headers.get("x-github-api-version")
    if version is not None and version not in API_VERSIONS:
        raise bad_request(f"The API version {json.dumps(version)[:80]} is not supported.")


def _gateway_error(status: int) -> SandboxResponse:
    """Return the response of GitHub's gateway when a server behind it fails."""
    if status >= 500:
        body = b"<html><body><h1>We had issues producing the response.</h1></body></html>"
        return SandboxResponse(status, body, content_type="text/html; charset=utf-8")
    return json_response(ApiError(status, "Fault on request").payload(), status)
