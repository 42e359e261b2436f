"""Rules of supervision, as functions of what is known: no clock, no process is touched here."""

from __future__ import annotations

STOP, WALL, STALL = "stop", "wall_timeout", "stall"
# Without a signal, a request to stop is noticed this late at most.
LONGEST_LOOK = 60.0
LONGEST_SILENT_LOOK = 30.0
SHORTEST_LOOK = 0.01


class Limits:
    """How long a run may last, and how long it may be silent; 0 is without end."""

    __slots__ = ("silence", "wall")

    def __init__(self, wall: float, silence: float) -> None:
        self.wall = wall
        self.silence = silence


class Sight:
    """What was seen of the agent: bytes written, its account of ended children, a tool at work."""

    __slots__ = ("reaped", "tool_runs", "written")

    def __init__(self, written: int, reaped: int = 0, *, tool_runs: bool = False) -> None:
        self.written = written
        self.reaped = reaped
        self.tool_runs = tool_runs


class Watch:
    """When the run began, and since when the agent has been silent."""

    __slots__ = ("began", "quiet_since", "sight")

    def __init__(self, began: float, quiet_since: float, sight: Sight) -> None:
        self.began = began
        self.quiet_since = quiet_since
        self.sight = sight


def begin(now: float) -> Watch:
    """The watch over an agent that starts now."""
    return Watch(now, now, Sight(0))


def seen(watch: Watch, sight: Sight, now: float) -> Watch:
    """After a look: output, a tool at work or one that has ended break the silence."""
    before = watch.sight
    same = sight.written == before.written and sight.reaped == before.reaped
    quiet = same and not sight.tool_runs
    return Watch(watch.began, watch.quiet_since if quiet else now, sight)


def verdict(watch: Watch, limits: Limits, now: float, *, stop_asked: bool) -> str | None:
    """Why the run has to end now, if it has to."""
    if stop_asked:
        return STOP
    if limits.wall and now - watch.began >= limits.wall:
        return WALL
    if limits.silence and now - watch.quiet_since >= limits.silence:
        return STALL
    return None


def next_look(watch: Watch, limits: Limits, now: float) -> float:
    """Seconds until the next look at the agent."""
    looks = [LONGEST_LOOK]
    if limits.wall:
        looks.append(watch.began + limits.wall - now)
    if limits.silence:
        # Ten looks per limit: late by a tenth at most, as silence counts from look to look.
        looks.append(min(limits.silence / 10, LONGEST_SILENT_LOOK))
        looks.append(watch.quiet_since + limits.silence - now)
    return max(SHORTEST_LOOK, min(looks))
