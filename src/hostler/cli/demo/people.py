"""What the demo's users do next, given what is visible on GitHub, and doing it through the API.

An action is due until its effect is visible, so no state is kept.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import quote

from hostler.cli.demo.environment import (
    ALLOWED,
    BOT,
    MAINTAINER,
    REVIEWER,
    DemoScenario,
    PlannedIssue,
    PlannedReview,
)
from hostler.cli.demo.observe import (
    DatabaseSnapshot,
    DemoSnapshot,
    GitHubSnapshot,
    PullRequestSnapshot,
)
from hostler.errors import HostlerError

if TYPE_CHECKING:
    import httpx

    from hostler.sandbox.server import Running


@dataclass(frozen=True, slots=True)
class FileIssue:
    """File an issue, with its label."""

    filing: PlannedIssue

    @property
    def who(self) -> str:
        return self.filing.author


@dataclass(frozen=True, slots=True)
class CommentOnLine:
    """Comment on the first line of a file that contains a text."""

    repo: str
    pull: int
    head: str
    path: str
    near: str
    body: str
    who: str = REVIEWER


@dataclass(frozen=True, slots=True)
class EditReviewComment:
    """Edit a review comment."""

    repo: str
    remark: int
    body: str
    who: str = REVIEWER


@dataclass(frozen=True, slots=True)
class AnswerQuestion:
    """Answer a question on an issue."""

    repo: str
    issue: int
    body: str
    who: str = MAINTAINER


@dataclass(frozen=True, slots=True)
class ApprovePull:
    """Approve a pull request."""

    repo: str
    pull: int
    head: str
    who: str = REVIEWER


@dataclass(frozen=True, slots=True)
class MergePull:
    """Merge an approved pull request."""

    repo: str
    pull: int
    head: str
    who: str = REVIEWER


UserAction = (
    FileIssue | CommentOnLine | EditReviewComment | AnswerQuestion | ApprovePull | MergePull
)


def due_actions(scenario: DemoScenario, github: GitHubSnapshot) -> list[UserAction]:
    """Return all actions that are due now."""
    return [
        *_issues_to_file(scenario, github),
        *_answers_to_give(scenario, github),
        *_pull_actions(scenario, github),
    ]


def is_settled(scenario: DemoScenario, snapshot: DemoSnapshot) -> bool:
    """Return whether no user, agent or write has anything left to do."""
    github, database = snapshot.github, snapshot.database
    wanted = [issue for issue in github.issues if issue.author in ALLOWED]
    return (
        not due_actions(scenario, github)
        and all(not issue.open and database.tasks_of(issue) for issue in wanted)
        and not any(pull.open for pull in github.pulls)
        and _is_idle(database)
    )


def _is_idle(database: DatabaseSnapshot) -> bool:
    return not database.unsent and all(
        task.state == "done" and task.live is None for task in database.tasks
    )


def _issues_to_file(scenario: DemoScenario, github: GitHubSnapshot) -> Iterator[UserAction]:
    for filing in scenario.filings:
        if github.titled(filing.title) is None:
            yield FileIssue(filing)


def _answers_to_give(scenario: DemoScenario, github: GitHubSnapshot) -> Iterator[UserAction]:
    for answer in scenario.answers:
        issue = github.titled(answer.issue)
        if issue is not None and issue.open and issue.asks:
            yield AnswerQuestion(issue.repo, issue.number, answer.text)


def _pull_actions(scenario: DemoScenario, github: GitHubSnapshot) -> Iterator[UserAction]:
    for pull in github.pulls:
        if pull.open and pull.author == BOT:
            yield from _next_pull_action(pull, _find_review(scenario, github, pull))


def _find_review(
    scenario: DemoScenario, github: GitHubSnapshot, pull: PullRequestSnapshot
) -> PlannedReview | None:
    issue = github.issue_of(pull)
    return next((one for one in scenario.reviews if issue and one.issue == issue.title), None)


def _next_pull_action(
    pull: PullRequestSnapshot, review: PlannedReview | None
) -> Iterator[UserAction]:
    """Yield the next review comment, the approval or the merge; nothing while waiting."""
    if review is not None:
        thread = next((thread for thread in pull.threads() if thread[0].body in review.words), None)
        if thread is None:
            yield CommentOnLine(
                pull.repo, pull.number, pull.head, review.path, review.near, review.words[0]
            )
            return
        remark, replies = thread
        said = review.words.index(remark.body) + 1
        if len(replies) < said:
            return
        if said < len(review.words):
            yield EditReviewComment(pull.repo, remark.id, review.words[said])
            return
    approved = REVIEWER in pull.approved_by
    yield (MergePull if approved else ApprovePull)(pull.repo, pull.number, pull.head)


class ActionRefused(HostlerError):
    """GitHub refused a user's action."""


class DemoUsers:
    """The demo's users, each with a client."""

    def __init__(self, sandbox: Running) -> None:
        self._sandbox = sandbox
        self._clients: dict[str, httpx.Client] = {}

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients.values():
            client.close()

    def fill(self, scenario: DemoScenario) -> None:
        """Commit the first files to the repositories as the maintainer."""
        for project in scenario.projects:
            for path, text in project.files.items():
                where = f"/repos/{project.name}/contents/{quote(path)}"
                content = base64.b64encode(text.encode()).decode()
                fields = {"message": f"Add {path}", "content": content}
                self._call(MAINTAINER, "PUT", where, **fields)

    def act(self, move: UserAction) -> None:
        """Do an action. Raises Refused."""
        match move:
            case FileIssue(new):
                fields = {"title": new.title, "body": new.body, "labels": [new.label]}
                self._call(move.who, "POST", f"/repos/{new.repo}/issues", **fields)
            case CommentOnLine():
                self._comment_on_line(move)
            case EditReviewComment(repo, remark, body, who):
                self._call(who, "PATCH", f"/repos/{repo}/pulls/comments/{remark}", body=body)
            case AnswerQuestion(repo, issue, body, who):
                self._call(who, "POST", f"/repos/{repo}/issues/{issue}/comments", body=body)
            case ApprovePull(repo, pull, head, who):
                fields = {"event": "APPROVE", "commit_id": head}
                self._call(who, "POST", f"/repos/{repo}/pulls/{pull}/reviews", **fields)
            case MergePull(repo, pull, head, who):
                # With the approved SHA: later commits have not been reviewed.
                self._call(who, "PUT", f"/repos/{repo}/pulls/{pull}/merge", sha=head)
            case _:
                assert_never(move)

    def _comment_on_line(self, move: CommentOnLine) -> None:
        where = f"/repos/{move.repo}/contents/{quote(move.path)}?ref={move.head}"
        text = base64.b64decode(self._call(move.who, "GET", where)["content"]).decode()
        lines = enumerate(text.splitlines(), start=1)
        line = next((number for number, one in lines if move.near in one), 1)
        spot = {"commit_id": move.head, "path": move.path, "line": line, "side": "RIGHT"}
        where = f"/repos/{move.repo}/pulls/{move.pull}/comments"
        self._call(move.who, "POST", where, body=move.body, **spot)

    def _call(self, who: str, method: str, where: str, **fields: Any) -> Any:
        import httpx

        client = self._clients.get(who)
        if client is None:
            client = self._clients[who] = self._sandbox.client(who)
        try:
            answer = client.request(method, where, json=fields or None)
        except httpx.HTTPError as error:
            raise ActionRefused(f"{who}: {method} {where}: {error}") from error
        if not answer.is_success:
            raise ActionRefused(
                f"{who}: {method} {where}: {answer.status_code} {answer.text[:200]}"
            )
        return answer.json()
