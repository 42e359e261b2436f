"""Checks of `hostler doctor`: are the prompt templates of each repository usable?"""

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
# Tried if the settings name no base branch: the check does not query GitHub.
DEFAULT_BRANCHES = ("main", "master")
_REMEDY = "Fix it on the base branch, or remove it. Until then the built-in template is used."


@check(CHECK_NAME)
def check_repo_prompts(context: CheckContext) -> Iterator[Finding]:
    """Check repositories' own prompt templates, as far as their mirrors have them."""
    try:
        settings = load_settings(context.home, context.config_path).settings
    except ConfigError:
        return  # The check "settings" reports what is wrong.
    for repo in settings.repo.values():
        yield from _findings(context.home / "mirrors", repo)


def _findings(mirrors: Path, repo: Repo) -> Iterator[Finding]:
    name = RepoName(repo.owner, repo.name)
    mirror = Mirror(mirror_path(mirrors, name), name)
    if not mirror.path.is_dir():
        return  # There is no mirror yet.
    try:
        branches = (repo.base_branch,) if repo.base_branch else DEFAULT_BRANCHES
        tips = [read_mirror_ref(mirror, f"refs/heads/{branch}") for branch in branches]
        tip = next((tip for tip in tips if tip is not None), None)
        if tip is None:
            yield Finding(
                CHECK_NAME, CheckStatus.SKIPPED, f"{name}: its base branch is not in the mirror yet"
            )
            return
        repo_prompts = read_repo_prompts(mirror, tip)
    except CheckoutError as error:
        yield Finding(CHECK_NAME, CheckStatus.WARNING, f"{name}: {error.what}", error.remedy)
        return
    for problem in repo_prompts.problems:
        yield Finding(CHECK_NAME, CheckStatus.WARNING, f"{name}: {problem}", _REMEDY)
    if repo_prompts.prompts.own and not repo_prompts.problems:
        yield Finding(
            CHECK_NAME, CheckStatus.OK, f"{name}: {len(repo_prompts.prompts.own)} custom templates"
        )
