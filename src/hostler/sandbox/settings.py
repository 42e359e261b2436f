"""What can be tuned while the sandbox runs, checked field by field."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


class BadInput(ValueError):
    """A control request or file is wrong; names the field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


@dataclass
class Settings:
    """GitHub's limits by default; 0 switches a limit off."""

    primary_limit: int = 5000
    anonymous_limit: int = 60
    installation_limit: int = 5000
    concurrent_limit: int = 100
    points_per_minute: int = 900
    creations_per_minute: int = 80
    creations_per_hour: int = 500
    missing_per_minute: int = 0
    primary_shape: int = 403
    secondary_shape: int = 403
    secondary_retry_after: int = 60
    visibility_delay: float = 0.0
    id_strategy: str = "sequence"
    max_items: int = 10_000
    git_idle_seconds: float = 60.0

    def change(self, values: dict[str, Any]) -> None:
        """Set several fields, or none if one is wrong."""
        checked = {name: self._checked(name, value) for name, value in values.items()}
        for name, value in checked.items():
            setattr(self, name, value)

    def as_dict(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    def _checked(self, name: str, value: Any) -> Any:
        known = {field.name: field for field in fields(self)}
        if name not in known:
            raise BadInput(name, f"unknown setting; there are {', '.join(sorted(known))}")
        if name == "id_strategy":
            return _one_of(name, value, ("sequence", "random"))
        if name.endswith("_shape"):
            return _one_of(name, value, (403, 429))
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise BadInput(name, "must be a number from 0 up")
        if name not in ("visibility_delay", "git_idle_seconds") and not isinstance(value, int):
            raise BadInput(name, "must be a whole number")
        return value


def _one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed or isinstance(value, bool):
        raise BadInput(name, f"must be one of {', '.join(map(str, allowed))}")
    return value
