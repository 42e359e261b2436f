"""JSON responses and lines from which secrets are removed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from hostler.telemetry.redaction import contains_secret, redact


class RedactedJSONResponse(JSONResponse):
    """JSON in which no text has a secret."""

    def render(self, content: Any) -> bytes:
        """As JSON, looked through once; only where something is found, text by text."""
        body = super().render(content)
        return super().render(redact_value(content)) if contains_secret(body.decode()) else body


def dump_redacted(told: Mapping[str, Any]) -> str:
    """One line of JSON in ASCII, without secrets."""
    text = json.dumps(told)
    return json.dumps(redact_value(told)) if contains_secret(text) else text


def redact_value(value: Any) -> Any:
    """The same with secrets taken out of every text. In finished JSON, a shape could reach over
    the end of a text and take the quotes with it."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(name)): redact_value(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(one) for one in value]
    return value
