"""What `hostler doctor` asks of repositories' own prompts: can each be used?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hostler.checkouts.mirror import Mirror, head_of, place_of
from hostler.config import load
from hostler.config.settings import Repo
from hostler.errors import CheckoutError, ConfigError
from hostler.flows.templates import words_at
from hostler.health import Context, Finding, Status, check
from hostler.model import RepoName

PROMPTS = "flows.prompts"
# Without a base branch in the settings; which one is the default is not asked here.
USUAL = ("main", "master")
_REMEDY = "Mend it on the base branch, or remove it; until then ours is used."


@check(PROMPTS)
def prompts_can_be_used(context: Context) -> Iterator[Finding]:
    """Repositories' own prompts, as far as their mirrors have them."""
    try:
        settings = load(context.home, context.config_path).settings
    except ConfigError:
        return  # the check "settings" reports what is wrong
    for repo in settings.repo.values():
        yield from _findings(context.home / "mirrors", repo)


def _findings(mirrors: Path, repo: Repo) -> Iterator[Finding]:
    name = RepoName(repo.owner, repo.name)
    mirror = Mirror(place_of(mirrors, name), name)
    if not mirror.path.is_dir():
        return  # nothing is known of it yet
    try:
        branches = (repo.base_branch,) if repo.base_branch else USUAL
        tips = [head_of(mirror, f"refs/heads/{branch}") for branch in branches]
        tip = next((tip for tip in tips if tip is not None), None)
        if tip is None:
            yield Finding(PROMPTS, Status.SKIPPED, f"{name}: its base branch is not known here")
            return
        words = words_at(mirror, tip)
    except CheckoutError as error:
        yield Finding(PROMPTS, Status.WARNING, f"{name}: {error.what}", error.remedy)
        return
    for problem in words.problems:
        yield Finding(PROMPTS, Status.WARNING, f"{name}: {problem}", _REMEDY)
    if words.prompts.own and not words.problems:
        yield Finding(PROMPTS, Status.OK, f"{name}: {len(words.prompts.own)} of its own")
