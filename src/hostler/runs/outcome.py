"""Read an agent's streams from the stored offsets, and derive usage, limits and the outcome."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from hostler.agents.adapters.provider_errors import resolve_clock_time
from hostler.agents.adapters.registry import find_kind
from hostler.agents.agent_files import OutputLine, OutputStream, OutputTail
from hostler.agents.classify import recording_time
from hostler.agents.events import (
    MAX_MESSAGE_NAME,
    Event,
    Finished,
    Headroom,
    LimitSignal,
    RequestFailed,
    Retrying,
    StreamTally,
    Text,
    ToolUse,
    Usage,
    tally_events,
)
from hostler.agents.outcomes import LIMIT_OUTCOMES, NextAction, Outcome, outcome_meaning
from hostler.agents.result import AgentResult
from hostler.agents.verdict import DecidedBy, EndedBy, ProcessExit, RunVerdict
from hostler.clock import Clock
from hostler.config.settings import Agent
from hostler.store.governor import Signal, Source
from hostler.store.runs import Run
from hostler.telemetry.redaction import redact

# An agent can print a line of megabytes; the row keeps its start.
MAX_TEXT_CHARS = 2_000
MAX_TALLY_CHARS = 64 * MAX_TEXT_CHARS


def dump_tally(tally: StreamTally) -> str:
    """Return a tally as JSON."""
    return json.dumps(asdict(shorten_tally(tally)))


def load_tally(text: str | None) -> StreamTally:
    """Return the tally of a stored JSON text; an empty one for None."""
    if not text:
        return StreamTally()
    raw = json.loads(text)
    return StreamTally(
        session=raw["session"],
        usage=Usage(**raw["usage"]),
        usd=raw["usd"],
        limit=_load_limit(raw["limit"]),
        finished=_load_finished(raw["finished"]),
        last_text=raw["last_text"],
        # Tallies stored by an older version do not have these.
        fault=_load_fault(raw.get("fault")),
        parts=tuple(Usage(**one) for one in raw.get("parts") or filter(None, [raw.get("part")])),
        flowing=raw.get("flowing", False),
        said=raw.get("said", True),
        aside=raw.get("aside", ""),
        answered=raw.get("answered", bool(raw["last_text"])),
        held=tuple(filter(None, map(_load_limit, raw.get("held", ())))),
    )


def shorten_tally(tally: StreamTally) -> StreamTally:
    """Return the tally with all texts shortened."""
    finished = tally.finished
    if finished:
        finished = replace(finished, text=storable_text(finished.text))
    return replace(
        tally,
        session=storable_text(tally.session),
        finished=finished,
        last_text=storable_text(tally.last_text),
        aside=storable_text(tally.aside),
    )


def storable_text(text: str) -> str:
    """Return the start of a text, without secrets and in characters that every database accepts."""
    # Redact before cutting: half of a secret would not be recognised.
    start = redact(text[:MAX_TALLY_CHARS])[:MAX_TEXT_CHARS]
    return start.replace("\0", "").encode("utf-8", "replace").decode()


def dump_limit(limit: LimitSignal | None) -> str | None:
    """Return a limit as JSON."""
    return json.dumps(asdict(limit)) if limit else None


def load_limit(text: str | None) -> LimitSignal | None:
    """Return the limit of a stored JSON text."""
    return _load_limit(json.loads(text)) if text else None


def _load_limit(raw: dict[str, Any] | None) -> LimitSignal | None:
    return LimitSignal(**{**raw, "reason": Outcome(raw["reason"])}) if raw else None


def _load_fault(raw: dict[str, Any] | None) -> RequestFailed | None:
    return RequestFailed(**{**raw, "reason": Outcome(raw["reason"])}) if raw else None


def _load_finished(raw: dict[str, Any] | None) -> Finished | None:
    if not raw:
        return None
    outcome = raw["outcome"]
    return Finished(**{**raw, "outcome": Outcome(outcome) if outcome else None})


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit, and how many times in a row it was reported."""

    signal: LimitSignal
    times: int = 1


