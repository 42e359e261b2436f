"""The rule of novelty: an event is new if its key was never seen.

The key holds what it is, its version, and a digest of what a person can change, because
GitHub's moments are whole seconds: a second edit in the same second has the same version.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from hostler.forge.payloads import author, blocker_count, label_name
from hostler.forge.port import Item, ItemKind


def event_key(item: Item) -> str:
    """`issue_comment:123:2026-01-31T12:00:00Z:1f3e95338aef`."""
    content = json.dumps(_content(item), sort_keys=True, ensure_ascii=True)
    digest = sha256(content.encode()).hexdigest()[:12]
    return f"{item.kind}:{item.id}:{item.updated_at}:{digest}"


def _content(item: Item) -> dict[str, Any]:
    payload = item.payload
    found: dict[str, Any] = {"author": author(payload), "body": item.body}
    if item.kind is ItemKind.ISSUE:
        found |= {name: payload.get(name) for name in ("title", "state", "state_reason", "locked")}
        found["labels"] = sorted(label_name(label) for label in payload.get("labels") or ())
        found["waits_for"] = blocker_count(payload)
    elif item.kind is ItemKind.REVIEW:
        found["state"] = payload.get("state")
    elif item.kind is ItemKind.PULL:
        names = ("title", "state", "draft", "merged_at")
        found |= {name: payload.get(name) for name in names}
        found["head"] = (payload.get("head") or {}).get("sha")
        found["base"] = (payload.get("base") or {}).get("ref")
    elif item.kind is ItemKind.WORKFLOW_RUN:
        names = ("head_sha", "status", "conclusion", "run_attempt")
        found |= {name: payload.get(name) for name in names}
    return found
