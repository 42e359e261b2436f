"""Prompts from template files. Foreign text goes in as quoted data, never as part of a template."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template

from hostler.telemetry.redact import redact

LONGEST_TEXT = 20_000
CUT = "(shortened)"


@cache
def _template(name: str) -> Template:
    return Template((files("hostler.flows") / "prompts" / f"{name}.md").read_text("utf-8"))


def render(name: str, **values: object) -> str:
    """A template with its values. Each is put in once and not looked at again."""
    return _template(name).substitute({key: str(value) for key, value in values.items()})


def quoted(heading: str, text: str) -> str:
    """Foreign text as data: its author above, every line marked, so that none can end the quote."""
    body = redact(text.replace("\0", ""))
    if len(body) > LONGEST_TEXT:
        body = f"{body[:LONGEST_TEXT]}\n{CUT}"
    lines = body.splitlines() or ["(no text)"]
    return "\n".join([f"<<< {' '.join(heading.split())}", *(f"| {line}" for line in lines), ">>>"])
