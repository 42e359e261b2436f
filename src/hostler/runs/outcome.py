"""Read an agent's stream from its stored offset, and turn what it says into an outcome."""

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

# An agent may print a line of megabytes; a row keeps its beginning.
MAX_TEXT_CHARS = 2_000
MAX_TALLY_CHARS = 64 * MAX_TEXT_CHARS


def dump_tally(tally: StreamTally) -> str:
    """A tally as text."""
    return json.dumps(asdict(shortened(tally)))


def load_tally(text: str | None) -> StreamTally:
    """The tally behind a stored text; an empty one before the first."""
    if not text:
        return StreamTally()
    raw = json.loads(text)
    return StreamTally(
        session=raw["session"],
        usage=Usage(**raw["usage"]),
        usd=raw["usd"],
        limit=_limit(raw["limit"]),
        finished=_finished(raw["finished"]),
        last_text=raw["last_text"],
        # Runs that were begun by an older version do not have these.
        fault=_fault(raw.get("fault")),
        parts=tuple(Usage(**one) for one in raw.get("parts") or filter(None, [raw.get("part")])),
        flowing=raw.get("flowing", False),
        said=raw.get("said", True),
        aside=raw.get("aside", ""),
        answered=raw.get("answered", bool(raw["last_text"])),
        held=tuple(filter(None, map(_limit, raw.get("held", ())))),
    )


def shortened(tally: StreamTally) -> StreamTally:
    """The same with texts of bearable length."""
    finished = tally.finished
    if finished:
        finished = replace(finished, text=printable(finished.text))
    return replace(
        tally,
        session=printable(tally.session),
        finished=finished,
        last_text=printable(tally.last_text),
        aside=printable(tally.aside),
    )


def printable(text: str) -> str:
    """The beginning of a text, as every database takes it, and without secrets that we know."""
    # Hidden before it is cut: half of a secret would not be known any more.
    begun = redact(text[:MAX_TALLY_CHARS])[:MAX_TEXT_CHARS]
    return begun.replace("\0", "").encode("utf-8", "replace").decode()


def dump_limit(limit: LimitSignal | None) -> str | None:
    """A limit that stands, as text."""
    return json.dumps(asdict(limit)) if limit else None


def load_limit(text: str | None) -> LimitSignal | None:
    """The limit behind a stored text."""
    return _limit(json.loads(text)) if text else None


def _limit(raw: dict[str, Any] | None) -> LimitSignal | None:
    return LimitSignal(**{**raw, "reason": Outcome(raw["reason"])}) if raw else None


def _fault(raw: dict[str, Any] | None) -> RequestFailed | None:
    return RequestFailed(**{**raw, "reason": Outcome(raw["reason"])}) if raw else None


