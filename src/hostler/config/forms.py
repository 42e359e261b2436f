"""Forms of text that several keys share: the pattern, and how a person would say it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, StringConstraints
from pydantic_core import PydanticCustomError

_ENV = r"^([A-Za-z_][A-Za-z0-9_]*)?$"
_LOGIN = r"^[A-Za-z0-9](-?[A-Za-z0-9]){0,38}(\[bot\])?$"
_REPO = r"^[A-Za-z0-9._-]{1,100}$"
_URL = r"^https?://[^\s/?#@]+[^\s?#@]*$"
_POSTGRES = r"^(postgresql://\S+)?$"
_LISTEN = r"^((\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):\d{1,5})?$"
_DATE = r"^\d{4}-\d{2}-\d{2}$"

EnvName = Annotated[str, StringConstraints(pattern=_ENV)]
Login = Annotated[str, StringConstraints(pattern=_LOGIN)]
RepoSlug = Annotated[str, StringConstraints(pattern=_REPO)]
HttpUrl = Annotated[str, StringConstraints(pattern=_URL)]
PostgresUrl = Annotated[str, StringConstraints(pattern=_POSTGRES)]
Listen = Annotated[str, StringConstraints(pattern=_LISTEN)]
Date = Annotated[str, StringConstraints(pattern=_DATE)]


def _not_a_number(value: object) -> object:
    """Python takes 1 for True; a settings file does not."""
    if isinstance(value, int) and not isinstance(value, bool):
        expected = "true, false or 'shadow'"
        raise PydanticCustomError("literal_error", "not a switch", {"expected": expected})
    return value


Switch = Annotated[Literal[True, False, "shadow"], BeforeValidator(_not_a_number)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=50)]

IN_WORDS = {
    _ENV: "the name of an environment variable",
    _LOGIN: "a GitHub login",
    _REPO: "a GitHub repository name (letters, digits, '.', '_', '-')",
    _URL: "an http(s) address without query or user",
    _POSTGRES: "postgresql://user@host/name",
    _LISTEN: "host:port such as 127.0.0.1:8474",
    _DATE: "a date such as 2022-11-28",
}
