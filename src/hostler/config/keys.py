"""How one key is declared: default, meaning, range, and whether a change needs a restart."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo


class Section(BaseModel):
    """A table of the settings file. Unknown keys and wrong types are mistakes, never guessed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def key(default: Any, meaning: str, *, restart: bool = False, **limits: Any) -> Any:
    """A key with its default. `restart`: a change takes effect only after a restart."""
    return Field(default, description=meaning, json_schema_extra={"restart": restart}, **limits)


def required(meaning: str, **limits: Any) -> Any:
    """A key that has no default. Its table comes and goes without a restart."""
    return Field(description=meaning, json_schema_extra={"restart": False}, **limits)


def many(meaning: str, *, restart: bool = False) -> Any:
    """A list that is empty by default."""
    extra: dict[str, Any] = {"restart": restart}
    return Field(default_factory=list, description=meaning, json_schema_extra=extra)


def needs_restart(field: FieldInfo) -> bool:
    """Whether a running service takes up a change of this key only after a restart."""
    extra = field.json_schema_extra
    return bool(extra.get("restart")) if isinstance(extra, dict) else False
