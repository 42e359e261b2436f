"""Snapshots of the demo: what GitHub shows, and what the service's database contains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hostler.agents.agent_files import OutputStream, OutputTail
from hostler.agents.events import Text, decode_event
from hostler.cli.demo.environment import BOT
from hostler.errors import StoreError
from hostler.sandbox.pulls import entities as pull_entities
from hostler.sandbox.server import Running
from hostler.sandbox.state import entities
from hostler.sandbox.state.world import World
from hostler.store import Store, Transaction, open_store
from hostler.store.outbox import open_writes
from hostler.store.runs import Run, RunState, runs_of
from hostler.store.tasks import Task, TaskState, tasks_in

_LINK = re.compile(r"^(Fixes|Refs) #(\d+)$", re.MULTILINE)
_STATUS = "**Hostler**"
_MARKER = re.compile(r"\s*<!-- .*? -->\s*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CommentSnapshot:
    """A comment; `versions` counts its texts so far."""

    id: int
    author: str
    body: str
    versions: int = 1

    @property
    def text(self) -> str:
        """The text without the marker at its end."""
        return _MARKER.sub("", self.body)

    @property
    def is_status(self) -> bool:
        """Whether it is a status comment."""
        return self.author == BOT and self.body.startswith(_STATUS)


@dataclass(frozen=True, slots=True)
class ReviewCommentSnapshot(CommentSnapshot):
    """A review comment, or a reply in its thread."""

    path: str = ""
    line: int | None = None
    in_reply_to: int | None = None


@dataclass(frozen=True, slots=True)
class IssueSnapshot:
    """An issue."""

    repo: str
    number: int
    title: str
    author: str
    open: bool = True
    labels: tuple[str, ...] = ()
    comments: tuple[CommentSnapshot, ...] = ()

    @property
    def talk(self) -> list[CommentSnapshot]:
        """All comments except status comments."""
        return [said for said in self.comments if not said.is_status]

    @property
    def asks(self) -> bool:
        """Whether the last comment is a question by Hostler."""
        return bool(self.talk) and self.talk[-1].author == BOT


@dataclass(frozen=True, slots=True)
class PullRequestSnapshot:
    """A pull request."""

    repo: str
    number: int
    title: str
    body: str
    author: str
    branch: str
    head: str
    open: bool = True
    merged_by: str | None = None
    approved_by: tuple[str, ...] = ()
    commits: int = 1
    remarks: tuple[ReviewCommentSnapshot, ...] = ()
    comments: tuple[CommentSnapshot, ...] = ()

    @property
    def issue(self) -> int | None:
        """The issue that its description names."""
        found = _LINK.search(self.body)
        return int(found[2]) if found else None

    def threads(self) -> Iterator[tuple[ReviewCommentSnapshot, list[ReviewCommentSnapshot]]]:
        """Yield every review comment of a user, with Hostler's replies."""
        for remark in self.remarks:
            if remark.in_reply_to is None and remark.author != BOT:
                yield (
                    remark,
                    [
                        one
                        for one in self.remarks
                        if one.in_reply_to == remark.id and one.author == BOT
                    ],
                )


@dataclass(frozen=True, slots=True)
class GitHubSnapshot:
    """What is visible on GitHub."""

    issues: tuple[IssueSnapshot, ...] = ()
    pulls: tuple[PullRequestSnapshot, ...] = ()

    def titled(self, title: str) -> IssueSnapshot | None:
        """Return the issue with this title."""
        return next((issue for issue in self.issues if issue.title == title), None)

    def pulls_of(self, issue: IssueSnapshot) -> list[PullRequestSnapshot]:
        """Return the pull requests of an issue, oldest first."""
        return [
            pull for pull in self.pulls if pull.repo == issue.repo and pull.issue == issue.number
        ]

    def pull_of(self, issue: IssueSnapshot, number: int | None) -> PullRequestSnapshot | None:
        """Return the pull request with this number."""
        return next((pull for pull in self.pulls_of(issue) if pull.number == number), None)

    def issue_of(self, pull: PullRequestSnapshot) -> IssueSnapshot | None:
        """Return the issue of a pull request."""
        return next((issue for issue in self.issues if pull in self.pulls_of(issue)), None)


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """One run of an agent; `words` are its messages."""

    run: str
    state: str
    attempt: int
    outcome: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """One task in the database."""

    id: str
    repo: str
    issue: int
    flow: str
    state: str
    reason: str = ""
    attempt: int = 0
    pull: int | None = None
    runs: tuple[RunSnapshot, ...] = ()

    @property
    def live(self) -> RunSnapshot | None:
        """The run that has not ended."""
        return next((run for run in self.runs if run.state != "ended"), None)


@dataclass(frozen=True, slots=True)
class DatabaseSnapshot:
    """The database's tasks; `unsent` counts the writes that are not sent yet."""

    tasks: tuple[TaskSnapshot, ...] = ()
    unsent: int = 0

    def tasks_of(self, issue: IssueSnapshot) -> list[TaskSnapshot]:
        """Return the tasks of an issue, oldest first."""
        return [
            task for task in self.tasks if task.repo == issue.repo and task.issue == issue.number
        ]


@dataclass(frozen=True, slots=True)
class DemoSnapshot:
    """Both snapshots, taken at the same time."""

    github: GitHubSnapshot = GitHubSnapshot()
    database: DatabaseSnapshot = DatabaseSnapshot()


