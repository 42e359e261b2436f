"""Prompt templates: the built-in ones, and those of a repository on its base branch.

Text from outside is inserted as quoted data and never parsed as a template.
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
# Anyone who can push a branch or a workflow chooses the names of jobs and paths.
MAX_NAME_LENGTH = 200
_QUOTE_MARKS = re.compile("<{2,}|>{2,}")
_SUFFIX = ".md"


@cache
def builtin_templates() -> Mapping[str, Template]:
    """Return the built-in templates by name."""
    folder = files("hostler.workflows") / "prompts"
    found = [file for file in folder.iterdir() if file.name.endswith(_SUFFIX)]
    return {file.name.removesuffix(_SUFFIX): Template(file.read_text("utf-8")) for file in found}


@dataclass(frozen=True, slots=True)
class PromptTemplates:
    """Templates by name: the repository's own if it has a usable one, else the built-in one."""

    own: Mapping[str, Template] = field(default_factory=dict)

    def render(self, name: str, **values: object) -> str:
        """Return a template with its values. Inserted values are not expanded again."""
        template = self.own.get(name) or builtin_templates()[name]
        return template.substitute({key: str(value) for key, value in values.items()})


def quote_name(text: str) -> str:
    """Return a name from outside for use in a heading: quoted, on one line, and shortened."""
    plain = " ".join(text.replace('"', "'").split())
    return f'"{plain[:MAX_NAME_LENGTH]}"'


def quote_text(heading: str, text: str) -> str:
    """Return text from outside as a quote: heading first, and each line marked.

    The marks prevent the text from ending the quote.
    """
    body = redact(text.replace("\0", ""))
    if len(body) > MAX_QUOTE_LENGTH:
        body = f"{body[:MAX_QUOTE_LENGTH]}\n{SHORTENED}"
    lines = body.splitlines() or ["(no text)"]
    return "\n".join([f"<<< {_one_line(heading)}", *(f"| {line}" for line in lines), ">>>"])


def _one_line(heading: str) -> str:
    """Return the heading on one line, without what looks like the start or end of a quote."""
    plain = "".join(one if one.isprintable() else " " for one in redact(heading))
    return " ".join(_QUOTE_MARKS.sub(lambda found: " ".join(found[0]), plain).split())


PROMPTS_FOLDER = ".hostler/prompts/"
# The first one that exists is used.
GUIDES = ("AGENTS.md", "CLAUDE.md")
# Repositories cannot change the rules between agents and Hostler.
FIXED_TEMPLATES = frozenset({"contract", "contract_folder"})
MAX_TEMPLATE_BYTES = 64 * 1024
_TEMPLATE_SUFFIX = ".md"
_FILE_MODES = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class RepoPrompts:
    """A repository's own templates, its guide for agents, and why templates are unusable."""

    prompts: PromptTemplates = field(default_factory=PromptTemplates)
    guide: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file in a commit."""

    mode: str
    oid: str
    size: int
    path: str


class UnusableTemplate(Exception):
    """Why a repository's template cannot replace the built-in one."""


def read_repo_prompts(mirror: Mirror, commit: Sha) -> RepoPrompts:
    """Read the repository's templates at a commit of its base branch.

    They are read from the mirror: agents can write to the checkout and to other branches, but must
    not be able to change what later agents are told.
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
    """Return the prompt that a file replaces; raise before its content is read."""
    file = entry.path.removeprefix(PROMPTS_FOLDER)
    name = file.removesuffix(_TEMPLATE_SUFFIX)
    if name == file or name not in builtin_templates():
        raise UnusableTemplate("does not replace a built-in prompt")
    if name in FIXED_TEMPLATES:
        raise UnusableTemplate("cannot be changed by a repository")
    if entry.mode not in _FILE_MODES:
        raise UnusableTemplate("is not a regular file")
    if entry.size > MAX_TEMPLATE_BYTES:
        raise UnusableTemplate(f"has more than {MAX_TEMPLATE_BYTES:,} bytes")
    return name


def parse_template(name: str, data: bytes) -> Template:
    """Parse a template that can replace the built-in one."""
    try:
        template = Template(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise UnusableTemplate("is not UTF-8") from None
    if not template.template.strip():
        raise UnusableTemplate("is empty")
    if not template.is_valid():
        raise UnusableTemplate("has a $ that starts no placeholder (write $$ for a dollar sign)")
    known = builtin_templates()[name].get_identifiers()
    unknown = [one for one in template.get_identifiers() if one not in known]
    if unknown:
        there = ", ".join(f"${one}" for one in known)
        raise UnusableTemplate(f"has the unknown placeholder ${unknown[0]} (known: {there})")
    return template


def find_guide(paths: Iterable[str]) -> str:
    """Return the guide file that agents should follow; empty if there is none."""
    there = set(paths)
    return next((name for name in GUIDES if name in there), "")


def _parse_entries(listed: Iterable[str]) -> Iterator[TreeEntry]:
    for line in listed:
        facts, _, path = line.partition("\t")
        mode, _kind, oid, size = facts.split()
        yield TreeEntry(mode, oid, int(size) if size.isdigit() else 0, path)
