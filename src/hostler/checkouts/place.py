"""Where a task's checkout is, and which refs of the mirror are its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hostler.checkouts.mirror import Mirror
from hostler.checkouts.names import Sha, checked_branch, component

PUSHED = "refs/hostler/pushed/"
KEPT = "refs/hostler/kept/"


@dataclass(frozen=True, slots=True)
class Place:
    """A task's folder: `<checkouts>/<project>/<task>`."""

    checkouts: Path
    project: str
    task: str

    def __post_init__(self) -> None:
        component(self.project)
        component(self.task)

    @property
    def path(self) -> Path:
        return self.checkouts / self.project / self.task

    def ref(self, kind: str) -> str:
        """One of the task's own refs in the mirror."""
        return f"refs/hostler/{kind}/{self.project}/{self.task}"

    def kept_ref(self, commit: Sha) -> str:
        """The ref that keeps one piece of work after its checkout is gone."""
        return f"{self.ref('kept')}/{commit[:12]}"


@dataclass(frozen=True, slots=True)
class Checkout:
    """A task's checkout, its mirror and the branch that it works on."""

    place: Place
    mirror: Mirror
    branch: str

    def __post_init__(self) -> None:
        checked_branch(self.branch)

    @property
    def path(self) -> Path:
        return self.place.path

    def ref(self, kind: str) -> str:
        return self.place.ref(kind)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who commits."""

    name: str
    email: str

    def __post_init__(self) -> None:
        for text in (self.name, self.email):
            if not text.strip() or set(text) & set("<>\n\r\0"):
                raise ValueError(f"not usable as a committer's name or address: {text!r}")

    def as_variables(self) -> dict[str, str]:
        return {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", self.name), ("EMAIL", self.email))
        }
