"""Remove secrets from JSON responses and events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from hostler.telemetry.redaction import contains_secret, redact


class RedactedJSONResponse(JSONResponse):
    """A JSON response without secrets."""

    def render(self, content: Any) -> bytes:
        """Encode as JSON. Redact each text only if the whole contains a secret."""
        body = super().render(content)
        return super().render(redact_value(content)) if contains_secret(body.decode()) else body


def dump_redacted(data: Mapping[str, Any]) -> str:
    """Return one line of ASCII JSON without secrets."""
    text = json.dumps(data)
    return json.dumps(redact_value(data)) if contains_secret(text) else text


def redact_value(value: Any) -> Any:
    """Redact every text in a value.

    Redacting encoded JSON instead could match across the end of a text and remove its quotes.
    """
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(name)): redact_value(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(one) for one in value]
    return value
