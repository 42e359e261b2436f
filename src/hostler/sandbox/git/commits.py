"""Read commits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from hostler.sandbox.git.errors import NoSuchObject
from hostler.sandbox.git.process import Person
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.moments import sayable

_FIELDS = ("%H", "%T", "%P", "%an", "%ae", "%at", "%cn", "%ce", "%ct", "%B")
# NUL is the one character that no name and no message can hold.
_FORMAT = ("-z", "--format=" + "%x00".join(_FIELDS))


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit as git stores it."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    committer: Person
    message: str

    @property
    def title(self) -> str:
        return self.message.split("\n", 1)[0]


@dataclass(frozen=True, slots=True)
class History:
    """Which commits to list, newest first."""

    start: str
    exclude: tuple[str, ...] = ()
    path: str = ""
    author: str = ""
    since: datetime | None = None
    until: datetime | None = None
    skip: int = 0
    count: int = 0


async def log(repo: Repository, wanted: History) -> list[Commit]:
    """The commits of a history, newest first."""
    about = (wanted.start, *wanted.exclude)
    shown = await repo.read("log", *_FORMAT, *_arguments(wanted), about=about, accept=(0, 128))
    if shown.code:
        raise NoSuchObject(wanted.start)
    return parse(shown.text)


def _arguments(wanted: History) -> list[str]:
    args = [f"--skip={wanted.skip}"] if wanted.skip else []
    args += [f"--max-count={wanted.count}"] if wanted.count else []
    args += [f"--author={wanted.author}", "--fixed-strings"] if wanted.author else []
    args += [f"--since={_exactly(wanted.since)}"] if wanted.since else []
    args += [f"--until={_exactly(wanted.until)}"] if wanted.until else []
    args += ["--end-of-options", wanted.start, *(f"^{sha}" for sha in wanted.exclude)]
    return [*args, "--", wanted.path] if wanted.path else [*args, "--"]


def _exactly(moment: datetime) -> str:
    """A moment in the one form that git does not guess at."""
    return f"@{int(moment.timestamp())} +0000"


async def count(repo: Repository, wanted: History) -> int:
    """How many commits a history has."""
    args = _arguments(wanted)
    about = (wanted.start, *wanted.exclude)
    return int((await repo.read("rev-list", "--count", *args, about=about)).text)


async def get(repo: Repository, sha: str) -> Commit:
    """One commit by its sha."""
    found = await log(repo, History(sha, count=1))
    if not found:
        raise NoSuchObject(sha)
    return found[0]


def parse(text: str) -> list[Commit]:
    """Commits from our log format."""
    fields, size = text.split("\0"), len(_FIELDS)
    return [_commit(fields[at : at + size]) for at in range(0, len(fields) - 1, size)]


def _commit(fields: list[str]) -> Commit:
    sha, tree, parents, name, email, when, by_name, by_email, by_when, message = fields
    author = Person(name, email, _moment(when))
    committer = Person(by_name, by_email, _moment(by_when))
    return Commit(sha, tree, tuple(parents.split()), author, committer, message.rstrip("\n"))


def _moment(seconds: str) -> datetime:
    """A commit's time; git keeps any number, so beyond the calendar the nearest day of it."""
    return datetime.fromtimestamp(sayable(int(seconds or 0)), UTC)
