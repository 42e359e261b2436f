"""Mistakes in a settings file: each with the key, what was found, what is allowed, and a hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import ErrorDetails

from hostler.config.forms import IN_WORDS
from hostler.errors import Problem
from hostler.telemetry.redact import looks_secret

SECRET_WORDS = ("token", "secret", "password", "passwd", "private_key", "api_key", "apikey")


def shown(value: object) -> str:
    """A found value as a person wrote it; shortened, and withheld where it may be a secret."""
    if isinstance(value, str) and looks_secret(value):
        return "something that looks like a secret (not shown)"
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def pasted_secrets(value: object, name: str = "") -> Iterator[Problem]:
    """Every text, wherever it stands, that looks like a token somebody pasted."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if looks_secret(str(key)):
                yield Problem(_dotted(name, "…"), shown(str(key)), "a name that is no secret")
            yield from pasted_secrets(inner, _dotted(name, str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from pasted_secrets(inner, name)
    elif isinstance(value, str) and looks_secret(value):
        allowed = "the name of a variable or of a file that holds it"
        yield Problem(name, shown(value), allowed)


def unknown_key(table: str, name: str, known: Iterable[str]) -> Problem:
    """A key that does not exist, with the nearest one that does. Its value is never shown."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    suggestion = f"Did you mean {near[0]}?" if near else ""
    if any(word in name.lower() for word in SECRET_WORDS) and name not in known:
        suggestion = (
            "Secrets do not belong in this file: name a variable (…_env) or a file (…_file)."
        )
    return Problem(_dotted(table, name), "an unknown key", ", ".join(known) or "none", suggestion)


def from_validation(table: str, details: ErrorDetails, known: Iterable[str]) -> Problem:
    """Translate one of pydantic's complaints."""
    path = [str(part) for part in details["loc"]]
    if details["type"] == "extra_forbidden" and len(path) == 1:
        return unknown_key(table, path[0], known)
    name = _dotted(table, *(part for part in path if not part.startswith(("literal[", "bool"))))
    if details["type"] == "missing":
        return Problem(name, "nothing", "this key is needed here")
    found = "something that is not shown" if _may_hold_secret(name) else shown(details["input"])
    return Problem(name, found, _allowed(details))


def _may_hold_secret(name: str) -> bool:
    """Keys into which people paste the secret itself instead of where it is."""
    last = name.rpartition(".")[2]
    return last.endswith(("_env", "_file", "_url")) or any(word in last for word in SECRET_WORDS)


def _dotted(*parts: str) -> str:
    return ".".join(part for part in parts if part)


_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text in quotes",
    "list_type": 'a list, as in ["a", "b"]',
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_LIMITS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} or less"),
    "string_too_long": ("max_length", "at most {} characters"),
    "string_too_short": ("min_length", "at least {} character(s)"),
    "literal_error": ("expected", "{}"),
}


def _allowed(details: ErrorDetails) -> str:
    context: Mapping[str, Any] = details.get("ctx") or {}
    if details["type"] == "string_pattern_mismatch":
        return IN_WORDS.get(context["pattern"], f"text that matches {context['pattern']}")
    if details["type"] in _LIMITS:
        name, template = _LIMITS[details["type"]]
        return template.format(context.get(name, "?"))
    return _TYPES.get(details["type"], details["msg"])
