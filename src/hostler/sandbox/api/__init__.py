"""All resources. A module of this folder that has a `router` is served."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from hostler.sandbox.http.router import ApiRouter
from hostler.sandbox.state.world import World


def all_routes() -> ApiRouter:
    """Return one router with the routes of every module here."""
    whole = ApiRouter()
    for module in _modules():
        router = getattr(module, "router", None)
        if isinstance(router, ApiRouter):
            whole.include(router)
    return whole


def attach_all(world: World) -> None:
    """Let every module that wants to listen to a world do so."""
    for module in _modules():
        attach = getattr(module, "attach", None)
        if attach is not None:
            attach(world)


def _modules() -> list[ModuleType]:
    names = sorted(found.name for found in pkgutil.iter_modules(__path__, f"{__name__}."))
    return [importlib.import_module(name) for name in names]
