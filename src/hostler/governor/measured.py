"""Rules: what a provider serves, measured in windows of answers and refusals."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.governor.overlay import Overlay

# As long as it takes to see some answers of each agent; shorter ones are noise.
WINDOW = timedelta(seconds=60)
# How often what runs is noted: each note is a write.
LOOK = timedelta(seconds=5)
# After so long without a look nobody knows what ran meanwhile; a service looks once a minute.
LONGEST_GAP = timedelta(seconds=180)
# How much a new quiet window says of an agent's pace: work differs from minute to minute.
PACE_GAIN = 0.2
# While more of the agents than this come or go, a window says nothing of their pace.
STEADY = 0.2
# With fewer answers in a window no pace is learned.
FEWEST_ANSWERS = 5
# With fewer words in a window nothing is served or refused often enough to be a part of anything.
FEWEST_WORDS = 5


def answered(overlay: Overlay, requests: int) -> Overlay:
    """Healthy responses: somebody is served."""
    return replace(
        overlay,
        window_answers=overlay.window_answers + requests,
        deaf_since=None,
        unanswered=0,
    )


def refused(overlay: Overlay, now: datetime, *, deadly: bool) -> Overlay:
    """A refusal that is measured, and since when nobody was answered."""
    return replace(
        overlay,
        rate_limit_events=overlay.rate_limit_events + 1,
        last_rate_limit_at=now,
        window_refusals=overlay.window_refusals + 1,
        window_deaths=overlay.window_deaths + (1 if deadly else 0),
        deaf_since=overlay.deaf_since or now,
        unanswered=overlay.unanswered + 1,
        growth=0,
        silent=overlay.silent and deadly,
    )


def noted(overlay: Overlay, now: datetime, active: int) -> Overlay:
    """What runs, added up over time; a window that nobody looked after begins anew."""
    if overlay.window_at is None or overlay.looked_at is None:
        return begun(overlay, now)
    since = now - overlay.looked_at
    if since > LONGEST_GAP:
        return begun(overlay, now)
    if since < LOOK:
        return overlay
    spent = overlay.agent_seconds + active * since.total_seconds()
    return replace(overlay, looked_at=now, agent_seconds=spent)


def begun(overlay: Overlay, now: datetime) -> Overlay:
    """An empty window."""
    return replace(
        overlay,
        window_at=now,
        looked_at=now,
        window_answers=0,
        window_refusals=0,
        window_deaths=0,
        agent_seconds=0.0,
    )


def forgotten(overlay: Overlay, now: datetime) -> Overlay:
    """An empty window, where what was heard says nothing of what will be."""
    if overlay.looked_at is not None and now - overlay.looked_at < LOOK:
        return overlay
    return replace(begun(overlay, now), deaf_since=None, unanswered=0)


def is_full(overlay: Overlay, now: datetime) -> bool:
    """Whether a window is long enough to be judged."""
    return overlay.window_at is not None and now - overlay.window_at >= WINDOW


def says_something(overlay: Overlay) -> bool:
    """Whether refusals of a window are more than one agent's bad moment; a death always is.

    Where nobody was answered and all go on trying, the provider may be gone: that is the breaker's.
    """
    if overlay.window_deaths > 0:
        return True
    words = overlay.window_answers + overlay.window_refusals
    return overlay.window_refusals > 0 and overlay.window_answers > 0 and words >= FEWEST_WORDS


def paced(overlay: Overlay, now: datetime, active: int) -> Overlay:
    """How often an agent is answered that nobody holds back: the pace of windows without refusals.

    In the first one after refusals agents still wait them out, and while many start none of the
    new ones has asked yet: neither says anything.
    """
    refusals = overlay.window_refusals > 0
    if not refusals and not overlay.refused_before and _is_steady(overlay, now, active):
        pace = overlay.window_answers / overlay.agent_seconds
        known = overlay.agent_rate
        overlay = replace(overlay, agent_rate=known + PACE_GAIN * (pace - known) if known else pace)
    return replace(overlay, refused_before=refusals)


def usual(overlay: Overlay, now: datetime) -> float:
    """How many agents ran in this window, on average."""
    if overlay.window_at is None:
        return 0.0
    return overlay.agent_seconds / max(1.0, (now - overlay.window_at).total_seconds())


def served_part(overlay: Overlay) -> float:
    """The part of what its agents would have asked that the provider really served.

    Without a known pace: the part of what they asked, though whoever is refused asks more often.
    """
    if overlay.agent_rate > 0 and overlay.agent_seconds > 0:
        return overlay.window_answers / overlay.agent_seconds / overlay.agent_rate
    return overlay.window_answers / max(1, overlay.window_answers + overlay.window_refusals)


def _is_steady(overlay: Overlay, now: datetime, active: int) -> bool:
    ran = usual(overlay, now)
    enough = overlay.window_answers >= FEWEST_ANSWERS and ran > 0
    return enough and abs(active - ran) <= STEADY * ran
