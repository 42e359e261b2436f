"""Issues become tasks; words become feedback, answers, or nothing. Always with a reason."""

from hostler.intake.applying import hear_since
from hostler.intake.byhand import request
from hostler.intake.effects import Decision
from hostler.intake.people import Watch, watch
from hostler.intake.preview import Preview, open_issues, preview
from hostler.intake.running import Unfinished, ask_runs, unfinished_of
from hostler.intake.signals import IssueSeen, Remark, RunSeen, read
from hostler.intake.taking import (
    Heard,
    Taken,
    ask_blocked_by,
    ask_labellers,
    blocked_by_of,
    labellers_of,
    take,
    waiting_events,
)

__all__ = [
    "Decision",
    "Heard",
    "IssueSeen",
    "Preview",
    "Remark",
    "RunSeen",
    "Taken",
    "Unfinished",
    "Watch",
    "ask_blocked_by",
    "ask_labellers",
    "ask_runs",
    "blocked_by_of",
    "hear_since",
    "labellers_of",
    "open_issues",
    "preview",
    "read",
    "request",
    "take",
    "unfinished_of",
    "waiting_events",
    "watch",
]
