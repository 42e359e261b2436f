"""GitHub: client, outbox, feeds, credentials."""

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
from hostler.forge.feeds import Meter, Plan, Poller, Scanned, Tap, Window, consume, pending, scan
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
