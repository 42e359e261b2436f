"""What a webhook says of an event, besides action, repository and sender."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hostler.sandbox.entities import Comment, Issue
from hostler.sandbox.render import Frame, shaped
from hostler.sandbox.tables import Entity

Payload = Callable[[Any, str, Frame], dict[str, Any]]
_payloads: dict[str, Payload] = {}


def payload(event: str) -> Callable[[Payload], Payload]:
    """Register what an event's delivery says."""

    def register(function: Payload) -> Payload:
        _payloads[event] = function
        return function

    return register


def payload_of(event: str, item: Entity, action: str, frame: Frame) -> dict[str, Any]:
    """The event's own part of a delivery."""
    function = _payloads.get(event)
    return function(item, action, frame) if function else {item.kind: shaped(item, frame)}


@payload("issues")
def _issues(item: Issue, _action: str, frame: Frame) -> dict[str, Any]:
    return {"issue": shaped(item, frame)}


@payload("issue_comment")
def _issue_comment(item: Comment, _action: str, frame: Frame) -> dict[str, Any]:
    issue = frame.tables.get(Issue, item.issue_id)
    return {"comment": shaped(item, frame), "issue": shaped(issue, frame) if issue else None}
