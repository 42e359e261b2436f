"""Test controls that change the world: state, seed, deleting and transferring issues, webhooks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hostler.sandbox.apps import App, Installation
from hostler.sandbox.entities import Issue, Repo
from hostler.sandbox.http import Request
from hostler.sandbox.moments import iso
from hostler.sandbox.moving import delete_issue, transfer_issue
from hostler.sandbox.routes.apps import covered, make_token
from hostler.sandbox.saving import pack, unpack
from hostler.sandbox.seed import plant
from hostler.sandbox.settings import BadInput

if TYPE_CHECKING:
    from hostler.sandbox.app import SandboxApp


class WorldControls:
    """The world by hand."""

    def __init__(self, app: SandboxApp) -> None:
        self._app = app
        self._world = app.world
        self._planting = asyncio.Lock()
        app.control.add("GET", "state", self._state)
        app.control.add("PUT", "state", self._load)
        app.control.add("POST", "seed", self._seed)
        app.control.add("POST", "issues/delete", self._delete)
        app.control.add("POST", "issues/transfer", self._transfer)
        app.control.add("POST", "webhooks/wait", self._wait)
        app.control.add("POST", "apps/token", self._token)

    def _state(self, _request: Request, _rest: str) -> Any:
        return pack(self._world)

    def _load(self, request: Request, _rest: str) -> Any:
        unpack(self._world, request.json())
        self._app.pipeline.renderer.forget()
        return {}

    async def _seed(self, request: Request, _rest: str) -> Any:
        # One at a time: what was checked must still be so when it grows.
        async with self._planting:
            await plant(self._world, request.json())
        return {}

    def _delete(self, request: Request, _rest: str) -> Any:
        delete_issue(self._world, self._issue(request.json()))
        return {}

    def _transfer(self, request: Request, _rest: str) -> Any:
        values = request.json()
        made = transfer_issue(self._world, self._issue(values), self._repo(values, "to"))
        return {"number": made.number, "id": made.id}

    async def _wait(self, _request: Request, _rest: str) -> Any:
        await self._app.postman.idle()
        return {}

    def _token(self, request: Request, _rest: str) -> Any:
        """{app, account}: what an App gets for its JWT, without one."""
        values = request.json()
        app = self._world.truth.find(App, str(values.get("app")))
        if app is None:
            raise BadInput("app", "no such App; write its slug")
        account = str(values.get("account", app.owner)).lower()
        for place in self._world.truth.group(Installation, "app", app.id).select():
            if place.account.lower() == account:
                token = make_token(self._world, place, covered(self._world, place))
                return {"token": token.secret, "expires_at": iso(token.expires_at or 0)}
        raise BadInput("account", "the App is not installed there")

    def _repo(self, values: dict[str, Any], field: str) -> Repo:
        repo = self._world.repo(str(values.get(field)))
        if repo is None:
            raise BadInput(field, "no such repository; write owner/name")
        return repo

    def _issue(self, values: dict[str, Any]) -> Issue:
        number = values.get("number")
        issue = None
        if type(number) is int:
            issue = self._world.truth.find(Issue, self._repo(values, "repo").id, number)
        if issue is None:
            raise BadInput("number", "no such issue")
        if issue.pull is not None:
            raise BadInput("number", "is a pull request; GitHub deletes and transfers issues only")
        return issue
