"""Parse GitHub's JSON. What GitHub does not document raises `ServerFailed`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from hostler.errors import ServerFailed
from hostler.forge.port import (
    ActionResult,
    Blocking,
    CommentContent,
    Issue,
    Item,
    ItemContent,
    ItemKind,
    Pull,
    RepositoryInfo,
    WorkflowJob,
    WorkflowRun,
)
from hostler.model import RepoName

P = ParamSpec("P")
T = TypeVar("T")
Payload = Mapping[str, Any]
# The account that GitHub shows for deleted ones.
GHOST_LOGIN = "ghost"


def strict_parser(read: Callable[P, T]) -> Callable[P, T]:
    """Wrap a parser so that invalid data raises `ServerFailed`."""

    @wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            wanted = read.__name__.strip("_").replace("_", " ")
            raise ServerFailed(f"a request for {wanted} ({error!r})", 200) from error

    return reading


@strict_parser
def parse_number(payload: Payload) -> int:
    """Return the id of an object."""
    return int(payload["id"])


@strict_parser
def parse_word(payload: Payload, name: str) -> str:
    """Return a required text."""
    return str(payload[name])


@strict_parser
def parse_labeller(event: Payload) -> tuple[str, str] | None:
    """Return the label of an event and who added it; None for other events."""
    if event.get("event") != "labeled" or not event.get("label"):
        return None
    return parse_label_name(event["label"]), str(
        (event.get("actor") or {}).get("login") or GHOST_LOGIN
    )


@strict_parser
def parse_item(kind: ItemKind, payload: Payload, number: int = 0) -> Item:
    """Parse an item. The number comes from the payload, except for reviews, which lack it."""
    return Item(
        kind=kind,
        id=int(payload["id"]),
        number=number or _item_number(kind, payload),
        author=parse_author(payload),
        body=parse_text(payload, "body"),
        updated_at=str(payload["submitted_at" if kind is ItemKind.REVIEW else "updated_at"]),
        content=_parse_content(kind, payload),
    )


def _parse_content(kind: ItemKind, payload: Payload) -> ItemContent | None:
    """Parse the content of an item; None if it is not as GitHub documents it."""
    try:
        match kind:
            case ItemKind.ISSUE:
                return parse_issue(payload)
            case ItemKind.PULL:
                return parse_pull(payload)
            case ItemKind.WORKFLOW_RUN:
                return parse_run(payload)
            case _:
                return _parse_comment(payload, is_review=kind is ItemKind.REVIEW)
    except ServerFailed:
        return None


def _item_number(kind: ItemKind, payload: Payload) -> int:
    if kind in (ItemKind.ISSUE, ItemKind.PULL):
        return int(payload["number"])
    if kind is ItemKind.WORKFLOW_RUN:
        # It belongs to a commit; the caller knows the pull request.
        return 0
    parent = "issue_url" if kind is ItemKind.ISSUE_COMMENT else "pull_request_url"
    return int(str(payload[parent]).rpartition("/")[2])


@strict_parser
def parse_repository(payload: Payload) -> RepositoryInfo:
    """Parse a repository."""
    return RepositoryInfo(
        id=int(payload["id"]),
        name=RepoName.parse(payload["full_name"]),
        default_branch=str(payload["default_branch"]),
        private=bool(payload["private"]),
        can_push=bool((payload.get("permissions") or {}).get("push", False)),
    )


@strict_parser
def parse_issue(payload: Payload) -> Issue:
    """Parse an issue."""
    return Issue(
        number=int(payload["number"]),
        title=parse_text(payload, "title"),
        body=parse_text(payload, "body"),
        state=str(payload["state"]),
        author=parse_author(payload),
        labels=frozenset(parse_label_name(label) for label in payload["labels"]),
        is_pull=payload.get("pull_request") is not None,
        updated_at=str(payload["updated_at"]),
        url=parse_text(payload, "html_url"),
        state_reason=parse_text(payload, "state_reason"),
        locked=bool(payload.get("locked")),
        blocker_count=_parse_blocker_count(payload),
        author_association=parse_text(payload, "author_association"),
    )


@strict_parser
def _parse_comment(payload: Payload, *, is_review: bool) -> CommentContent:
    line = payload.get("line") or payload.get("original_line")
    return CommentContent(
        body=parse_text(payload, "body"),
        verdict=parse_text(payload, "state") if is_review else "",
        thread=int(payload.get("in_reply_to_id") or payload["id"]),
        path=parse_text(payload, "path"),
        line=line if isinstance(line, int) else 0,
        url=parse_text(payload, "html_url"),
        author_association=parse_text(payload, "author_association"),
    )


@strict_parser
def parse_blocking(payload: Payload) -> Blocking:
    """Parse a blocking issue."""
    owner, name = str(payload["repository_url"]).rstrip("/").split("/")[-2:]
    found = parse_issue(payload)
    return Blocking(RepoName(owner, name), found.number, found.title, found.state)


@strict_parser
def parse_pull(payload: Payload) -> Pull:
    """Parse a pull request, from its full form or from a list."""
    return Pull(
        number=int(payload["number"]),
        title=parse_text(payload, "title"),
        body=parse_text(payload, "body"),
        state=str(payload["state"]),
        merged=payload.get("merged_at") is not None,
        draft=bool(payload.get("draft")),
        author=parse_author(payload),
        head=str(payload["head"]["ref"]),
        head_sha=str(payload["head"]["sha"]),
        base=str(payload["base"]["ref"]),
        mergeable=payload.get("mergeable"),
        updated_at=str(payload["updated_at"]),
        url=parse_text(payload, "html_url"),
        labels=frozenset(parse_label_name(label) for label in payload.get("labels") or ()),
        merged_at=parse_text(payload, "merged_at"),
        author_association=parse_text(payload, "author_association"),
    )


@strict_parser
def parse_run(payload: Payload) -> WorkflowRun:
    """Parse a workflow run."""
    return WorkflowRun(
        id=int(payload["id"]),
        name=parse_text(payload, "name") or f"workflow {payload.get('workflow_id', '')}".strip(),
        event=parse_text(payload, "event"),
        head_sha=str(payload["head_sha"]),
        status=str(payload["status"]),
        conclusion=parse_text(payload, "conclusion"),
        attempt=int(payload.get("run_attempt") or 1),
        branch=parse_text(payload, "head_branch"),
        foreign=_is_foreign(payload),
        url=parse_text(payload, "html_url"),
        created_at=parse_text(payload, "created_at"),
    )


def _is_foreign(payload: Payload) -> bool:
    here = (payload.get("repository") or {}).get("full_name")
    there = (payload.get("head_repository") or {}).get("full_name")
    return bool(here and there) and str(here).lower() != str(there).lower()


@strict_parser
def parse_job(payload: Payload) -> WorkflowJob:
    """Parse a job of a workflow run."""
    return WorkflowJob(
        id=int(payload["id"]),
        name=str(payload["name"]),
        conclusion=parse_text(payload, "conclusion"),
        url=parse_text(payload, "html_url"),
    )


@strict_parser
def parse_made(payload: Payload) -> ActionResult:
    """Parse the answer of a write, or the object that was found in its place."""
    return ActionResult(
        id=int(payload.get("id") or 0),
        number=int(payload.get("number") or 0),
        url=parse_text(payload, "html_url"),
        updated_at=parse_text(payload, "updated_at"),
    )


def parse_author(payload: Payload) -> str:
    """Return the author's login; deleted accounts have none."""
    return str((payload.get("user") or payload.get("actor") or {}).get("login") or GHOST_LOGIN)


def parse_text(payload: Payload, name: str) -> str:
    """Return a text that may be absent or null."""
    return str(payload.get(name) or "")


def _parse_blocker_count(payload: Payload) -> int | None:
    """Return how many issues block one, if GitHub says so; else None."""
    summary = payload.get("issue_dependencies_summary")
    count = summary.get("total_blocked_by") if isinstance(summary, Mapping) else None
    return count if isinstance(count, int) else None


@strict_parser
def parse_label_name(label: Any) -> str:
    """Return a label's name; old lists have bare names."""
    return label if isinstance(label, str) else str(label["name"])
