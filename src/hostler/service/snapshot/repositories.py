"""Every watched repository at a glance: whether it is paused, and what goes on in it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hostler.config.settings import Settings
from hostler.service.places import paused_words
from hostler.service.snapshot.feeds import FeedRead
from hostler.service.snapshot.polls import PollLag
from hostler.store.operator import Pause


@dataclass(frozen=True, slots=True)
class Watched:
    """One repository. `paused`: what holds it back; empty: nothing does."""

    project: str
    repo: str
    paused: str
    in_settings: bool
    weight: int
    width: int
    at_work: int
    queued: int
    pulls: int
    feeds: tuple[FeedRead, ...] = ()
    lag: PollLag | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "project": self.project,
            "repo": self.repo,
            "paused": self.paused or None,
            "paused_in_settings": self.in_settings,
            "weight": self.weight,
            "max_concurrent_slots": self.width,
            "at_work": self.at_work,
            "queued": self.queued,
            "pulls": self.pulls,
            "feeds": [one.as_json() for one in self.feeds],
            "polls": self.lag.as_json() if self.lag else None,
        }


@dataclass(frozen=True, slots=True)
class Busy:
    """Projects, named once for each agent, task that waits, and pull request."""

    at_work: Iterable[str] = ()
    queued: Iterable[str] = ()
    pulls: Iterable[str] = ()


def watched_repositories(
    settings: Settings,
    paused: Mapping[str, Pause],
    busy: Busy,
    feeds: Mapping[str, tuple[FeedRead, ...]],
    lags: Mapping[str, PollLag],
) -> tuple[Watched, ...]:
    """Those of the settings, in their order."""
    at_work, queued, pulls = Counter(busy.at_work), Counter(busy.queued), Counter(busy.pulls)
    return tuple(
        Watched(
            project=project,
            repo=f"{repo.owner}/{repo.name}",
            paused=paused_words(project, paused, in_settings=repo.paused),
            in_settings=repo.paused,
            weight=repo.weight,
            width=repo.max_concurrent_slots,
            at_work=at_work[project],
            queued=queued[project],
            pulls=pulls[project],
            feeds=feeds.get(project, ()),
            lag=lags.get(project),
        )
        for project, repo in settings.repo.items()
    )
