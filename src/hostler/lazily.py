"""Packages whose parts are loaded when they are asked for.

A command that only reads must not wait for everything that a whole service needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def parts_of(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A package's `__getattr__`: names, and the modules below it where they live."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find
