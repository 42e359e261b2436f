"""Prompts from template files. Foreign text goes in as quoted data, never as part of a template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from string import Template

from hostler.telemetry.redact import redact

LONGEST_TEXT = 20_000
CUT = "(shortened)"
_ENDING = ".md"


@cache
def ours() -> Mapping[str, Template]:
    """Our own templates, by name."""
    folder = files("hostler.flows") / "prompts"
    found = [file for file in folder.iterdir() if file.name.endswith(_ENDING)]
    return {file.name.removesuffix(_ENDING): Template(file.read_text("utf-8")) for file in found}


@dataclass(frozen=True, slots=True)
class Prompts:
    """Templates by name: a repository's own where it has one that can be used, else ours."""

    own: Mapping[str, Template] = field(default_factory=dict)

    def render(self, name: str, **values: object) -> str:
        """A template with its values. Each is put in once and not looked at again."""
        template = self.own.get(name) or ours()[name]
        return template.substitute({key: str(value) for key, value in values.items()})


def quoted(heading: str, text: str) -> str:
    """Foreign text as data: its author above, every line marked, so that none can end the quote."""
    body = redact(text.replace("\0", ""))
    if len(body) > LONGEST_TEXT:
        body = f"{body[:LONGEST_TEXT]}\n{CUT}"
    lines = body.splitlines() or ["(no text)"]
    return "\n".join([f"<<< {' '.join(heading.split())}", *(f"| {line}" for line in lines), ">>>"])
