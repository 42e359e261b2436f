"""How to tell whether a deed was done: by its marker and our name, or by its effect."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, assert_never
from urllib.parse import quote

from hostler.errors import NotFound
from hostler.forge import payloads
from hostler.forge.deeds import (
    CloseIssue,
    Comment,
    CreateLabel,
    Deed,
    EditComment,
    Label,
    OpenIssue,
    OpenPull,
    Reply,
    RerunFailedJobs,
    Unlabel,
    UpdatePull,
)
from hostler.forge.markers import titled, tokens_in
from hostler.forge.port import Feed, Item, ItemKind, Made

if TYPE_CHECKING:
    from hostler.forge.github import GitHub


def find(hub: GitHub, deed: Deed, key: str, since: datetime) -> Made | None:
    """What an earlier attempt has made, if it can be seen."""
    match deed:
        case Comment():
            return _marked(hub, hub.comments(deed.number, since), key)
        case Reply():
            return _marked(hub, hub.review_comments(deed.number, since), key)
        case EditComment():
            found = hub.remark(ItemKind.ISSUE_COMMENT, deed.comment_id)
            return _marked(hub, [found] if found else [], key)
        case OpenIssue():
            return _marked(hub, hub.changes(Feed.ISSUES, since).items, key)
        case OpenPull():
            return find_pull(hub, deed, key)
        case UpdatePull():
            return _updated(hub, deed, key)
        case CreateLabel():
            return find_label(hub, deed)
        case RerunFailedJobs():
            return find_rerun(hub, deed)
        case CloseIssue() | Label() | Unlabel():
            return _as_wanted(hub, deed)
        case _:
            assert_never(deed)


def is_ours(author: str, body: str, me: str, key: str) -> bool:
    """Whether a text is the one that we wrote with this key."""
    return author.lower() == me.lower() and key in tokens_in(body)


def find_pull(hub: GitHub, deed: OpenPull, key: str) -> Made | None:
    """The pull request of a branch: the one that we marked, else an open one."""
    pulls, me = hub.pulls_of(deed.head), hub.myself()
    for pull in pulls:
        if is_ours(payloads.author(pull), payloads.text(pull, "body"), me, key):
            return payloads.made(pull)
    for pull in pulls:
        if payloads.text(pull, "state") == "open" and payloads.pull_of(pull).base == deed.base:
            return payloads.made(pull)
    return None


def find_label(hub: GitHub, deed: CreateLabel) -> Made | None:
    """The repository's label of that name."""
    path = hub.client.path(f"labels/{quote(deed.name, safe='')}")
    try:
        return payloads.made(hub.client.read(path).data)
    except NotFound:
        return None


def find_rerun(hub: GitHub, deed: RerunFailedJobs) -> Made | None:
    """The run, if it has begun another attempt than the one that failed."""
    found = hub.workflow_run(deed.run_id)
    if found is None:
        raise NotFound(f"GET actions/runs/{deed.run_id}", 404, "Not Found")
    return Made(id=found.id) if payloads.run_of(found.payload).attempt > deed.attempt else None


def _marked(hub: GitHub, items: Iterable[Item], key: str) -> Made | None:
    me = hub.myself()
    for item in items:
        if is_ours(item.author, item.body, me, key):
            return payloads.made(item.payload)
    return None


def _updated(hub: GitHub, deed: UpdatePull, key: str) -> Made | None:
    item = hub.pull(deed.number)
    pull = payloads.pull_of(item.payload)
    same = (
        deed.title in (None, pull.title) or titled(deed.title or "") == pull.title,
        deed.body is None or key in tokens_in(pull.body),
        deed.state in (None, pull.state),
    )
    return payloads.made(item.payload) if all(same) else None


def _as_wanted(hub: GitHub, deed: CloseIssue | Label | Unlabel) -> Made | None:
    issue = hub.issue(deed.number)
    there = {label.lower() for label in issue.labels}
    match deed:
        case CloseIssue():
            done = issue.state == "closed"
        case Label():
            done = {label.lower() for label in deed.labels} <= there
        case Unlabel():
            done = deed.label.lower() not in there
    return Made(number=issue.number, url=issue.url) if done else None