class GitHubObserver:
    """Reads the sandbox, and counts the versions of each comment."""

    def __init__(self, sandbox: Running, repos: tuple[str, ...]) -> None:
        self._sandbox = sandbox
        self._repos = repos
        self._wordings: dict[tuple[str, int], list[str]] = {}

    def look(self) -> GitHubSnapshot:
        """Read the current state."""
        return self._sandbox.do(self._read)

    def _read(self, world: World) -> GitHubSnapshot:
        world.settle()
        found = [repo for name in self._repos if (repo := world.repo(name))]
        issues: list[IssueSnapshot] = []
        pulls: list[PullRequestSnapshot] = []
        for repo in found:
            for item in world.seen.group(entities.Issue, "repo", repo.id).select():
                if item.pull is None:
                    issues.append(self._issue(world, repo.full_name, item))
                else:
                    pulls.append(self._pull(world, repo.full_name, item))
        return GitHubSnapshot(tuple(issues), tuple(pulls))

    def _issue(self, world: World, repo: str, item: entities.Issue) -> IssueSnapshot:
        labels = (world.seen.get(entities.Label, number) for number in item.labels)
        return IssueSnapshot(
            repo=repo,
            number=item.number,
            title=item.title,
            author=item.user,
            open=item.state == "open",
            labels=tuple(label.name for label in labels if label),
            comments=self._comments(world, item),
        )

    def _pull(self, world: World, repo: str, item: entities.Issue) -> PullRequestSnapshot:
        pull = world.seen.find(pull_entities.PullRequest, "issue", item.id)
        assert pull is not None
        reviews = world.seen.group(pull_entities.Review, "pull", pull.id).select()
        return PullRequestSnapshot(
            repo=repo,
            number=item.number,
            title=item.title,
            body=item.body or "",
            author=item.user,
            branch=pull.head_ref,
            head=pull.head_sha,
            open=item.state == "open",
            merged_by=pull.merged_by,
            approved_by=tuple(one.user for one in reviews if one.state == "APPROVED"),
            commits=pull.size.commits,
            remarks=self._remarks(world, pull),
            comments=self._comments(world, item),
        )

    def _comments(self, world: World, item: entities.Issue) -> tuple[CommentSnapshot, ...]:
        found = world.seen.group(entities.Comment, "issue", item.id).select()
        return tuple(
            CommentSnapshot(one.id, one.user, one.body, self._versions("comment", one.id, one.body))
            for one in found
        )

    def _remarks(
        self, world: World, pull: pull_entities.PullRequest
    ) -> tuple[ReviewCommentSnapshot, ...]:
        found = world.seen.group(pull_entities.ReviewComment, "pull", pull.id).select()
        return tuple(
            ReviewCommentSnapshot(
                one.id,
                one.user,
                one.body,
                self._versions("remark", one.id, one.body),
                one.path,
                one.spot.line,
                one.in_reply_to,
            )
            for one in found
        )

    def _versions(self, kind: str, number: int, body: str) -> int:
        wordings = self._wordings.setdefault((kind, number), [])
        if not wordings or wordings[-1] != body:
            wordings.append(body)
        return len(wordings)


class DatabaseObserver:
    """Reads the database of a home; empty until there is one."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._store: Store | None = None
        self._mark = 0
        self._tails: dict[str, OutputTail] = {}
        self._words: dict[str, tuple[str, ...]] = {}
        self._silent: set[str] = set()

    def close(self) -> None:
        """Close the database."""
        if self._store is not None:
            self._store.close()

    def look(self) -> DatabaseSnapshot:
        """Read the current state."""
        if self._store is None and not self._open():
            return DatabaseSnapshot()
        assert self._store is not None
        # Before reading: a commit in between ends the next wait immediately.
        self._mark = self._store.change_mark()
        with self._store.read() as tx:
            return DatabaseSnapshot(
                tasks=tuple(self._task(tx, task) for task in tasks_in(tx, list(TaskState))),
                unsent=len(open_writes(tx)),
            )

    def wait(self, seconds: float) -> bool:
        """Wait for a commit after the last read; return False if there is no database."""
        if self._store is None:
            return False
        self._store.wait_for_change(self._mark, seconds)
        return True

    def _open(self) -> bool:
        try:
            self._store = open_store(self._home)
        except StoreError:
            return False  # The service creates it when it starts.
        return True

    def _task(self, tx: Transaction, task: Task) -> TaskSnapshot:
        return TaskSnapshot(
            id=task.id,
            repo=task.repo_full_name or "",
            issue=task.number,
            flow=task.flow.value,
            state=task.state.value,
            reason=task.question or task.reason,
            attempt=task.attempt,
            pull=task.pr_number,
            runs=tuple(self._run(run) for run in runs_of(tx, task.id)),
        )

    def _run(self, run: Run) -> RunSnapshot:
        if run.run not in self._silent:
            self._listen(run)
        if run.state is RunState.ENDED:
            self._silent.add(run.run)
        return RunSnapshot(
            run=run.run,
            state=run.state.value,
            attempt=run.attempt,
            outcome=run.outcome or "",
            words=self._words[run.run],
        )

    def _listen(self, run: Run) -> None:
        """Read new output of an agent; the run's row is updated only every few seconds."""
        path = self._home / run.folder / OutputStream.STDOUT
        tail = self._tails.setdefault(run.run, OutputTail(path, OutputStream.STDOUT, 0))
        events = [decode_event(line.text) for line in tail.lines()]
        said = tuple(event.text for event in events if isinstance(event, Text))
        self._words[run.run] = self._words.get(run.run, ()) + said
