"""What a repository says itself about prompts, on its base branch: templates, and a guide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from string import Template

from hostler.checkouts.mirror import Mirror
from hostler.checkouts.names import Sha
from hostler.flows.rendering import Prompts, ours

FOLDER = ".hostler/prompts/"
# The first that is there.
GUIDES = ("AGENTS.md", "CLAUDE.md")
# What agents and Hostler agreed on is not for repositories to change.
FIXED = frozenset({"contract", "contract_folder"})
LARGEST = 64 * 1024
_ENDING = ".md"
_FILES = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class RepoWords:
    """A repository's own prompts, its guide for agents, and what of that cannot be used."""

    prompts: Prompts = field(default_factory=Prompts)
    guide: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as a commit has it."""

    mode: str
    oid: str
    size: int
    path: str


class Unusable(Exception):
    """Why a template of a repository cannot stand in the place of ours."""


def words_at(mirror: Mirror, commit: Sha) -> RepoWords:
    """What the repository says at a commit of its base branch.

    It is read from the mirror: in the checkout, and on any other branch, whoever works there
    could write what agents are told.
    """
    git = mirror.git()
    asked = ("ls-tree", "-z", "--long", "--full-tree", commit, "--", FOLDER, *GUIDES)
    entries = list(_entries(git(*asked).items))
    own: dict[str, Template] = {}
    problems: list[str] = []
    for entry in entries:
        if not entry.path.startswith(FOLDER):
            continue
        try:
            name = name_of(entry)
            own[name] = accepted(name, git("cat-file", "blob", entry.oid).out)
        except Unusable as why:
            problems.append(f"{entry.path} {why}.".encode("utf-8", "replace").decode())
    return RepoWords(Prompts(own), guide_in(entry.path for entry in entries), tuple(problems))


def name_of(entry: Entry) -> str:
    """Which prompt of ours a file is to replace; raises before anything of it is read. Pure."""
    file = entry.path.removeprefix(FOLDER)
    name = file.removesuffix(_ENDING)
    if name == file or name not in ours():
        raise Unusable("replaces no prompt of ours")
    if name in FIXED:
        raise Unusable("is not for repositories to change")
    if entry.mode not in _FILES:
        raise Unusable("is no plain file")
    if entry.size > LARGEST:
        raise Unusable(f"has more than {LARGEST:,} bytes")
    return name


def accepted(name: str, data: bytes) -> Template:
    """A template that can stand in the place of ours. Pure."""
    try:
        template = Template(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise Unusable("is not UTF-8") from None
    if not template.template.strip():
        raise Unusable("is empty")
    if not template.is_valid():
        raise Unusable("has a $ that begins no placeholder (write $$ for the sign itself)")
    known = ours()[name].get_identifiers()
    unknown = [one for one in template.get_identifiers() if one not in known]
    if unknown:
        there = ", ".join(f"${one}" for one in known)
        raise Unusable(f"has the unknown placeholder ${unknown[0]} (there are: {there})")
    return template


def guide_in(paths: Iterable[str]) -> str:
    """The file that agents are to follow; empty where there is none. Pure."""
    there = set(paths)
    return next((name for name in GUIDES if name in there), "")


def _entries(listed: Iterable[str]) -> Iterator[Entry]:
    for line in listed:
        facts, _, path = line.partition("\t")
        mode, _kind, oid, size = facts.split()
        yield Entry(mode, oid, int(size) if size.isdigit() else 0, path)
