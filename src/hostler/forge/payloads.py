"""GitHub's JSON as our nouns. What is not as GitHub documents it is a failing server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from hostler.errors import ServerFailed
from hostler.forge.ci import Job, Run
from hostler.forge.port import Blocking, Issue, Item, ItemKind, Made, Pull, Repository
from hostler.model import RepoName

P = ParamSpec("P")
T = TypeVar("T")
Payload = Mapping[str, Any]
# The account that GitHub shows for deleted ones.
GHOST = "ghost"


def strict(read: Callable[P, T]) -> Callable[P, T]:
    """A reader whose complaints about what it is given are a failing server."""

    @wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            wanted = read.__name__.strip("_").replace("_", " ")
            raise ServerFailed(f"a request for {wanted} ({error!r})", 200) from error

    return reading


@strict
def number_of(payload: Payload) -> int:
    """The number by which GitHub knows something for good."""
    return int(payload["id"])


@strict
def word_of(payload: Payload, name: str) -> str:
    """A text that must be there."""
    return str(payload[name])


@strict
def labeller_of(event: Payload) -> tuple[str, str] | None:
    """The label that an event tells of, and who put it there; None for other events."""
    if event.get("event") != "labeled" or not event.get("label"):
        return None
    return label_name(event["label"]), str((event.get("actor") or {}).get("login") or GHOST)


@strict
def item(kind: ItemKind, payload: Payload, number: int = 0) -> Item:
    """An event. The number comes from the payload, except for reviews, which lack it."""
    return Item(
        kind=kind,
        id=int(payload["id"]),
        number=number or _number(kind, payload),
        author=author(payload),
        body=text(payload, "body"),
        updated_at=str(payload["submitted_at" if kind is ItemKind.REVIEW else "updated_at"]),
        payload=payload,
    )


def _number(kind: ItemKind, payload: Payload) -> int:
    if kind in (ItemKind.ISSUE, ItemKind.PULL):
        return int(payload["number"])
    if kind is ItemKind.WORKFLOW_RUN:
        # It belongs to a commit; whose pull request that is, the caller knows.
        return 0
    parent = "issue_url" if kind is ItemKind.ISSUE_COMMENT else "pull_request_url"
    return int(str(payload[parent]).rpartition("/")[2])


@strict
def repository(payload: Payload) -> Repository:
    """The repository itself."""
    return Repository(
        id=int(payload["id"]),
        name=RepoName.parse(payload["full_name"]),
        default_branch=str(payload["default_branch"]),
        private=bool(payload["private"]),
        can_push=bool((payload.get("permissions") or {}).get("push", False)),
    )


@strict
def issue(payload: Payload) -> Issue:
    """An issue."""
    return Issue(
        number=int(payload["number"]),
        title=text(payload, "title"),
        body=text(payload, "body"),
        state=str(payload["state"]),
        author=author(payload),
        labels=frozenset(label_name(label) for label in payload["labels"]),
        is_pull=payload.get("pull_request") is not None,
        updated_at=str(payload["updated_at"]),
        url=text(payload, "html_url"),
    )


@strict
def blocking(payload: Payload) -> Blocking:
    """An issue that another one waits for."""
    owner, name = str(payload["repository_url"]).rstrip("/").split("/")[-2:]
    found = issue(payload)
    return Blocking(RepoName(owner, name), found.number, found.title, found.state)


@strict
def pull_of(payload: Payload) -> Pull:
    """A pull request, from its full form or from a list."""
    return Pull(
        number=int(payload["number"]),
        title=text(payload, "title"),
        body=text(payload, "body"),
        state=str(payload["state"]),
        merged=payload.get("merged_at") is not None,
        draft=bool(payload.get("draft")),
        author=author(payload),
        head=str(payload["head"]["ref"]),
        head_sha=str(payload["head"]["sha"]),
        base=str(payload["base"]["ref"]),
        mergeable=payload.get("mergeable"),
        updated_at=str(payload["updated_at"]),
        url=text(payload, "html_url"),
    )


@strict
def run_of(payload: Payload) -> Run:
    """A workflow run."""
    return Run(
        id=int(payload["id"]),
        name=text(payload, "name") or f"workflow {payload.get('workflow_id', '')}".strip(),
        event=text(payload, "event"),
        head_sha=str(payload["head_sha"]),
        status=str(payload["status"]),
        conclusion=text(payload, "conclusion"),
        attempt=int(payload.get("run_attempt") or 1),
        branch=text(payload, "head_branch"),
        foreign=_is_foreign(payload),
        url=text(payload, "html_url"),
    )


def _is_foreign(payload: Payload) -> bool:
    here = (payload.get("repository") or {}).get("full_name")
    there = (payload.get("head_repository") or {}).get("full_name")
    return bool(here and there) and str(here).lower() != str(there).lower()


@strict
def job_of(payload: Payload) -> Job:
    """A job of a workflow run."""
    return Job(
        id=int(payload["id"]),
        name=str(payload["name"]),
        conclusion=text(payload, "conclusion"),
        url=text(payload, "html_url"),
    )


@strict
def made(payload: Payload) -> Made:
    """What a write answered with, or what was found in its place."""
    return Made(
        id=int(payload.get("id") or 0),
        number=int(payload.get("number") or 0),
        url=text(payload, "html_url"),
        updated_at=text(payload, "updated_at"),
    )


def author(payload: Payload) -> str:
    """The login of who wrote or caused it; accounts that are gone have none."""
    return str((payload.get("user") or payload.get("actor") or {}).get("login") or GHOST)


def text(payload: Payload, name: str) -> str:
    """A text that may be absent or null."""
    return str(payload.get(name) or "")


def blocker_count(payload: Payload) -> int | None:
    """How many issues one waits for, by its own words; None where it does not say."""
    summary = payload.get("issue_dependencies_summary")
    count = summary.get("total_blocked_by") if isinstance(summary, Mapping) else None
    return count if isinstance(count, int) else None


@strict
def label_name(label: Any) -> str:
    """A label's name; old lists have bare names."""
    return label if isinstance(label, str) else str(label["name"])
