"""What becomes of a call by the answer. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.model import stamp
from hostler.service.notify.posting import Refused
from hostler.store.operator import Notice, NoticeState

MOST_ATTEMPTS = 6
FIRST_WAIT = timedelta(seconds=10)
LONGEST_WAIT = timedelta(minutes=10)


def after(notice: Notice, refused: Refused | None, now: datetime) -> Notice:
    """A notice after one attempt to send it: sent, later, or given up."""
    tried = replace(notice, attempts=notice.attempts + 1)
    if refused is None:
        return replace(tried, state=NoticeState.SENT, last_error="")
    told = replace(tried, last_error=refused.why[:500])
    if not refused.again or tried.attempts >= MOST_ATTEMPTS:
        return replace(told, state=NoticeState.FAILED)
    wait = max(FIRST_WAIT * 2 ** (tried.attempts - 1), timedelta(seconds=refused.after))
    return replace(told, not_before=stamp(now + min(wait, LONGEST_WAIT)))
