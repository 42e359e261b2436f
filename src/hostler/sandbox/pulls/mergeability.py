"""Whether a pull request can be merged.

GitHub finds out in the background, and so does the sandbox: the first reader after a push gets
"unknown" and starts the check; the next one waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from hostler.sandbox.auth import AppRegistration, Identity, Installation
from hostler.sandbox.ci.entities import FAILURES, CheckRun, CommitStatus
from hostler.sandbox.git import commits, refs
from hostler.sandbox.git.commits import Merge
from hostler.sandbox.git.errors import MergeConflict
from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.pulls.entities import Protection, PullRequest, Review
from hostler.sandbox.state.entities import Issue, Repo
from hostler.sandbox.state.tables import Tables
from hostler.sandbox.state.world import World, host_signature

MERGE_METHODS = ("merge", "squash", "rebase")
_VERDICTS = {"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}


@dataclass(frozen=True, slots=True)
class MergeRefusal:
    """Why a merge is refused: GitHub's status and message."""

    status: int
    message: str


def repo_options(repo: Repo) -> dict[str, bool]:
    """Return a repository's merge options."""
    return dict(repo.options)


def _count_approvals(reviews: Iterable[Review]) -> int:
    """Return how many reviewers approve; 0 while any reviewer asks for changes.

    The reviews are those of people who may write: what others say weighs nothing.
    """
    last: dict[str, str] = {}
    for review in reviews:
        if review.state in _VERDICTS:
            last[review.user.lower()] = review.state
    verdicts = list(last.values())
    return 0 if "CHANGES_REQUESTED" in verdicts else verdicts.count("APPROVED")


def _describe_state(issue: Issue, pull: PullRequest, *, blocked: bool, failing: bool) -> str:
    """Return GitHub's `mergeable_state`."""
    if pull.mergeable is None or issue.state == "closed":
        return "unknown"
    if not pull.mergeable:
        return "dirty"
    if issue.pull and issue.pull.draft:
        return "draft"
    if blocked:
        return "blocked"
    return "unstable" if failing else "clean"


def merge_refusal(
    issue: Issue, pull: PullRequest, repo: Repo, *, sha: str | None, method: str, lacking: str
) -> MergeRefusal | None:
    """Return why this merge is refused, or None. `lacking` is the base's unmet requirement."""
    if pull.merged_at is not None or issue.state == "closed":
        return MergeRefusal(405, "Pull Request is not mergeable")
    if issue.pull and issue.pull.draft:
        return MergeRefusal(405, "Pull Request is still a draft")
    if sha is not None and sha != pull.head_sha:
        return MergeRefusal(409, "Head branch was modified. Review and try the merge again.")
    names = {"merge": "allow_merge_commit", "squash": "allow_squash_merge"}
    if not repo_options(repo).get(names.get(method, "allow_rebase_merge"), True):
        title = "Merge commits" if method == "merge" else f"{method.capitalize()} merges"
        return MergeRefusal(405, f"{title} are not allowed on this repository.")
    return MergeRefusal(405, lacking) if lacking else None


def _missing_approvals(wanted: int, given: int) -> str:
    """Return the message if approvals are missing, else an empty text."""
    if given >= wanted:
        return ""
    reviews = "review is" if wanted == 1 else "reviews are"
    return f"At least {wanted} approving {reviews} required by reviewers with write access."


def _missing_checks(wanted: Sequence[str], passed: Set[str], known: Set[str]) -> str:
    """Return the message if checks are missing, else an empty text."""
    missing = [name for name in wanted if name not in passed]
    if not missing:
        return ""
    if len(missing) > 1:
        return f"{len(missing)} of {len(wanted)} required status checks have not succeeded."
    state = "has not succeeded" if missing[0] in known else "is expected"
    return f'Required status check "{missing[0]}" {state}.'


def merge_message(
    issue: Issue,
    pull: PullRequest,
    method: str,
    title: str | None,
    text: str | None,
    log: list[str],
) -> str:
    """Return the message of a merge commit."""
    if method == "squash":
        shown = "\n\n".join(f"* {message}" for message in log) if len(log) > 1 else ""
        first, rest = f"{issue.title} (#{issue.number})", shown
    else:
        where = f"{pull.head_owner}/{pull.head_ref}"
        first, rest = f"Merge pull request #{issue.number} from {where}", issue.title
    first = first if title is None else title
    rest = rest if text is None else text
    return f"{first}\n\n{rest}\n" if rest else f"{first}\n"


def mergeable_state(tables: Tables, issue: Issue, pull: PullRequest) -> str:
    """Return clean, dirty, draft, blocked, unstable or unknown."""
    return _describe_state(
        issue,
        pull,
        blocked=bool(missing_requirements(tables, pull)),
        failing=_has_failures(tables, pull),
    )


