"""The verdict on a recorded stream, as `hostler agents classify` explains it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hostler.agents.clocktime import dated
from hostler.agents.errors import RecordingUnreadable
from hostler.agents.lines import CHUNK, Line, Splitter, Stream
from hostler.agents.outcomes import meaning
from hostler.agents.port import AgentKind
from hostler.agents.tally import Tally, tally
from hostler.agents.verdict import End, EndedBy, Verdict, judge


@dataclass(frozen=True, slots=True)
class Classified:
    """A verdict, and all that the stream told on the way to it."""

    verdict: Verdict
    tally: Tally

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        verdict, tally, limit = self.verdict, self.tally, self.verdict.limit
        return {
            "outcome": verdict.outcome.value,
            "decided_by": verdict.decided_by.value,
            "why": verdict.why,
            "next": meaning(verdict.outcome).next.value,
            "resets_at": (limit.resets_at or None) if limit else None,
            "retry_after_seconds": (limit.retry_after_seconds or None) if limit else None,
            "session": tally.session or None,
            "usage": {
                "input_tokens": tally.usage.input_tokens,
                "output_tokens": tally.usage.output_tokens,
                "cached_tokens": tally.usage.cached_tokens,
                "usd": tally.usd,
            },
        }


def classify(
    kind: AgentKind,
    lines: Iterable[Line],
    exit_code: int | None,
    ended_by: EndedBy,
    said_at: datetime | None = None,
) -> Classified:
    """How a run with these lines and this end is judged; files that an agent leaves aside. Pure.

    `said_at`: when it was recorded, for times that it names by the clock.
    """
    heard = Tally()
    for line in lines:
        events = kind.events(line)
        heard = tally([dated(one, said_at) for one in events] if said_at else events, heard)
    return Classified(judge(End(ended_by, exit_code, heard), kind.own_word), heard)


def recorded(stdout: Path | None, stderr: Path | None) -> Iterator[Line]:
    """The lines of a recording; one stream after the other, as a run's are judged too."""
    for path, stream in ((stdout, Stream.STDOUT), (stderr, Stream.STDERR)):
        if path is not None:
            yield from _lines_of(path, stream)


def recorded_at(stdout: Path | None) -> datetime | None:
    """When the last line of a recording was written; None where that is not known."""
    try:
        return datetime.fromtimestamp(stdout.stat().st_mtime, UTC) if stdout else None
    except (OSError, ValueError, OverflowError):
        return None


def _lines_of(path: Path, stream: Stream) -> Iterator[Line]:
    splitter = Splitter(stream)
    try:
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                yield from splitter.feed(data)
    except OSError as error:
        raise RecordingUnreadable(path, error) from error
    yield from splitter.finish()
