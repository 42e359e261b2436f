"""Which issues a text closes: "Fixes #7", "closes owner/name#7". Pure."""

from __future__ import annotations

import re

_WORDS = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+"
    r"(?P<repo>[A-Za-z0-9-]+/[A-Za-z0-9._-]+)?#(?P<number>[0-9]{1,9})\b",
    re.IGNORECASE,
)


def closed_by(text: str | None, full_name: str) -> list[int]:
    """The numbers of this repository's issues that a text closes, each once."""
    found = (
        int(match["number"])
        for match in _WORDS.finditer(text or "")
        if match["repo"] is None or match["repo"].lower() == full_name.lower()
    )
    return list(dict.fromkeys(found))
