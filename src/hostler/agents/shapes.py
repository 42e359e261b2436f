"""Shapes of values in a script: each says what is wrong with a value, and where."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

from hostler.errors import Problem

Shape = Callable[[str, Any], Iterator[Problem]]


def shown(value: object) -> str:
    """A found value, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _when(fits: Callable[[Any], bool], allowed: str) -> Shape:
    def check(place: str, value: Any) -> Iterator[Problem]:
        if not fits(value):
            yield Problem(place, shown(value), allowed)

    return check


TEXT = _when(lambda value: isinstance(value, str), "a text")
FILLED = _when(lambda value: isinstance(value, str) and bool(value.strip()), "a text, not empty")
FLAG = _when(lambda value: isinstance(value, bool), "true or false")
ALWAYS = _when(lambda value: value is True, "true")
WORDS = _when(
    lambda value: (
        isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)
    ),
    "a list of texts, not empty",
)


def _inside(value: Any) -> bool:
    if not isinstance(value, str) or not value or "\x00" in value or value.startswith("/"):
        return False
    return ".." not in value.split("/")


PATH = _when(_inside, "a path inside the checkout")


def whole(least: int, most: int) -> Shape:
    """A whole number in a range."""
    return _when(
        lambda value: type(value) is int and least <= value <= most,
        f"a whole number from {least} to {most}",
    )


def number(least: float, most: float) -> Shape:
    """A number in a range."""
    return _when(
        lambda value: type(value) in {int, float} and isfinite(value) and least <= value <= most,
        f"a number from {least:g} to {most:g}",
    )


def one_of(*names: str) -> Shape:
    """One of these texts."""
    return _when(lambda value: isinstance(value, str) and value in names, ", ".join(names))


def many(shape: Shape) -> Shape:
    """A list of such values."""

    def check(place: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield Problem(place, shown(value), "a list")
            return
        for index, item in enumerate(value):
            yield from shape(f"{place}[{index}]", item)

    return check


def table(fields: Mapping[str, Shape]) -> Shape:
    """An object with these keys; a name that ends in `!` is needed."""
    known = {name.rstrip("!"): shape for name, shape in fields.items()}
    needed = [name.rstrip("!") for name in fields if name.endswith("!")]

    def check(place: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield Problem(place, shown(value), f"a table with {', '.join(known)}")
            return
        for name in needed:
            if name not in value:
                yield Problem(f"{place}.{name}", "nothing", "this key is needed here")
        for name, inner in value.items():
            if name in known:
                yield from known[name](f"{place}.{name}", inner)
            else:
                yield unknown(f"{place}.{name}", str(name), known)

    return check


def unknown(place: str, name: str, known: Mapping[str, object]) -> Problem:
    """A name that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]}?" if near else ""
    return Problem(place, "an unknown name", ", ".join(known), hint)