def find_limit(event: Event) -> LimitSignal | None:
    """Return the limit that an event reports. A retry for another reason is not a limit."""
    if isinstance(event, LimitSignal):
        return event
    if isinstance(event, Retrying) and event.reason in LIMIT_OUTCOMES:
        return LimitSignal(event.reason, event.status, event.seconds)
    return None


def append_limit(known: Sequence[Limit], signal: LimitSignal) -> tuple[Limit, ...]:
    """Return the limits with one more. A repetition is counted: hours of retries make one row."""
    if known and _is_same_limit(known[-1].signal, signal):
        return (*known[:-1], replace(known[-1], signal=signal, times=known[-1].times + 1))
    return (*known, Limit(signal))


def live_signals(run: Run, limits: Iterable[Limit]) -> Iterator[Signal]:
    """Return rows for limits that were reported while the agent was running."""
    return (_signal_row(run, one.signal, Source.LIVE, one.times) for one in limits)


def death_signals(run: Run) -> Iterator[Signal]:
    """Return the row for a run that was ended by a limit, if it was."""
    if run.outcome in LIMIT_OUTCOMES:
        stored = load_limit(run.limit_signal)
        reason = next(one for one in LIMIT_OUTCOMES if one == run.outcome)
        yield _signal_row(
            run, replace(stored or LimitSignal(reason), reason=reason), Source.DEATH, 1
        )


def _is_same_limit(one: LimitSignal, other: LimitSignal) -> bool:
    return (one.reason, one.status, one.resets_at) == (other.reason, other.status, other.resets_at)


def _signal_row(run: Run, signal: LimitSignal, source: Source, times: int) -> Signal:
    return Signal(
        run=run.run,
        pool=run.pool,
        task_id=run.task_id,
        project=run.project,
        source=source,
        reason=signal.reason.value,
        status=min(signal.status, 999),
        retry_after_seconds=signal.retry_after_seconds,
        resets_at=storable_text(signal.resets_at)[:40],
        times=times,
    )


@dataclass(frozen=True, slots=True)
class ProviderSignals:
    """What was read about the provider and is not stored yet.

    `responses`: healthy model responses.
    """

    limits: tuple[Limit, ...] = ()
    headrooms: tuple[Headroom, ...] = ()
    responses: int = 0

    def __bool__(self) -> bool:
        """Return whether there is any signal."""
        return bool(self.limits or self.headrooms or self.responses)


def starts_response(events: Sequence[Event], before: StreamTally) -> bool:
    """Return whether a line starts a model response. A response of several lines counts once."""
    named = [
        event.of[:MAX_MESSAGE_NAME] for event in events if isinstance(event, Usage) and event.of
    ]
    if named:
        return named[-1] not in {part.of for part in before.parts}
    return any(_is_response(event, before) for event in events)


def _is_response(event: Event, before: StreamTally) -> bool:
    if isinstance(event, Text):
        return not (event.delta and before.flowing)
    return isinstance(event, ToolUse)


# Stored instead of an outcome: there was no agent, and the attempt does not count.
NEVER_STARTED = "never_started"
UNREQUESTED_STOP = (
    "A stop file in the run folder ended the run, but Hostler had not requested a stop."
)
# Agents can write any number into streams and files; columns hold this much.
MAX_COUNT = 2**53
MAX_EXIT_CODE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far both streams were read, in bytes."""

    stdout: int = 0
    stderr: int = 0


@dataclass(frozen=True, slots=True)
class RunEnding:
    """Everything that is stored when a run's processes have exited.

    `counted`: there was an agent.
    """

    verdict: RunVerdict
    exit: ProcessExit
    counted: bool
    tally: StreamTally = field(default_factory=StreamTally)
    offsets: Offsets = field(default_factory=Offsets)
    # Signals since the row was last written.
    limits: tuple[Limit, ...] = ()
    # Limits in the final message: if they ended the run, its outcome reports them.
    final_limits: tuple[Limit, ...] = ()
    headrooms: tuple[Headroom, ...] = ()
    responses: int = 0

    def live_limits(self, run: Run) -> tuple[Limit, ...]:
        """Return the limits that are not already reported as the cause of the run's end."""
        return self.limits if run.outcome in LIMIT_OUTCOMES else (*self.limits, *self.final_limits)

    def provider_signals(self, run: Run) -> ProviderSignals:
        """Return all signals that are not already reported as the cause of the run's end."""
        return ProviderSignals(self.live_limits(run), self.headrooms, self.responses)