def missing_requirements(tables: Tables, pull: PullRequest) -> str:
    """Return GitHub's message for unmet requirements of the base branch; empty if all are met."""
    rule = tables.find(Protection, pull.repo_id, pull.base_ref)
    if rule is None:
        return ""
    reviews = tables.group(Review, "pull", pull.id).select("submitted")
    weighty = [review for review in reviews if _can_write(tables, pull.repo_id, review.user)]
    given = _count_approvals(weighty)
    statuses, checks = _check_results(tables, pull)
    known = statuses.keys() | checks.keys()
    return _missing_approvals(rule.approvals, given) or _missing_checks(
        rule.contexts, _passed_checks(statuses, checks), known
    )


def _can_write(tables: Tables, repo_id: int, login: str) -> bool:
    repo = tables.get(Repo, repo_id)
    if repo is None:
        return False
    app = (
        tables.find(AppRegistration, login.removesuffix("[bot]"))
        if login.endswith("[bot]")
        else None
    )
    if app is not None:
        places = tables.group(Installation, "app", app.id).select()
        return any(place.covers(repo.owner, repo.id) for place in places)
    return Identity(key="", login=login).can(tables, repo, "write")


def _passed_checks(statuses: dict[str, str], checks: dict[str, str | None]) -> set[str]:
    good = {name for name, state in statuses.items() if state == "success"}
    return good | {name for name, end in checks.items() if end in ("success", "neutral", "skipped")}


def _has_failures(tables: Tables, pull: PullRequest) -> bool:
    statuses, checks = _check_results(tables, pull)
    bad = set(statuses.values()) & {"failure", "error"}
    return bool(bad or set(checks.values()) & FAILURES)


def _check_results(
    tables: Tables, pull: PullRequest
) -> tuple[dict[str, str], dict[str, str | None]]:
    """Return the last state of every context, and the last conclusion of every check."""
    key = ("commit", pull.repo_id, pull.head_sha)
    statuses = {item.context: item.state for item in tables.group(CommitStatus, *key).select()}
    checks = {item.name: item.conclusion for item in tables.group(CheckRun, *key).select()}
    return statuses, checks


_running_checks: WeakKeyDictionary[World, dict[int, asyncio.Task[None]]] = WeakKeyDictionary()


async def start_or_await_check(world: World, git: Repository, pull_id: int) -> None:
    """Start a check where one is needed, or wait for the one under way."""
    tasks = _running_checks.setdefault(world, {})
    task = tasks.get(pull_id)
    if task is not None:
        await asyncio.shield(task)
    elif pull := _find_unchecked(world, pull_id):
        task = asyncio.create_task(_run_check(world, git, pull))
        tasks[pull_id] = task
        task.add_done_callback(lambda _done: tasks.pop(pull_id, None))


async def check_now(world: World, git: Repository, pull_id: int) -> None:
    """Check mergeability now. The caller holds the repository's lock."""
    pull = _find_unchecked(world, pull_id)
    if pull is not None:
        await _store_result(world, git, pull, await _try_merge(world, git, pull))


def _find_unchecked(world: World, pull_id: int) -> PullRequest | None:
    """Return the pull request if it is open and its mergeability is unknown."""
    pull = world.truth.get(PullRequest, pull_id)
    issue = world.truth.get(Issue, pull.issue_id) if pull else None
    opened = issue is not None and issue.state == "open"
    return pull if pull and pull.mergeable is None and opened else None


async def _run_check(world: World, git: Repository, pull: PullRequest) -> None:
    made = await _try_merge(world, git, pull)
    async with git.lock:
        await _store_result(world, git, pull, made)


async def _try_merge(world: World, git: Repository, pull: PullRequest) -> str | None:
    """Merge for trial; the commit, or None where the sides conflict."""
    try:
        return await commits.merge(git, _test_merge(world, pull))
    except MergeConflict:
        return None


async def _store_result(
    world: World, git: Repository, asked: PullRequest, made: str | None
) -> None:
    now = world.truth.get(PullRequest, asked.id)
    # Either side may have moved meanwhile; then this result is out of date.
    if now is None or now.merged_at is not None:
        return
    if (now.head_sha, now.base_sha) != (asked.head_sha, asked.base_sha):
        return
    world.put(replace(now, mergeable=made is not None, merge_sha=made))
    ref = f"refs/pull/{asked.number}/merge"
    if made:
        await refs.move(git, ref, made)
    else:
        await delete_ref(git, ref)


def _test_merge(world: World, pull: PullRequest) -> Merge:
    host = host_signature(world)
    words = f"Merge {pull.head_sha} into {pull.base_sha}\n"
    return Merge(pull.base_sha, pull.head_sha, words, host, host)


async def delete_ref(git: Repository, ref: str) -> None:
    """Remove a ref if it is there."""
    if await refs.find(git, ref):
        await refs.move(git, ref, ZERO)


def is_check_running(world: World, pull_id: int) -> bool:
    """Return whether a check has been started and not ended."""
    return pull_id in _running_checks.get(world, {})
