"""Prompt templates: the built-in ones, and those of a repository on its base branch.

Foreign text goes in as quoted data, never as part of a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from string import Template

from hostler.checkouts.mirror import Mirror
from hostler.checkouts.names import Sha
from hostler.telemetry.redaction import redact

MAX_QUOTE_LENGTH = 20_000
SHORTENED = "(shortened)"
# Names of jobs and paths are chosen by whoever may write a workflow or a branch.
MAX_NAME_LENGTH = 200
_QUOTE_MARKS = re.compile("<{2,}|>{2,}")
_SUFFIX = ".md"


@cache
def builtin_templates() -> Mapping[str, Template]:
    """Our own templates, by name."""
    folder = files("hostler.workflows") / "prompts"
    found = [file for file in folder.iterdir() if file.name.endswith(_SUFFIX)]
    return {file.name.removesuffix(_SUFFIX): Template(file.read_text("utf-8")) for file in found}


@dataclass(frozen=True, slots=True)
class PromptTemplates:
    """Templates by name: a repository's own where it has one that can be used, else ours."""

    own: Mapping[str, Template] = field(default_factory=dict)

    def render(self, name: str, **values: object) -> str:
        """A template with its values. Each is put in once and not looked at again."""
        template = self.own.get(name) or builtin_templates()[name]
        return template.substitute({key: str(value) for key, value in values.items()})


def quote_name(text: str) -> str:
    """A foreign name within a heading: in quotes that it cannot end, and not long."""
    plain = " ".join(text.replace('"', "'").split())
    return f'"{plain[:MAX_NAME_LENGTH]}"'


def quote_text(heading: str, text: str) -> str:
    """Foreign text as data: its author above, every line marked, so that none can end the quote."""
    body = redact(text.replace("\0", ""))
    if len(body) > MAX_QUOTE_LENGTH:
        body = f"{body[:MAX_QUOTE_LENGTH]}\n{SHORTENED}"
    lines = body.splitlines() or ["(no text)"]
    return "\n".join([f"<<< {_one_line(heading)}", *(f"| {line}" for line in lines), ">>>"])


def _one_line(heading: str) -> str:
    """Without what looks like the beginning or the end of a quote."""
    plain = "".join(one if one.isprintable() else " " for one in redact(heading))
    return " ".join(_QUOTE_MARKS.sub(lambda found: " ".join(found[0]), plain).split())


PROMPTS_FOLDER = ".hostler/prompts/"
# The first that is there.
GUIDES = ("AGENTS.md", "CLAUDE.md")
# What agents and Hostler agreed on is not for repositories to change.
FIXED_TEMPLATES = frozenset({"contract", "contract_folder"})
MAX_TEMPLATE_BYTES = 64 * 1024
_TEMPLATE_SUFFIX = ".md"
_FILE_MODES = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class RepoPrompts:
    """A repository's own prompts, its guide for agents, and what of that cannot be used."""

    prompts: PromptTemplates = field(default_factory=PromptTemplates)
    guide: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file as a commit has it."""

    mode: str
    oid: str
    size: int
    path: str


class UnusableTemplate(Exception):
    """Why a template of a repository cannot stand in the place of ours."""


def read_repo_prompts(mirror: Mirror, commit: Sha) -> RepoPrompts:
    """What the repository says at a commit of its base branch.

    It is read from the mirror: in the checkout, and on any other branch, whoever works there
    could write what agents are told.
    """
    git = mirror.git()
    asked = ("ls-tree", "-z", "--long", "--full-tree", commit, "--", PROMPTS_FOLDER, *GUIDES)
    entries = list(_parse_entries(git(*asked).items))
    own: dict[str, Template] = {}
    problems: list[str] = []
    for entry in entries:
        if not entry.path.startswith(PROMPTS_FOLDER):
            continue
        try:
            name = template_name(entry)
            own[name] = parse_template(name, git("cat-file", "blob", entry.oid).out)
        except UnusableTemplate as why:
            problems.append(f"{entry.path} {why}.".encode("utf-8", "replace").decode())
    return RepoPrompts(
        PromptTemplates(own), find_guide(entry.path for entry in entries), tuple(problems)
    )


def template_name(entry: TreeEntry) -> str:
    """Which prompt of ours a file is to replace; raises before anything of it is read. Pure."""
    file = entry.path.removeprefix(PROMPTS_FOLDER)
    name = file.removesuffix(_TEMPLATE_SUFFIX)
    if name == file or name not in builtin_templates():
        raise UnusableTemplate("replaces no prompt of ours")
    if name in FIXED_TEMPLATES:
        raise UnusableTemplate("is not for repositories to change")
    if entry.mode not in _FILE_MODES:
        raise UnusableTemplate("is no plain file")
    if entry.size > MAX_TEMPLATE_BYTES:
        raise UnusableTemplate(f"has more than {MAX_TEMPLATE_BYTES:,} bytes")
    return name


def parse_template(name: str, data: bytes) -> Template:
    """A template that can stand in the place of ours. Pure."""
    try:
        template = Template(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise UnusableTemplate("is not UTF-8") from None
    if not template.template.strip():
        raise UnusableTemplate("is empty")
    if not template.is_valid():
        raise UnusableTemplate("has a $ that begins no placeholder (write $$ for the sign itself)")
    known = builtin_templates()[name].get_identifiers()
    unknown = [one for one in template.get_identifiers() if one not in known]
    if unknown:
        there = ", ".join(f"${one}" for one in known)
        raise UnusableTemplate(f"has the unknown placeholder ${unknown[0]} (there are: {there})")
    return template


def find_guide(paths: Iterable[str]) -> str:
    """The file that agents are to follow; empty where there is none. Pure."""
    there = set(paths)
    return next((name for name in GUIDES if name in there), "")


def _parse_entries(listed: Iterable[str]) -> Iterator[TreeEntry]:
    for line in listed:
        facts, _, path = line.partition("\t")
        mode, _kind, oid, size = facts.split()
        yield TreeEntry(mode, oid, int(size) if size.isdigit() else 0, path)