def ending_without_agent(
    outcome: Outcome, why: str, by: DecidedBy = DecidedBy.NOT_STARTED
) -> RunEnding:
    """Return the ending of a run whose agent was not started."""
    verdict = RunVerdict(outcome, by, why)
    return RunEnding(verdict, ProcessExit(EndedBy.NOT_STARTED, reason=why), counted=False)


def apply_stop_request(verdict: RunVerdict, stop_why: str | None) -> RunVerdict:
    """Return the verdict with a stop request applied; a valid result of the agent is kept.

    Only the run's row counts: the agent can write stop.json itself, so its text is not repeated.
    """
    if stop_why is None and verdict.decided_by is DecidedBy.STOP:
        return replace(
            verdict, outcome=Outcome.CRASH, decided_by=DecidedBy.LOST, why=UNREQUESTED_STOP
        )
    if stop_why is None:
        return verdict
    why = f"Stopped on request: {stop_why}"
    return replace(verdict, outcome=Outcome.INTERRUPTED, decided_by=DecidedBy.STOP, why=why)


def usage_columns(
    tally: StreamTally, offsets: Offsets, own: StreamTally | None = None
) -> dict[str, Any]:
    """Return the columns for usage and offsets.

    `own`: the tally of this run alone, for programs that count the whole session.
    """
    spent = own or tally
    return {
        "stdout_offset": offsets.stdout,
        "stderr_offset": offsets.stderr,
        "tally": dump_tally(tally),
        "input_tokens": min(spent.usage.input_tokens, MAX_COUNT),
        "output_tokens": min(spent.usage.output_tokens, MAX_COUNT),
        "cached_tokens": min(spent.usage.cached_tokens, MAX_COUNT),
        "usd": spent.usd,
        "session": storable_text(tally.session) or None,
    }


def verdict_columns(
    ending: RunEnding, stop_why: str | None, own: StreamTally | None = None
) -> dict[str, Any]:
    """Return the columns for how a run ended."""
    verdict = apply_stop_request(ending.verdict, stop_why)
    code = ending.exit.code
    return {
        **usage_columns(ending.tally, ending.offsets, own),
        "outcome": verdict.outcome.value,
        "decided_by": verdict.decided_by.value,
        "why": storable_text(verdict.why),
        "result": verdict.result.model_dump_json() if verdict.result else None,
        "limit_signal": dump_limit(verdict.limit),
        "exit_code": code if code is None or abs(code) <= MAX_EXIT_CODE else None,
        "ended_by": ending.exit.ended_by.value,
        "counted": int(ending.counted),
    }


def verdict_of(run: Run) -> RunVerdict:
    """Return the stored verdict, so that a repeated finish sees what the first one saw."""
    if run.outcome in {None, NEVER_STARTED} or run.decided_by is None:
        raise ValueError(f"the run {run.run} has no outcome yet")
    return RunVerdict(
        Outcome(run.outcome),
        DecidedBy(run.decided_by),
        run.why or "",
        AgentResult.model_validate_json(run.result) if run.result else None,
        load_limit(run.limit_signal),
    )


def next_action(run: Run) -> NextAction:
    """Return what the task does after this run. A late stop request counts too."""
    if run.stop_why is not None:
        return NextAction.STOP
    return (
        NextAction.RETRY
        if run.outcome == NEVER_STARTED
        else outcome_meaning(verdict_of(run).outcome).next
    )


# The newest ones per read are kept: an agent can print any number of them.
MAX_LIMITS_PER_READ = 50


