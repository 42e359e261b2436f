"""What a pull request's state means. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hostler.sandbox.entities import Issue, Repo
from hostler.sandbox.pull_entities import Pull, Review

METHODS = ("merge", "squash", "rebase")
_VERDICTS = {"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a merge is not done: GitHub's status and words."""

    status: int
    message: str


def options(repo: Repo) -> dict[str, bool]:
    """A repository's switches."""
    return dict(repo.options)


def approvals(reviews: Iterable[Review]) -> int:
    """How many reviewers approve; none counts while anybody asks for changes."""
    last: dict[str, str] = {}
    for review in reviews:
        if review.state in _VERDICTS:
            last[review.user.lower()] = review.state
    verdicts = list(last.values())
    return 0 if "CHANGES_REQUESTED" in verdicts else verdicts.count("APPROVED")


def mergeable_state(issue: Issue, pull: Pull, *, blocked: bool, failing: bool) -> str:
    """GitHub's one word for how near a pull request is to being merged."""
    if pull.mergeable is None or issue.state == "closed":
        return "unknown"
    if not pull.mergeable:
        return "dirty"
    if issue.pull and issue.pull.draft:
        return "draft"
    if blocked:
        return "blocked"
    return "unstable" if failing else "clean"


def refuse_merge(
    issue: Issue, pull: Pull, repo: Repo, *, sha: str | None, method: str, blocked: bool
) -> Refusal | None:
    """Why this merge must not be tried; None where it may."""
    if pull.merged_at is not None or issue.state == "closed":
        return Refusal(405, "Pull Request is not mergeable")
    if issue.pull and issue.pull.draft:
        return Refusal(405, "Pull Request is still a draft")
    if sha is not None and sha != pull.head_sha:
        return Refusal(409, "Head branch was modified. Review and try the merge again.")
    names = {"merge": "allow_merge_commit", "squash": "allow_squash_merge"}
    if not options(repo).get(names.get(method, "allow_rebase_merge"), True):
        title = "Merge commits" if method == "merge" else f"{method.capitalize()} merges"
        return Refusal(405, f"{title} are not allowed on this repository.")
    if blocked:
        return Refusal(
            405, "At least 1 approving review is required by reviewers with write access."
        )
    return None


def merge_message(
    issue: Issue, pull: Pull, method: str, title: str | None, text: str | None, log: list[str]
) -> str:
    """The words of the commit that a merge makes."""
    if method == "squash":
        shown = "\n\n".join(f"* {message}" for message in log) if len(log) > 1 else ""
        first, rest = f"{issue.title} (#{issue.number})", shown
    else:
        where = f"{pull.head_owner}/{pull.head_ref}"
        first, rest = f"Merge pull request #{issue.number} from {where}", issue.title
    first = first if title is None else title
    rest = rest if text is None else text
    return f"{first}\n\n{rest}\n" if rest else f"{first}\n"
