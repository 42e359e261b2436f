"""What a pull request's state means. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
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
    """How many reviewers approve; none counts while anybody asks for changes.

    The reviews are those of people who may write: what others say weighs nothing.
    """
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
    issue: Issue, pull: Pull, repo: Repo, *, sha: str | None, method: str, lacking: str
) -> Refusal | None:
    """Why this merge must not be tried; None where it may. `lacking` is what the base asks for."""
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
    return Refusal(405, lacking) if lacking else None


def lacking_approvals(wanted: int, given: int) -> str:
    """What is said where approvals are lacking; nothing where they are not."""
    if given >= wanted:
        return ""
    reviews = "review is" if wanted == 1 else "reviews are"
    return f"At least {wanted} approving {reviews} required by reviewers with write access."


def lacking_checks(wanted: Sequence[str], passed: Set[str], known: Set[str]) -> str:
    """What is said where checks are lacking; nothing where they are not."""
    missing = [name for name in wanted if name not in passed]
    if not missing:
        return ""
    if len(missing) > 1:
        return f"{len(missing)} of {len(wanted)} required status checks have not succeeded."
    state = "has not succeeded" if missing[0] in known else "is expected"
    return f'Required status check "{missing[0]}" {state}.'


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
