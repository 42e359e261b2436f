"""Who there is and what they will say, read from the files in `data/`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

MAINTAINER, REVIEWER, STRANGER, BOT = "ada", "grace", "mallory", "stablehand"
ALLOWED = (MAINTAINER, REVIEWER)
OWNER = "tidewater"
LABELS = ("agent:design", "agent:bugfix", "agent:small-job", "agent:ignore")
DATA = files("hostler.cli.demo") / "data"


@dataclass(frozen=True, slots=True)
class Project:
    """A repository: its files, what its tests are, and which agent works there."""

    name: str
    description: str
    tests: tuple[str, ...]
    agent: str
    files: Mapping[str, str]

    @property
    def short(self) -> str:
        """Its name without its owner."""
        return self.name.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Filing:
    """An issue that somebody will file."""

    repo: str
    author: str
    title: str
    label: str
    body: str


@dataclass(frozen=True, slots=True)
class Review:
    """A comment on the line that holds `near`: its first words, and what they are edited to."""

    issue: str
    path: str
    near: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered when an agent asks about this issue."""

    issue: str
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    """Everything that is known before the story begins."""

    projects: tuple[Project, ...]
    filings: tuple[Filing, ...]
    reviews: tuple[Review, ...]
    answers: tuple[Answer, ...]


def load_plot() -> Plot:
    """The plot that comes with Hostler."""
    said = _toml("story.toml")
    return Plot(
        projects=tuple(_project(f"repos/{name}.toml") for name in ("almanac", "tide-table")),
        filings=tuple(Filing(**one) for one in said["issue"]),
        reviews=tuple(Review(**one | {"words": tuple(one["words"])}) for one in said["review"]),
        answers=tuple(Answer(**one) for one in said["answer"]),
    )


def script_of(agent: str) -> str:
    """The script that an agent plays."""
    return (DATA / "agents" / f"{agent}.toml").read_text(encoding="utf-8")


def seed(plot: Plot) -> dict[str, Any]:
    """The sandbox before anybody acts; the repositories are still empty."""
    access = {MAINTAINER: "admin", REVIEWER: "write", BOT: "write", STRANGER: "triage"}
    return {
        "users": [
            {"login": OWNER, "type": "Organization", "members": [MAINTAINER]},
            *({"login": login} for login in access),
        ],
        "repos": [
            {
                "name": project.name,
                "description": project.description,
                "auto_init": False,
                "collaborators": access,
                "labels": list(LABELS),
            }
            for project in plot.projects
        ],
    }


def _project(path: str) -> Project:
    read = _toml(path)
    return Project(**read | {"tests": tuple(read["tests"])})


def _toml(path: str) -> dict[str, Any]:
    return tomllib.loads(DATA.joinpath(path).read_text(encoding="utf-8"))