def _finished(raw: dict[str, Any] | None) -> Finished | None:
    if not raw:
        return None
    outcome = raw["outcome"]
    return Finished(**{**raw, "outcome": Outcome(outcome) if outcome else None})


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit, and how often in a row it was told of."""

    signal: LimitSignal
    times: int = 1


def limit_in(event: Event) -> LimitSignal | None:
    """The limit that an event tells of; a retry for another reason is none."""
    if isinstance(event, LimitSignal):
        return event
    if isinstance(event, Retrying) and event.reason in LIMIT_OUTCOMES:
        return LimitSignal(event.reason, event.status, event.seconds)
    return None


def with_limit(known: Sequence[Limit], signal: LimitSignal) -> tuple[Limit, ...]:
    """One more. The same again is counted, so that a program that retries for hours is one row."""
    if known and _same(known[-1].signal, signal):
        return (*known[:-1], replace(known[-1], signal=signal, times=known[-1].times + 1))
    return (*known, Limit(signal))


def live_signals(run: Run, limits: Iterable[Limit]) -> Iterator[Signal]:
    """Rows for what an agent told while it lived."""
    return (_row(run, one.signal, Source.LIVE, one.times) for one in limits)


def death_signals(run: Run) -> Iterator[Signal]:
    """The row for a run that a limit has ended."""
    if run.outcome in LIMIT_OUTCOMES:
        told = load_limit(run.limit_signal)
        reason = next(one for one in LIMIT_OUTCOMES if one == run.outcome)
        yield _row(run, replace(told or LimitSignal(reason), reason=reason), Source.DEATH, 1)


def _same(one: LimitSignal, other: LimitSignal) -> bool:
    return (one.reason, one.status, one.resets_at) == (other.reason, other.status, other.resets_at)


def _row(run: Run, signal: LimitSignal, source: Source, times: int) -> Signal:
    return Signal(
        run=run.run,
        pool=run.pool,
        task_id=run.task_id,
        project=run.project,
        source=source,
        reason=signal.reason.value,
        status=min(signal.status, 999),
        retry_after_seconds=signal.retry_after_seconds,
        resets_at=printable(signal.resets_at)[:40],
        times=times,
    )


@dataclass(frozen=True, slots=True)
class ProviderSignals:
    """What was heard and is not stored yet. `answers`: healthy responses of a model."""

    limits: tuple[Limit, ...] = ()
    words: tuple[Headroom, ...] = ()
    answers: int = 0

    def __bool__(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.limits or self.words or self.answers)


def is_answer(events: Sequence[Event], before: StreamTally) -> bool:
    """Whether a line begins a response of a model. One that comes in several lines is one."""
    named = [
        event.of[:MAX_MESSAGE_NAME] for event in events if isinstance(event, Usage) and event.of
    ]
    if named:
        return named[-1] not in {part.of for part in before.parts}
    return any(_speaks(event, before) for event in events)


def _speaks(event: Event, before: StreamTally) -> bool:
    if isinstance(event, Text):
        return not (event.delta and before.flowing)
    return isinstance(event, ToolUse)


# In the place of an outcome: there was no agent, and the attempt does not count.
NEVER_STARTED = "never_started"
UNASKED = "Something in its folder told its supervisor to end it, and nobody here had asked for it."
# Streams and files that agents can write to may claim any number; columns hold so much.
MAX_COUNT = 2**53
MAX_EXIT_CODE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far both streams were read."""

    stdout: int = 0
    stderr: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """All that is stored of a run that is over. `counted`: there was an agent."""

    verdict: RunVerdict
    exit: ProcessExit
    counted: bool
    tally: StreamTally = field(default_factory=StreamTally)
    offsets: Offsets = field(default_factory=Offsets)
    # What was heard of limits since the row was last written, and else of the provider.
    limits: tuple[Limit, ...] = ()
    # What its last word told of them: of a run that ends by it, its death tells the same.
    last_limits: tuple[Limit, ...] = ()
    words: tuple[Headroom, ...] = ()
    answers: int = 0

    def told_alive(self, run: Run) -> tuple[Limit, ...]:
        """What is not told of by the death of the run, whose row says how it ended."""
        return self.limits if run.outcome in LIMIT_OUTCOMES else (*self.limits, *self.last_limits)

    def heard(self, run: Run) -> ProviderSignals:
        """All that was heard of the provider, and is not told of by the death of the run."""
        return ProviderSignals(self.told_alive(run), self.words, self.answers)


def without_agent(outcome: Outcome, why: str, by: DecidedBy = DecidedBy.NOT_STARTED) -> Ending:
    """The ending of a run whose agent was not started."""
    verdict = RunVerdict(outcome, by, why)
    return Ending(verdict, ProcessExit(EndedBy.NOT_STARTED, reason=why), counted=False)


def heeding_stop(verdict: RunVerdict, stop_why: str | None) -> RunVerdict:
    """A stop comes before everything that the agent says; its valid result is kept.

    Whoever may stop a run writes it into its row. A file alone is one that the agent made itself,
    and what it says is not repeated.
    """
    if stop_why is None and verdict.decided_by is DecidedBy.STOP:
        return replace(verdict, outcome=Outcome.CRASH, decided_by=DecidedBy.LOST, why=UNASKED)
    if stop_why is None:
        return verdict
    why = f"It was stopped on request. ({stop_why})"
    return replace(verdict, outcome=Outcome.INTERRUPTED, decided_by=DecidedBy.STOP, why=why)


