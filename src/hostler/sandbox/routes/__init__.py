"""All resources. A module of this folder that has a `router` is served."""

from __future__ import annotations

import importlib
import pkgutil

from hostler.sandbox.router import Router


def all_routes() -> Router:
    """One router with the routes of every module here."""
    whole = Router()
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__, f"{__name__}.")):
        router = getattr(importlib.import_module(module), "router", None)
        if isinstance(router, Router):
            whole.include(router)
    return whole
