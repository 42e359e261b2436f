"""Judge a finished run from its files, or a recorded stream for `hostler agents classify`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hostler.agents.adapters.base import AgentKind
from hostler.agents.adapters.provider_errors import resolve_clock_time
from hostler.agents.adapters.registry import find_kind
from hostler.agents.agent_files import CHUNK_BYTES, LineSplitter, OutputLine, OutputStream
from hostler.agents.assignment import DONE_FILE, RESULT_FILE
from hostler.agents.errors import RecordingUnreadable
from hostler.agents.events import StreamTally, tally_events
from hostler.agents.outcomes import outcome_meaning
from hostler.agents.result import read_done, read_result
from hostler.agents.verdict import EndedBy, ProcessExit, RunEnd, RunVerdict, judge_run
from hostler.config.settings import Agent


@dataclass(frozen=True, slots=True)
class Classification:
    """A verdict and the events that led to it."""

    verdict: RunVerdict
    tally: StreamTally

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        verdict, tally, limit = self.verdict, self.tally, self.verdict.limit
        return {
            "outcome": verdict.outcome.value,
            "decided_by": verdict.decided_by.value,
            "why": verdict.why,
            "next": outcome_meaning(verdict.outcome).next.value,
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


def classify_lines(
    kind: AgentKind,
    lines: Iterable[OutputLine],
    exit_code: int | None,
    ended_by: EndedBy,
    said_at: datetime | None = None,
) -> Classification:
    """Judge a run with these lines and this end, without result files. Pure.

    `said_at`: when it was recorded, for clock times in the stream.
    """
    stderr_tally = StreamTally()
    for line in lines:
        events = kind.events(line)
        stderr_tally = tally_events(
            [resolve_clock_time(one, said_at) for one in events] if said_at else events,
            stderr_tally,
        )
    return Classification(
        judge_run(RunEnd(ended_by, exit_code, stderr_tally), kind.program_verdict), stderr_tally
    )


def read_recording(stdout: Path | None, stderr: Path | None) -> Iterator[OutputLine]:
    """Return the lines of a recording, one stream after the other, as for a run."""
    for path, stream in ((stdout, OutputStream.STDOUT), (stderr, OutputStream.STDERR)):
        if path is not None:
            yield from _read_lines(path, stream)


def recording_time(stdout: Path | None) -> datetime | None:
    """Return when the last line of a recording was written; None if unknown."""
    try:
        return datetime.fromtimestamp(stdout.stat().st_mtime, UTC) if stdout else None
    except (OSError, ValueError, OverflowError):
        return None


def _read_lines(path: Path, stream: OutputStream) -> Iterator[OutputLine]:
    splitter = LineSplitter(stream)
    try:
        with path.open("rb") as file:
            while data := file.read(CHUNK_BYTES):
                yield from splitter.feed(data)
    except OSError as error:
        raise RecordingUnreadable(path, error) from error
    yield from splitter.finish()


def judge_finished_run(
    agent: Agent,
    run_dir: Path,
    task_dir: Path,
    exit: ProcessExit,
    tally: StreamTally,
) -> RunVerdict:
    """Judge a run that has no process left. Repeated calls give the same verdict."""
    end = RunEnd(
        ended_by=exit.ended_by,
        exit_code=exit.code,
        reason=exit.reason,
        tally=tally,
        result=read_result(run_dir / RESULT_FILE),
        done=read_done(task_dir / DONE_FILE),
    )
    return judge_run(end, find_kind(agent).program_verdict)
