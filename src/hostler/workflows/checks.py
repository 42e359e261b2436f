"""Checks of `hostler doctor`: can the prompts of each repository be used?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hostler.checkouts.mirror import Mirror, mirror_path, read_mirror_ref
from hostler.config.loader import load_settings
from hostler.config.settings import Repo
from hostler.errors import CheckoutError, ConfigError
from hostler.health import CheckContext, CheckStatus, Finding, check
from hostler.model import RepoName
from hostler.workflows.templates import read_repo_prompts

CHECK_NAME = "flows.prompts"
# Without a base branch in the settings; which one is the default is not asked here.
DEFAULT_BRANCHES = ("main", "master")
_REMEDY = "Mend it on the base branch, or remove it; until then ours is used."


@check(CHECK_NAME)
def check_repo_prompts(context: CheckContext) -> Iterator[Finding]:
    """Repositories' own prompts, as far as their mirrors have them."""
    try:
        settings = load_settings(context.home, context.config_path).settings
    except ConfigError:
        return  # the check "settings" reports what is wrong
    for repo in settings.repo.values():
        yield from _findings(context.home / "mirrors", repo)


def _findings(mirrors: Path, repo: Repo) -> Iterator[Finding]:
    name = RepoName(repo.owner, repo.name)
    mirror = Mirror(mirror_path(mirrors, name), name)
    if not mirror.path.is_dir():
        return  # nothing is known of it yet
    try:
        branches = (repo.base_branch,) if repo.base_branch else DEFAULT_BRANCHES
        tips = [read_mirror_ref(mirror, f"refs/heads/{branch}") for branch in branches]
        tip = next((tip for tip in tips if tip is not None), None)
        if tip is None:
            yield Finding(
                CHECK_NAME, CheckStatus.SKIPPED, f"{name}: its base branch is not known here"
            )
            return
        words = read_repo_prompts(mirror, tip)
    except CheckoutError as error:
        yield Finding(CHECK_NAME, CheckStatus.WARNING, f"{name}: {error.what}", error.remedy)
        return
    for problem in words.problems:
        yield Finding(CHECK_NAME, CheckStatus.WARNING, f"{name}: {problem}", _REMEDY)
    if words.prompts.own and not words.problems:
        yield Finding(CHECK_NAME, CheckStatus.OK, f"{name}: {len(words.prompts.own)} of its own")