class StreamReader:
    """Reads both streams of a run and accumulates usage, limits and the last message."""

    def __init__(self, run: Run, folder: Path, clock: Clock) -> None:
        self._clock = clock
        self._folder = folder
        self._kind = find_kind(agent_settings_of(run))
        self._stdout = OutputTail(
            folder / OutputStream.STDOUT, OutputStream.STDOUT, run.stdout_offset
        )
        self._stderr = OutputTail(
            folder / OutputStream.STDERR, OutputStream.STDERR, run.stderr_offset
        )
        self.tally = load_tally(run.tally)
        # Signals since the last `mark_stored`.
        self._limits: tuple[Limit, ...] = ()
        self._headrooms: tuple[Headroom, ...] = ()
        self._responses = 0

    @property
    def offsets(self) -> Offsets:
        """Where the lines start that are not in the tally yet."""
        return Offsets(self._stdout.offset, self._stderr.offset)

    def read(self) -> bool:
        """Read all complete lines. Return whether there were any."""
        before = self.offsets
        self._consume(self._stdout.lines(), self._written_at(OutputStream.STDOUT))
        self._consume(self._stderr.lines(), self._written_at(OutputStream.STDERR))
        return self.offsets != before

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Limits that were read and are not stored yet."""
        return self._limits[-MAX_LIMITS_PER_READ:]

    @property
    def final_limits(self) -> tuple[Limit, ...]:
        """Limits reported by the final message, as long as nothing follows it.

        If the run ends with them, its end reports them. They are part of the tally, so that a
        reader that continues from the stored offset has them too.
        """
        return tuple(map(Limit, self.tally.held))

    @property
    def signals(self) -> ProviderSignals:
        """All provider signals that were read and are not stored yet."""
        return ProviderSignals(self.limits, self._headrooms, self._responses)

    def mark_stored(self) -> None:
        """Forget signals that are in the database now."""
        self._limits, self._headrooms, self._responses = (), (), 0

    def read_rest(self) -> None:
        """Read everything that is left, when nothing writes any more."""
        self._consume(self._stdout.rest(), self._written_at(OutputStream.STDOUT))
        self._consume(self._stderr.rest(), self._written_at(OutputStream.STDERR))

    def _written_at(self, stream: OutputStream) -> datetime:
        """Return when the stream was last written, which can be long ago if nobody read it."""
        now = self._clock.now()
        return min(now, recording_time(self._folder / stream) or now)

    def _consume(self, lines: Iterable[OutputLine], written_at: datetime) -> None:
        for line in lines:
            # Resolve a clock time without a date now: it would mean another day later.
            events = [resolve_clock_time(one, written_at) for one in self._kind.events(line)]
            self._responses += starts_response(events, self.tally)
            # Only the newest one: it replaces earlier ones.
            self._headrooms = (
                tuple(e for e in events if isinstance(e, Headroom))[-1:] or self._headrooms
            )
            # Shorten at once, so that an adopted run is classified like any other.
            self.tally = shorten_tally(tally_events(events, self.tally))
            signals = [signal for signal in map(find_limit, events) if signal is not None]
            if any(isinstance(one, Finished) and not one.ok for one in events):
                self._hold_limits(signals)
            else:
                self._release_limits(line, signals)

    def _hold_limits(self, signals: Sequence[LimitSignal]) -> None:
        """Hold back the limits of a final message; the same message twice counts once."""
        if tuple(signals) != self.tally.held:
            self._add_limits(self.tally.held)
        self.tally = replace(self.tally, held=tuple(signals))

    def _release_limits(self, line: OutputLine, signals: Sequence[LimitSignal]) -> None:
        """Add held limits after all, because more output followed.

        stderr may lag behind, so it does not.
        """
        if line.stream is OutputStream.STDOUT:
            self._add_limits(self.tally.held)
            self.tally = replace(self.tally, held=())
        self._add_limits(signals)

    def _add_limits(self, signals: Iterable[LimitSignal]) -> None:
        for signal in signals:
            self._limits = append_limit(self._limits, signal)


def agent_settings_of(run: Run) -> Agent:
    """Return the part of an agent's settings that reading its streams needs."""
    return Agent(kind=cast(Any, run.agent_kind))
