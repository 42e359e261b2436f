"""Reading the fields of a JSON body with GitHub's complaints."""

from __future__ import annotations

from typing import Any

from hostler.sandbox.errors import invalid, unprocessable, wrong_type

BODY_LIMIT = 65_536


class Fields:
    """A JSON object that knows which resource it describes."""

    def __init__(self, resource: str, values: dict[str, Any]) -> None:
        self.resource = resource
        self.values = values

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(
        self, name: str, *, required: bool = False, limit: int = 0, null: bool = True
    ) -> str | None:
        """A string, or None where it is absent or null."""
        value = self.values.get(name)
        if value is None:
            if required:
                raise invalid(self.resource, name, "missing_field")
            if name in self.values and not null:
                raise wrong_type(name, value, "a string")
            return None
        if not isinstance(value, str):
            raise wrong_type(name, value, "a string")
        if required and not value.strip():
            raise invalid(self.resource, name, "missing_field")
        if limit and len(value) > limit:
            raise too_long(self.resource, name, limit)
        return value

    def body(self, name: str = "body", *, required: bool = False) -> str | None:
        """A text of at most 65,536 characters."""
        return self.text(name, required=required, limit=BODY_LIMIT)

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong_type(name, value, "a boolean")
        return value

    def number(self, name: str, *, required: bool = False) -> int | None:
        """An integer."""
        value = self.values.get(name)
        if value is None:
            if required:
                raise invalid(self.resource, name, "missing_field")
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(name, value, "an integer")
        return value

    def texts(self, name: str) -> list[str] | None:
        """A list of strings; a single string counts as a list of one."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            return [value]
        if not isinstance(value, list):
            raise wrong_type(name, value, "an array")
        for item in value:
            if not isinstance(item, str):
                raise wrong_type(f"{name}/items", item, "a string")
        return list(value)

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """One of a few words."""
        value = self.text(name)
        if value is not None and value not in allowed:
            raise invalid(self.resource, name, "invalid")
        return value


def too_long(resource: str, name: str, limit: int) -> Exception:
    """The answer to an overlong text."""
    message = f"{name} is too long (maximum is {limit} characters)"
    return unprocessable(
        "Validation Failed",
        [{"resource": resource, "field": name, "code": "custom", "message": message}],
    )
