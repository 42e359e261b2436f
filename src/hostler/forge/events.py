"""Events of a code host in Hostler's own form: their content, its storage, and their keys.

The inbox stores this form, so that only the package of a code host parses that host's JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from hashlib import sha256
from types import NoneType
from typing import Any, TypeVar

from hostler.errors import ServerFailed
from hostler.forge.port import (
    ActionResult,
    CommentContent,
    Issue,
    Item,
    ItemContent,
    ItemKind,
    Pull,
    WorkflowRun,
)

C = TypeVar("C", Issue, Pull, CommentContent, WorkflowRun)

_CONTENT_TYPES: dict[ItemKind, type[ItemContent]] = {
    ItemKind.ISSUE: Issue,
    ItemKind.PULL: Pull,
    ItemKind.ISSUE_COMMENT: CommentContent,
    ItemKind.REVIEW_COMMENT: CommentContent,
    ItemKind.REVIEW: CommentContent,
    ItemKind.WORKFLOW_RUN: WorkflowRun,
}
# JSON types by the annotations of the content's fields.
_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "str": (str,),
    "bool": (bool,),
    "int | None": (int, NoneType),
    "bool | None": (bool, NoneType),
    "frozenset[str]": (list,),
}


def encode_content(content: ItemContent | None) -> str:
    """Encode content for the inbox; `null` if the code host's answer was invalid."""
    return json.dumps(asdict(content) if content else None, default=sorted)


def decode_content(kind: str, text: str) -> ItemContent:
    """Decode stored content. Raise ValueError if it is invalid."""
    content_type = _CONTENT_TYPES[ItemKind(kind)]
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError(f"no {kind}")
    known: dict[str, Any] = {}
    for field in fields(content_type):
        if field.name in values:
            known[field.name] = _decode_field(str(field.type), values[field.name])
    try:
        return content_type(**known)
    except TypeError as error:  # a field is missing
        raise ValueError(str(error)) from error


def _decode_field(annotation: str, value: object) -> object:
    if type(value) not in _JSON_TYPES[annotation]:
        raise ValueError(f"not of type {annotation}: {value!r:.100}")
    if not isinstance(value, list):
        return value
    if not all(isinstance(one, str) for one in value):
        raise ValueError("not a list of texts")
    return frozenset(value)


def content_as(item: Item, content_type: type[C]) -> C:
    """Return the content of an item. Raise `ServerFailed` if it is invalid."""
    if not isinstance(item.content, content_type):
        raise ServerFailed(f"a request for {item.kind.replace('_', ' ')} {item.id}", 200)
    return item.content


def item_result(item: Item) -> ActionResult:
    """Return an item as the result of the action that created it."""
    has_number = item.kind in (ItemKind.ISSUE, ItemKind.PULL)
    return ActionResult(
        id=item.id,
        number=item.number if has_number else 0,
        url=item.content.url if item.content else "",
        updated_at=item.updated_at,
    )


def event_key(item: Item) -> str:
    """Return the key of an event: `issue_comment:123:2026-01-31T12:00:00Z:1f3e95338aef`.

    It contains the object, its version and a digest of what a user can change: timestamps may be
    whole seconds, so that a second edit in the same second has the same version.
    """
    content = json.dumps(_digested_fields(item), sort_keys=True, ensure_ascii=True)
    digest = sha256(content.encode()).hexdigest()[:12]
    return f"{item.kind}:{item.id}:{item.updated_at}:{digest}"


def _digested_fields(item: Item) -> dict[str, Any]:
    found: dict[str, Any] = {"author": item.author, "body": item.body}
    match item.content:
        case Issue() as issue:
            found |= {"title": issue.title, "state": issue.state, "locked": issue.locked}
            found["state_reason"] = issue.state_reason or None
            found["labels"] = sorted(issue.labels)
            found["waits_for"] = issue.blocker_count
        case Pull() as pull:
            found |= {"title": pull.title, "state": pull.state, "draft": pull.draft}
            found |= {"merged_at": pull.merged_at or None, "head": pull.head_sha}
            found["base"] = pull.base
        case WorkflowRun() as run:
            found |= {"head_sha": run.head_sha, "status": run.status}
            found |= {"conclusion": run.conclusion or None, "run_attempt": run.attempt}
        case CommentContent() as comment if item.kind is ItemKind.REVIEW:
            found["state"] = comment.verdict
    return found
