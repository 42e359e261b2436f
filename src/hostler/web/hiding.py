"""Answers without secrets: what we know to be one leaves by no door."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from hostler.telemetry.redact import finds_secret, redact


class Answer(JSONResponse):
    """JSON in which no text has a secret."""

    def render(self, content: Any) -> bytes:
        """As JSON, looked through once; only where something is found, text by text."""
        body = super().render(content)
        return super().render(hidden(content)) if finds_secret(body.decode()) else body


def dumped(told: Mapping[str, Any]) -> str:
    """One line of JSON in ASCII, without secrets."""
    text = json.dumps(told)
    return json.dumps(hidden(told)) if finds_secret(text) else text


def hidden(value: Any) -> Any:
    """The same with secrets taken out of every text. In finished JSON, a shape could reach over
    the end of a text and take the quotes with it."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(name)): hidden(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [hidden(one) for one in value]
    return value
