"""GitHub: client, outbox, feeds, credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostler.lazily import parts_of

if TYPE_CHECKING:
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
    from hostler.forge.feeds import Meter, Plan, Poller, Scanned, Tap, Window, consume, pending
    from hostler.forge.feeds.scan import scan
    from hostler.forge.opening import Hub, open_hub
    from hostler.forge.outbox import Pace, Reconciler, Sender, Settled, enqueue, token_of
    from hostler.forge.payloads import pull_of
    from hostler.forge.port import Blocking, Forge, Issue, Item, ItemKind, Made, Pull, Repository

__all__ = [
    "Blocking",
    "CloseIssue",
    "Comment",
    "CreateLabel",
    "Deed",
    "EditComment",
    "Forge",
    "Hub",
    "Issue",
    "Item",
    "ItemKind",
    "Label",
    "Made",
    "Meter",
    "OpenIssue",
    "OpenPull",
    "Pace",
    "Plan",
    "Poller",
    "Pull",
    "Reconciler",
    "Reply",
    "Repository",
    "RerunFailedJobs",
    "Scanned",
    "Sender",
    "Settled",
    "Tap",
    "Unlabel",
    "UpdatePull",
    "Window",
    "consume",
    "enqueue",
    "open_hub",
    "pending",
    "pull_of",
    "scan",
    "token_of",
]

__getattr__ = parts_of(
    __name__,
    {
        "Blocking": "port",
        "CloseIssue": "deeds",
        "Comment": "deeds",
        "CreateLabel": "deeds",
        "Deed": "deeds",
        "EditComment": "deeds",
        "Forge": "port",
        "Hub": "opening",
        "Issue": "port",
        "Item": "port",
        "ItemKind": "port",
        "Label": "deeds",
        "Made": "port",
        "Meter": "feeds",
        "OpenIssue": "deeds",
        "OpenPull": "deeds",
        "Pace": "outbox",
        "Plan": "feeds",
        "Poller": "feeds",
        "Pull": "port",
        "Reconciler": "outbox",
        "Reply": "deeds",
        "Repository": "port",
        "RerunFailedJobs": "deeds",
        "Scanned": "feeds",
        "Sender": "outbox",
        "Settled": "outbox",
        "Tap": "feeds",
        "Unlabel": "deeds",
        "UpdatePull": "deeds",
        "Window": "feeds",
        "consume": "feeds",
        "enqueue": "outbox",
        "open_hub": "opening",
        "pending": "feeds",
        "pull_of": "payloads",
        "scan": "feeds.scan",
        "token_of": "outbox",
    },
)
