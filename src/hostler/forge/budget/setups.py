"""The settings and the stored state, as the cost model wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostler.forge.budget.caps import Caps
from hostler.forge.budget.costs import USUAL_LIMIT, Plan, Setup, Watched, plan
from hostler.model import RepoName
from hostler.store.pull_requests import pulls_in

if TYPE_CHECKING:
    from hostler.config.settings import Settings
    from hostler.store.transaction import Transaction


def planned(settings: Settings, tx: Transaction | None, limit: int = USUAL_LIMIT) -> Plan:
    """What these settings cost; without a database, every repository is idle."""
    caps = Caps(percent=settings.github.budget_percent)
    return plan(watched(settings, tx), setup_of(settings), caps, limit)


def watched(settings: Settings, tx: Transaction | None) -> list[Watched]:
    """The repositories, and how many pull requests of each are followed."""
    found = []
    for repo in settings.repo.values():
        followed = pulls_in(tx, RepoName(repo.owner, repo.name)) if tx else []
        runs = repo.pr_actions_feedback_policy != "never"
        found.append(Watched(len(followed), runs))
    return found


def setup_of(settings: Settings) -> Setup:
    """What of the settings matters to the cost."""
    runtime, github = settings.runtime, settings.github
    return Setup(
        interval=float(runtime.poll_interval_seconds),
        idle_every=github.idle_feed_every_polls,
        in_turn=runtime.poll_cadence == "turn",
        threads=runtime.feeds == "threads",
        app=github.auth == "app" or (github.auth == "auto" and github.app_id > 0),
        # Tests may set it to nothing; a pause of ours is never shorter.
        between_writes=max(github.seconds_between_writes, 1.0),
    )
