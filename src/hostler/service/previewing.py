"""What a service would pick up now, and why it would leave the rest."""

from __future__ import annotations

from hostler.intake import Preview, open_issues, preview, watch
from hostler.model import RepoName
from hostler.service.house import House


def preview_of(house: House, project: str) -> list[Preview]:
    """The decisions about all open issues of a repository. Writes nothing."""
    repo = house.settings.repo[project]
    looked = open_issues(
        house.hub.repo(RepoName(repo.owner, repo.name)), eyes := watch(project, repo)
    )
    with house.store.read() as tx:
        return preview(tx, eyes, looked)
