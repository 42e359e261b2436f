"""The state of a fake repository in GitHub's JSON, and what people do in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from hostler.clock import Clock
from hostler.errors import NotFound
from hostler.forge.github.payloads import parse_label_name
from hostler.forge.port import ItemKind
from hostler.model import RepoName

Payload = dict[str, Any]
ROOT_COMMIT = "https://stub.example"


@dataclass
class FakeRepositoryState:
    """One repository."""

    clock: Clock
    name: RepoName = field(default_factory=lambda: RepoName("octo", "stable"))
    issues: dict[int, Payload] = field(default_factory=dict)
    pulls: dict[int, Payload] = field(default_factory=dict)
    comments: dict[int, Payload] = field(default_factory=dict)
    review_comments: dict[int, Payload] = field(default_factory=dict)
    verdicts: dict[int, list[Payload]] = field(default_factory=dict)
    known_labels: dict[str, Payload] = field(default_factory=dict)
    labelled: dict[tuple[int, str], str] = field(default_factory=dict)
    blockers: dict[int, list[Payload]] = field(default_factory=dict)
    runs: dict[int, Payload] = field(default_factory=dict)
    # Logs of the only jobs of runs, by the runs' ids, which are the jobs' too.
    logs: dict[int, str] = field(default_factory=dict)
    # Ids of what is not shown yet, and from when on it is.
    late: dict[int, datetime] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=lambda: {"main": "0" * 40})
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _ids: Iterator[int] = field(default_factory=lambda: count(1000))

    def file_issue(
        self, title: str, *, by: str, body: str = "", labels: tuple[str, ...] = ()
    ) -> int:
        """A new issue; its number."""
        number = next(self._numbers)
        self.issues[number] = {
            **self._new(by, body),
            "number": number,
            "title": title,
            "state": "open",
            "state_reason": None,
            "labels": [],
            "repository_url": f"{ROOT_COMMIT}/repos/{self.name}",
            "html_url": f"{ROOT_COMMIT}/{self.name}/issues/{number}",
            "issue_dependencies_summary": {"total_blocked_by": 0},
        }
        self.put_labels(number, labels, by=by)
        return number

    def open_pull(self, head: str, base: str, title: str, *, by: str, body: str = "") -> int:
        """A new pull request; its number."""
        number = self.file_issue(title, by=by, body=body)
        url = f"{ROOT_COMMIT}/{self.name}/pull/{number}"
        self.issues[number] |= {"pull_request": {"url": url}, "html_url": url}
        self.pulls[number] = {
            **self.issues[number],
            "id": next(self._ids),
            "head": {"ref": head, "sha": self.branches.get(head, "")},
            "base": {"ref": base},
            "merged_at": None,
            "mergeable": None,
            "draft": False,
        }
        return number

    def say(self, number: int, body: str, *, by: str) -> int:
        """A comment in a conversation; its id."""
        self.one(self.issues, number)
        made = {**self._new(by, body), "issue_url": f"{ROOT_COMMIT}/issues/{number}"}
        made["html_url"] = f"{ROOT_COMMIT}/{self.name}/issues/{number}#issuecomment-{made['id']}"
        self.comments[made["id"]] = made
        self.touch(number)
        return int(made["id"])

    def review_line(self, number: int, body: str, *, by: str, reply_to: int | None = None) -> int:
        """A remark on a line, or an answer to one; its id."""
        self.one(self.pulls, number)
        made = {**self._new(by, body), "pull_request_url": f"{ROOT_COMMIT}/pulls/{number}"}
        if reply_to is not None:
            self.one(self.review_comments, reply_to)
            made["in_reply_to_id"] = reply_to
        made["html_url"] = f"{ROOT_COMMIT}/{self.name}/pull/{number}#discussion_r{made['id']}"
        self.review_comments[made["id"]] = made
        self.touch(number)
        return int(made["id"])

    def review(self, number: int, state: str, body: str, *, by: str) -> int:
        """A submitted review; its id."""
        made = {**self._new(by, body), "state": state, "submitted_at": self.moment()}
        self.verdicts.setdefault(number, []).append(made)
        self.touch(number)
        return int(made["id"])

    def run(
        self, sha: str, *, by: str, conclusion: str | None = None, name: str = "CI", log: str = ""
    ) -> int:
        """A workflow run of a commit with one job, over if it has a conclusion; its id."""
        made = {
            **self._new(by, ""),
            "name": name,
            "event": "push",
            "head_sha": sha,
            "status": "completed" if conclusion else "in_progress",
            "conclusion": conclusion,
            "run_attempt": 1,
        }
        self.runs[made["id"]] = made
        self.logs[made["id"]] = log
        return int(made["id"])

    def end_run(self, run: int, conclusion: str, log: str = "") -> None:
        """A workflow run is over."""
        ended = {"status": "completed", "conclusion": conclusion, "updated_at": self.moment()}
        self.one(self.runs, run).update(ended)
        self.logs[run] = log

    def rerun(self, run: int) -> None:
        """A workflow run begins another attempt."""
        found = self.one(self.runs, run)
        again = {"status": "queued", "conclusion": None, "updated_at": self.moment()}
        found |= again | {"run_attempt": found["run_attempt"] + 1}

    def hide(self, which: int, seconds: float) -> None:
        """Show something later, as a host of many machines does."""
        self.late[which] = self.clock.now() + timedelta(seconds=seconds)

    def shown(self, row: Payload) -> bool:
        """Whether it can be seen yet."""
        return row["id"] not in self.late or self.late[row["id"]] <= self.clock.now()

    def edit(self, kind: ItemKind, comment_id: int, body: str) -> Payload:
        """Say it differently."""
        found = self.one(self.remarks(kind), comment_id)
        found |= {"body": body, "updated_at": self.moment()}
        return found

    def delete(self, kind: ItemKind, comment_id: int) -> None:
        """Take it back."""
        del self.remarks(kind)[comment_id]

    def put_labels(self, number: int, labels: tuple[str, ...], *, by: str) -> None:
        """Label an issue or pull request."""
        there = {parse_label_name(label) for label in self.one(self.issues, number)["labels"]}
        for label in labels:
            self.labelled[(number, label)] = by
            self.known_labels.setdefault(label, {"name": label})
        self.change(number, labels=[{"name": name} for name in sorted(there | set(labels))])

    def block(self, number: int, blocker: int, world: FakeRepositoryState | None = None) -> None:
        """Let an issue wait for another, of this repository or of another one."""
        other = world or self
        self._blockers(number, [*self.blockers.get(number, []), other.one(other.issues, blocker)])

    def unblock(self, number: int) -> None:
        """Let an issue wait for nothing any more."""
        self._blockers(number, [])

    def _blockers(self, number: int, found: list[Payload]) -> None:
        self.one(self.issues, number)
        self.blockers[number] = found
        self.change(number, issue_dependencies_summary={"total_blocked_by": len(found)})

    def merge(self, number: int) -> None:
        """Merge a pull request."""
        self.one(self.pulls, number)["merged_at"] = self.moment()
        self.change(number, state="closed")

    def change(self, number: int, **fields: Any) -> None:
        """Change an issue, and the pull request that it is."""
        self.one(self.issues, number).update(fields)
        if number in self.pulls:
            self.pulls[number].update(fields)
        self.touch(number)

    def touch(self, number: int) -> None:
        """Something happened on a thread."""
        self.issues[number]["updated_at"] = self.moment()
        if number in self.pulls:
            self.pulls[number]["updated_at"] = self.moment()

    def remarks(self, kind: ItemKind) -> dict[int, Payload]:
        """Comments, or review comments."""
        return self.comments if kind is ItemKind.ISSUE_COMMENT else self.review_comments

    def one(self, rows: dict[int, Payload], key: int) -> Payload:
        """What is there under a number; raises like the host."""
        if key not in rows:
            raise NotFound(f"GET {key}", 404, "Not Found")
        return rows[key]

    def moment(self) -> str:
        """Now, as GitHub writes it."""
        return self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def _new(self, by: str, body: str) -> Payload:
        return {
            "id": next(self._ids),
            "user": {"login": by},
            "body": body,
            "created_at": self.moment(),
            "updated_at": self.moment(),
        }