def usage_columns(
    tally: StreamTally, offsets: Offsets, own: StreamTally | None = None
) -> dict[str, Any]:
    """Columns for what the streams said, and how far they were read.

    `own`: the tally without what was spent before, where the stream counts on.
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
        "session": printable(tally.session) or None,
    }


def verdict_columns(
    ending: Ending, stop_why: str | None, own: StreamTally | None = None
) -> dict[str, Any]:
    """Columns for how a run ended."""
    verdict = heeding_stop(ending.verdict, stop_why)
    code = ending.exit.code
    return {
        **usage_columns(ending.tally, ending.offsets, own),
        "outcome": verdict.outcome.value,
        "decided_by": verdict.decided_by.value,
        "why": printable(verdict.why),
        "result": verdict.result.model_dump_json() if verdict.result else None,
        "limit_signal": dump_limit(verdict.limit),
        "exit_code": code if code is None or abs(code) <= MAX_EXIT_CODE else None,
        "ended_by": ending.exit.ended_by.value,
        "counted": int(ending.counted),
    }


def verdict_of(run: Run) -> RunVerdict:
    """The verdict as stored: a finish that is repeated sees what the first one saw."""
    if run.outcome in {None, NEVER_STARTED} or run.decided_by is None:
        raise ValueError(f"the run {run.run} has no outcome yet")
    return RunVerdict(
        Outcome(run.outcome),
        DecidedBy(run.decided_by),
        run.why or "",
        AgentResult.model_validate_json(run.result) if run.result else None,
        load_limit(run.limit_signal),
    )


def next_step(run: Run) -> NextAction:
    """What the task does after this run. A stop that came late counts as well."""
    if run.stop_why is not None:
        return NextAction.STOP
    return (
        NextAction.RETRY
        if run.outcome == NEVER_STARTED
        else outcome_meaning(verdict_of(run).outcome).next
    )


# Of one look at a stream, the newest so many are kept: an agent may print what it likes.
MOST_LIMITS = 50


class Reader:
    """What the streams have said so far."""

    def __init__(self, run: Run, folder: Path, clock: Clock) -> None:
        self._clock = clock
        self._folder = folder
        self._kind = find_kind(agent_of(run))
        self._stdout = OutputTail(
            folder / OutputStream.STDOUT, OutputStream.STDOUT, run.stdout_offset
        )
        self._stderr = OutputTail(
            folder / OutputStream.STDERR, OutputStream.STDERR, run.stderr_offset
        )
        self.tally = load_tally(run.tally)
        # Limits that were heard of since they were last taken.
        self._limits: tuple[Limit, ...] = ()
        self._words: tuple[Headroom, ...] = ()
        self._answers = 0

    @property
    def offsets(self) -> Offsets:
        """Where the lines start that are not in the tally."""
        return Offsets(self._stdout.offset, self._stderr.offset)

    def read(self) -> bool:
        """Take in all lines that are complete by now; whether there were any."""
        before = self.offsets
        self._take(self._stdout.lines(), self._said_at(OutputStream.STDOUT))
        self._take(self._stderr.lines(), self._said_at(OutputStream.STDERR))
        return self.offsets != before

    @property
    def limits(self) -> tuple[Limit, ...]:
        """What was told of limits and is not stored yet."""
        return self._limits[-MOST_LIMITS:]

    @property
    def last_limits(self) -> tuple[Limit, ...]:
        """What its last word told of limits, as long as nothing was said after it.

        If it ends with it, its death tells them. They stand in the tally, so that whoever reads on
        from the stored offset has them too.
        """
        return tuple(map(Limit, self.tally.held))

    @property
    def heard(self) -> ProviderSignals:
        """All that was told of the provider and is not stored yet."""
        return ProviderSignals(self.limits, self._words, self._answers)

    def stored(self) -> None:
        """What was heard so far is in the database."""
        self._limits, self._words, self._answers = (), (), 0

    def rest(self) -> None:
        """Take in all that is left, once nothing writes any more."""
        self._take(self._stdout.rest(), self._said_at(OutputStream.STDOUT))
        self._take(self._stderr.rest(), self._said_at(OutputStream.STDERR))

    def _said_at(self, stream: OutputStream) -> datetime:
        """When the last of its lines was written: perhaps long ago, while nobody read."""
        now = self._clock.now()
        return min(now, recording_time(self._folder / stream) or now)

    def _take(self, lines: Iterable[OutputLine], said_at: datetime) -> None:
        for line in lines:
            # A time without its day means little on another day.
            events = [resolve_clock_time(one, said_at) for one in self._kind.events(line)]
            self._answers += is_answer(events, self.tally)
            # The newest word alone: it is about the same limit.
            self._words = tuple(e for e in events if isinstance(e, Headroom))[-1:] or self._words
            # Shortened at once, so that an adopted run is judged like any other.
            self.tally = shortened(tally_events(events, self.tally))
            told = [signal for signal in map(limit_in, events) if signal is not None]
            if any(isinstance(one, Finished) and not one.ok for one in events):
                self._hold(told)
            else:
                self._let_go(line, told)

    def _hold(self, told: Sequence[LimitSignal]) -> None:
        """A last word that is said twice is one."""
        if tuple(told) != self.tally.held:
            self._tell(self.tally.held)
        self.tally = replace(self.tally, held=tuple(told))

    def _let_go(self, line: OutputLine, told: Sequence[LimitSignal]) -> None:
        """It was no last word: more is said after it. What is said beside may be older."""
        if line.stream is OutputStream.STDOUT:
            self._tell(self.tally.held)
            self.tally = replace(self.tally, held=())
        self._tell(told)

    def _tell(self, signals: Iterable[LimitSignal]) -> None:
        for signal in signals:
            self._limits = with_limit(self._limits, signal)


def agent_of(run: Run) -> Agent:
    """As much of an agent's settings as its streams and its end need."""
    return Agent(kind=cast(Any, run.agent_kind))
