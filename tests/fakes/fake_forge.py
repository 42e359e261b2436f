"""`Forge` on a fake repository: lists with pages and ETags, actions, and faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, assert_never

from fake_forge_state import FakeRepositoryState, Payload

from hostler.errors import ForgeError, Invalid
from hostler.forge.actions import (
    Action,
    AddLabel,
    CloseIssue,
    CreateComment,
    CreateLabel,
    EditComment,
    OpenIssue,
    OpenPull,
    RemoveLabel,
    ReplyToReviewComment,
    RerunFailedJobs,
    UpdatePull,
    add_marker,
    find_tokens,
    format_title,
)
from hostler.forge.github import payloads
from hostler.forge.github.client import pagination
from hostler.forge.github.client.actions import is_own_item
from hostler.forge.github.client.pagination import (
    ListedPages,
    page_tags,
    read_ascending,
    read_numbered,
)
from hostler.forge.github.client.repository import (
    SINGLE_PATHS,
    build_reading,
    format_since,
    read_single,
)
from hostler.forge.github.client.transport import ApiAnswer
from hostler.forge.github.payloads import parse_number
from hostler.forge.github.rate_limit.limits import RateLimitBudget
from hostler.forge.port import (
    ActionResult,
    Blocking,
    Issue,
    Item,
    ItemKind,
    ListReading,
    PageChain,
    RepositoryInfo,
    RequestCost,
    SurfaceFeed,
    WorkflowJob,
)
from hostler.model import RepoName

UNKNOWN_BUDGET = RateLimitBudget(None, None, None, None)


@dataclass(frozen=True, slots=True)
class FakeRequest:
    """One question to a feed."""

    feed: SurfaceFeed
    since: str | None = None
    number: int = 0
    only_open: bool = False
    known: PageChain = ()
    one_page: bool = False
    head_sha: str = ""


def list_fake_items(
    world: FakeRepositoryState, asked: FakeRequest, count: Callable[[], None]
) -> ListReading:
    """The answer. `count` is called for every page."""
    etags = page_tags(asked.known)

    def answer(data: Any, etag: str) -> ApiAnswer:
        count()
        fresh = sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
        if fresh == etag:
            return ApiAnswer(304, None, UNKNOWN_BUDGET, etag=fresh)
        return ApiAnswer(200, data, UNKNOWN_BUDGET, etag=fresh)

    def from_(anchor: str | None, page: int) -> ApiAnswer:
        rows = sorted(
            (row for row in fake_rows(world, asked) if row["updated_at"] >= (anchor or "")),
            key=lambda row: (row["updated_at"], row["id"]),
        )
        return answer(cut_page(rows, page), etags.get((anchor or "", page), ""))

    def at(page: int) -> ApiAnswer:
        rows = fake_rows(world, asked)
        if asked.feed is SurfaceFeed.WORKFLOW_RUNS:
            rows = [row for row in reversed(rows) if row["created_at"] >= (asked.since or "")]
        return answer(cut_page(rows, page), etags.get(("", page), ""))

    return build_reading(asked.feed, asked.number, _read_rows(world, asked, answer, from_, at))


def _read_rows(
    world: FakeRepositoryState,
    asked: FakeRequest,
    answer: Callable[[Any, str], ApiAnswer],
    from_: Callable[[str | None, int], ApiAnswer],
    at: Callable[[int], ApiAnswer],
) -> ListedPages:
    if asked.feed in SINGLE_PATHS:
        rows = world.pulls if asked.feed is SurfaceFeed.PULL else world.issues
        one = dict(world.one(rows, asked.number))
        return read_single(answer(one, asked.known[0].etag if asked.known else ""), asked.known)
    if asked.feed in (SurfaceFeed.REVIEWS, SurfaceFeed.WORKFLOW_RUNS):
        return read_numbered(at, asked.known, one_page=asked.one_page)
    # The real host gives a thread's comments by id; what is read is the same.
    return read_ascending(from_, asked.since, asked.known)


def cut_page(rows: Sequence[Payload], page: int) -> list[Payload]:
    """One page."""
    return [
        dict(row) for row in rows[(page - 1) * pagination.PAGE_SIZE : page * pagination.PAGE_SIZE]
    ]


def fake_rows(world: FakeRepositoryState, asked: FakeRequest) -> list[Payload]:
    """Everything in a list that can be seen, by id."""
    found = _all_rows(world, asked)
    return sorted((row for row in found if world.shown(row)), key=parse_number)


def _all_rows(world: FakeRepositoryState, asked: FakeRequest) -> list[Payload]:
    feed, number = asked.feed, asked.number
    if feed is SurfaceFeed.ISSUES:
        rows = world.issues.values()
        return [row for row in rows if not (asked.only_open and row["state"] == "closed")]
    if feed is SurfaceFeed.REVIEWS:
        world.one(world.pulls, number)
        return world.verdicts.get(number, [])
    if feed is SurfaceFeed.WORKFLOW_RUNS:
        runs = world.runs.values()
        return [run for run in runs if asked.head_sha in ("", run["head_sha"])]
    if feed in (SurfaceFeed.ISSUE_COMMENTS, SurfaceFeed.THREAD_COMMENTS):
        remarks, parent = world.comments, "issue_url"
    else:
        remarks, parent = world.review_comments, "pull_request_url"
    if number:
        world.one(world.issues, number)
    return [row for row in remarks.values() if not number or row[parent].endswith(f"/{number}")]


def perform_fake_action(
    world: FakeRepositoryState, own_login: str, action: Action, token: str
) -> ActionResult:
    """Do it."""
    match action:
        case CreateComment():
            result = world.say(action.number, add_marker(action.body, token), by=own_login)
            return payloads.parse_made(world.comments[result])
        case ReplyToReviewComment():
            text = add_marker(action.body, token)
            result = world.review_line(
                action.number, text, by=own_login, reply_to=action.to_comment
            )
            return payloads.parse_made(world.review_comments[result])
        case EditComment():
            text = add_marker(action.body, token)
            return payloads.parse_made(world.edit(ItemKind.ISSUE_COMMENT, action.comment_id, text))
        case OpenIssue():
            text, title = add_marker(action.body, token), format_title(action.title)
            number = world.file_issue(title, by=own_login, body=text, labels=action.labels)
            return payloads.parse_made(world.issues[number])
        case OpenPull():
            return _open_pull(world, own_login, action, token)
        case CreateLabel():
            world.known_labels.setdefault(action.name, {"name": action.name})
            return ActionResult()
        case RerunFailedJobs():
            return _rerun_jobs(world, action)
        case UpdatePull() | CloseIssue() | AddLabel() | RemoveLabel():
            return _set_state(world, own_login, action, token)
        case _:
            assert_never(action)


def find_fake_action(
    world: FakeRepositoryState, own_login: str, action: Action, token: str, since: str
) -> ActionResult | None:
    """What an earlier act has made."""
    match action:
        case CreateComment() | EditComment():
            return _find_marked(world.comments.values(), own_login, token, since)
        case ReplyToReviewComment():
            return _find_marked(world.review_comments.values(), own_login, token, since)
        case OpenIssue():
            return _find_marked(world.issues.values(), own_login, token, since)
        case OpenPull():
            return _pull(world, own_login, action, token)
        case CreateLabel():
            return ActionResult() if action.name in world.known_labels else None
        case RerunFailedJobs():
            again = world.one(world.runs, action.run_id)["run_attempt"] > action.attempt
            return ActionResult(id=action.run_id) if again else None
        case UpdatePull() | CloseIssue() | AddLabel() | RemoveLabel():
            return ActionResult(number=action.number) if _has_state(world, action, token) else None
        case _:
            assert_never(action)


def _find_marked(
    rows: Iterable[Payload], own_login: str, token: str, since: str
) -> ActionResult | None:
    for row in rows:
        same = is_own_item(
            payloads.parse_author(row), payloads.parse_text(row, "body"), own_login, token
        )
        if same and row["updated_at"] >= since:
            return payloads.parse_made(row)
    return None


def _open_pull(
    world: FakeRepositoryState, own_login: str, action: OpenPull, token: str
) -> ActionResult:
    found = _pull(world, own_login, action, token)
    if found is not None:
        return found
    if action.head not in world.branches:
        raise Invalid("POST pulls", 422, "Validation Failed", (("head", "invalid", ""),))
    number = world.open_pull(
        action.head,
        action.base,
        format_title(action.title),
        by=own_login,
        body=add_marker(action.body, token),
    )
    world.pulls[number]["draft"] = action.draft
    return payloads.parse_made(world.pulls[number])


def _pull(
    world: FakeRepositoryState, own_login: str, action: OpenPull, token: str
) -> ActionResult | None:
    pulls = [pull for pull in world.pulls.values() if pull["head"]["ref"] == action.head]
    for pull in pulls:
        if is_own_item(
            payloads.parse_author(pull), payloads.parse_text(pull, "body"), own_login, token
        ):
            return payloads.parse_made(pull)
    for pull in pulls:
        if pull["state"] == "open" and pull["base"]["ref"] == action.base:
            return payloads.parse_made(pull)
    return None


def _rerun_jobs(world: FakeRepositoryState, action: RerunFailedJobs) -> ActionResult:
    if world.one(world.runs, action.run_id)["run_attempt"] <= action.attempt:
        world.rerun(action.run_id)
    return ActionResult(id=action.run_id)


def _set_state(
    world: FakeRepositoryState,
    own_login: str,
    action: UpdatePull | CloseIssue | AddLabel | RemoveLabel,
    token: str,
) -> ActionResult:
    match action:
        case UpdatePull():
            world.one(world.pulls, action.number)
            given = {
                "title": None if action.title is None else format_title(action.title),
                "body": None if action.body is None else add_marker(action.body, token),
                "state": action.state,
            }
            world.change(action.number, **{k: v for k, v in given.items() if v is not None})
        case CloseIssue():
            world.change(action.number, state="closed", state_reason=action.reason)
        case AddLabel():
            world.put_labels(action.number, action.labels, by=own_login)
        case RemoveLabel():
            labels = world.one(world.issues, action.number)["labels"]
            kept = [label for label in labels if label["name"] != action.label]
            world.change(action.number, labels=kept)
    return payloads.parse_made(world.issues[action.number])


def _has_state(
    world: FakeRepositoryState, action: UpdatePull | CloseIssue | AddLabel | RemoveLabel, token: str
) -> bool:
    if action.number not in world.issues:
        return False
    issue = world.issues[action.number]
    there = {payloads.parse_label_name(label) for label in issue["labels"]}
    match action:
        case CloseIssue():
            return bool(issue["state"] == "closed")
        case AddLabel():
            return set(action.labels) <= there
        case RemoveLabel():
            return action.label not in there
        case UpdatePull():
            return (
                action.title in (None, issue["title"])
                and (action.body is None or token in find_tokens(issue["body"]))
                and action.state in (None, issue["state"])
            )


@dataclass(frozen=True, slots=True)
class FakeFault:
    """What goes wrong with a write, before or after it has had its effect."""

    error: ForgeError
    after_effect: bool = False


@dataclass
class FakeForge(FakeRepositoryState):
    """A forge. Put into `faults` what shall go wrong, one per coming write."""

    login: str = "hostler-bot"
    faults: list[FakeFault] = field(default_factory=list)
    made: list[tuple[str, Action]] = field(default_factory=list)
    requests: int = 0

    def own_login(self) -> str:
        return self.login

    def now(self) -> datetime:
        return self.clock.now().replace(microsecond=0)

    def cost(self) -> RequestCost:
        return RequestCost(self.requests, None)

    def was_renamed(self) -> bool:
        return False

    def repository(self) -> RepositoryInfo:
        return RepositoryInfo(1, self.name, "main", private=False, can_push=True)

    def find_repository_name(self, number: int) -> RepoName | None:
        return self.name if number == self.repository().id else None

    def issue(self, number: int) -> Issue:
        return payloads.parse_issue(self.one(self.issues, number))

    def pull(self, number: int) -> Item:
        return self.changes(SurfaceFeed.PULL, None, number=number).items[0]

    def reviews(self, number: int) -> list[Item]:
        return list(self.changes(SurfaceFeed.REVIEWS, None, number=number).items)

    def get_comment(self, kind: ItemKind, comment_id: int) -> Item | None:
        found = self.remarks(kind).get(comment_id)
        return payloads.parse_item(kind, dict(found)) if found else None

    def thread(self, number: int) -> list[Item]:
        found = self.changes(SurfaceFeed.THREAD_COMMENTS, None, number=number).items
        return sorted(found, key=lambda item: item.id)

    def labellers(self, number: int) -> dict[str, str]:
        return {label: by for (where, label), by in self.labelled.items() if where == number}

    def blocked_by(self, number: int) -> list[Blocking]:
        return [payloads.parse_blocking(one) for one in self.blockers.get(number, [])]

    def labels(self) -> frozenset[str]:
        return frozenset(self.known_labels)

    def changes(
        self,
        feed: SurfaceFeed,
        since: datetime | None,
        *,
        number: int = 0,
        only_open: bool = False,
        known: PageChain = (),
        one_page: bool = False,
    ) -> ListReading:
        asked = FakeRequest(feed, format_since(since), number, only_open, known, one_page)
        return list_fake_items(self, asked, self._count)

    def workflow_run(self, run_id: int) -> Item | None:
        found = self.runs.get(run_id)
        return payloads.parse_item(ItemKind.WORKFLOW_RUN, dict(found)) if found else None

    def list_commit_runs(self, head_sha: str, *, known: PageChain = ()) -> ListReading:
        asked = FakeRequest(
            SurfaceFeed.WORKFLOW_RUNS, known=known, one_page=True, head_sha=head_sha
        )
        return list_fake_items(self, asked, self._count)

    def failed_jobs(self, run_id: int) -> list[WorkflowJob]:
        run = self.one(self.runs, run_id)
        job = WorkflowJob(run_id, "build", str(run["conclusion"] or ""))
        return [job] if job.failed else []

    def job_log(self, job_id: int) -> str:
        return self.logs.get(job_id, "")

    def _count(self) -> None:
        self.requests += 1

    def perform(self, action: Action, *, token: str) -> ActionResult:
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None and not fault.after_effect:
            raise fault.error
        done = perform_fake_action(self, self.login, action, token)
        self.made.append((token, action))
        if fault is not None:
            raise fault.error
        return done

    def find_performed(self, action: Action, *, token: str, since: datetime) -> ActionResult | None:
        return find_fake_action(
            self, self.login, action, token, since.strftime("%Y-%m-%dT%H:%M:%SZ")
        )
