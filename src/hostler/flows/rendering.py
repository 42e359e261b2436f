"""Prompts from template files. Foreign text goes in as quoted data, never as part of a template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from string import Template

from hostler.telemetry.redact import redact

LONGEST_TEXT = 20_000
CUT = "(shortened)"
# Names of jobs and paths are chosen by whoever may write a workflow or a branch.
LONGEST_NAME = 200
_MARKS = re.compile("<{2,}|>{2,}")
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


def named(text: str) -> str:
    """A foreign name within a heading: in quotes that it cannot end, and not long."""
    plain = " ".join(text.replace('"', "'").split())
    return f'"{plain[:LONGEST_NAME]}"'


def quoted(heading: str, text: str) -> str:
    """Foreign text as data: its author above, every line marked, so that none can end the quote."""
    body = redact(text.replace("\0", ""))
    if len(body) > LONGEST_TEXT:
        body = f"{body[:LONGEST_TEXT]}\n{CUT}"
    lines = body.splitlines() or ["(no text)"]
    return "\n".join([f"<<< {_one_line(heading)}", *(f"| {line}" for line in lines), ">>>"])


def _one_line(heading: str) -> str:
    """Without what looks like the beginning or the end of a quote."""
    plain = "".join(one if one.isprintable() else " " for one in redact(heading))
    return " ".join(_MARKS.sub(lambda found: " ".join(found[0]), plain).split())
