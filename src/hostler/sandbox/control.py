"""The test controls below /_sandbox: faults, clock, ledger, settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hostler.errors import HostlerError
from hostler.sandbox.errors import ApiError
from hostler.sandbox.http import Request, Response, json_response
from hostler.sandbox.moments import iso
from hostler.sandbox.paging import moment_of
from hostler.sandbox.settings import BadInput

if TYPE_CHECKING:
    from hostler.sandbox.app import SandboxApp

Action = Callable[[Request, str], Any]


class Control:
    """Answers control requests, without authentication."""

    def __init__(self, app: SandboxApp) -> None:
        self._app = app
        self._actions: dict[tuple[str, str], Action] = {
            ("GET", "faults"): self._faults,
            ("POST", "faults"): self._add_fault,
            ("DELETE", "faults"): self._drop_fault,
            ("GET", "clock"): self._clock,
            ("POST", "clock"): self._move_clock,
            ("GET", "ledger"): self._ledger,
            ("DELETE", "ledger"): self._clear_ledger,
            ("GET", "settings"): self._settings,
            ("POST", "settings"): self._change_settings,
            ("PATCH", "settings"): self._change_settings,
            ("POST", "limits/reset"): self._reset_limits,
        }

    def add(self, method: str, area: str, action: Action) -> None:
        """Serve one more control."""
        self._actions[(method, area)] = action

    async def answer(self, request: Request) -> Response:
        """The answer; mistakes are 400 and name the field."""
        path = request.path.removeprefix("/_sandbox").strip("/")
        area, _, rest = path.partition("/")
        exact = self._actions.get((request.method, path))
        action = exact or self._actions.get((request.method, area))
        if action is None:
            return json_response({"message": f"No control {request.method} /{path}"}, 404)
        try:
            result = action(request, "" if exact else rest)
            return json_response(await result if inspect.isawaitable(result) else result)
        except BadInput as error:
            return json_response({"message": str(error), "field": error.field}, 400)
        except HostlerError as error:
            return json_response({"message": error.what}, 400)
        except ApiError as error:
            return json_response(error.payload(), 400 if error.status == 422 else error.status)

    def _faults(self, _request: Request, _rest: str) -> Any:
        return self._app.pipeline.faults.listed()

    def _add_fault(self, request: Request, _rest: str) -> Any:
        return self._app.pipeline.faults.add(request.json()).as_dict()

    def _drop_fault(self, _request: Request, rest: str) -> Any:
        if rest and not (rest.isascii() and rest.isdigit() and len(rest) < 19):
            raise BadInput("id", "must be the number of a fault")
        if not self._app.pipeline.faults.remove(int(rest) if rest else None):
            raise ApiError(404, f"No fault {rest}")
        return self._app.pipeline.faults.listed()

    def _clock(self, _request: Request, _rest: str) -> Any:
        clock = self._app.world.clock
        return {"now": clock.now(), "iso": iso(int(clock.now())), "frozen": clock.frozen}

    def _move_clock(self, request: Request, rest: str) -> Any:
        move_clock(self._app, request.json())
        return self._clock(request, rest)

    def _ledger(self, request: Request, _rest: str) -> Any:
        return self._app.pipeline.ledger.answer(request.query)

    def _clear_ledger(self, _request: Request, _rest: str) -> Any:
        self._app.pipeline.ledger.clear()
        return {}

    def _settings(self, _request: Request, _rest: str) -> Any:
        return self._app.world.settings.as_dict()

    def _change_settings(self, request: Request, rest: str) -> Any:
        self._app.world.settings.change(request.json())
        return self._settings(request, rest)

    def _reset_limits(self, _request: Request, _rest: str) -> Any:
        self._app.pipeline.limits.clear()
        return {}


def move_clock(app: SandboxApp, values: dict[str, Any]) -> None:
    """Apply {"real": true}, {"frozen": …}, {"set": …}, {"advance": …}, in this order."""
    clock = app.world.clock
    for name in values:
        if name not in ("advance", "set", "frozen", "real"):
            raise BadInput(name, "unknown; a clock has advance, set, frozen and real")
    for name in ("frozen", "real"):
        if not isinstance(values.get(name, False), bool):
            raise BadInput(name, "must be true or false")
    moment, step = _moment(values.get("set")), _step(values.get("advance", 0))
    if values.get("real"):
        clock.real()
    if "frozen" in values:
        (clock.freeze if values["frozen"] else clock.thaw)()
    if moment is not None:
        clock.set(moment)
    clock.advance(step)
    app.world.settle()


def _moment(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return moment_of(value, "set")
        except ApiError:
            raise BadInput("set", "must be seconds or an ISO 8601 time") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise BadInput("set", "must be seconds or an ISO 8601 time")
    return float(value)


def _step(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise BadInput("advance", "must be a number of seconds from 0 up")
    return float(value)
