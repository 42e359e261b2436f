"""How a run ended, between the verdict on it and its row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hostler.agents.events import Headroom
from hostler.agents.exitword import Exit
from hostler.agents.outcomes import LIMITS, Next, Outcome, meaning
from hostler.agents.result import Result
from hostler.agents.tally import Tally
from hostler.agents.verdict import DecidedBy, EndedBy, Verdict
from hostler.runs.heard import Heard
from hostler.runs.limits import Limit
from hostler.runs.memory import printable, recall_limit, remember, remember_limit
from hostler.store.runs import Run

# In the place of an outcome: there was no agent, and the attempt does not count.
NEVER_STARTED = "never_started"
UNASKED = "Something in its folder told its supervisor to end it, and nobody here had asked for it."
# Streams and files that agents can write to may claim any number; columns hold so much.
LARGEST_COUNT = 2**53
LARGEST_CODE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far both streams were read."""

    stdout: int = 0
    stderr: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """All that is stored of a run that is over. `counted`: there was an agent."""

    verdict: Verdict
    exit: Exit
    counted: bool
    tally: Tally = field(default_factory=Tally)
    offsets: Offsets = field(default_factory=Offsets)
    # What was heard of limits since the row was last written, and else of the provider.
    limits: tuple[Limit, ...] = ()
    # What its last word told of them: of a run that ends by it, its death tells the same.
    last_limits: tuple[Limit, ...] = ()
    words: tuple[Headroom, ...] = ()
    answers: int = 0

    def told_alive(self, run: Run) -> tuple[Limit, ...]:
        """What is not told of by the death of the run, whose row says how it ended."""
        return self.limits if run.outcome in LIMITS else (*self.limits, *self.last_limits)

    def heard(self, run: Run) -> Heard:
        """All that was heard of the provider, and is not told of by the death of the run."""
        return Heard(self.told_alive(run), self.words, self.answers)


def without_agent(outcome: Outcome, why: str, by: DecidedBy = DecidedBy.NOT_STARTED) -> Ending:
    """The ending of a run whose agent was not started."""
    verdict = Verdict(outcome, by, why)
    return Ending(verdict, Exit(EndedBy.NOT_STARTED, reason=why), counted=False)


def heeding_stop(verdict: Verdict, stop_why: str | None) -> Verdict:
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


def heard(tally: Tally, offsets: Offsets, own: Tally | None = None) -> dict[str, Any]:
    """Columns for what the streams said, and how far they were read.

    `own`: the tally without what was spent before, where the stream counts on.
    """
    spent = own or tally
    return {
        "stdout_offset": offsets.stdout,
        "stderr_offset": offsets.stderr,
        "tally": remember(tally),
        "input_tokens": min(spent.usage.input_tokens, LARGEST_COUNT),
        "output_tokens": min(spent.usage.output_tokens, LARGEST_COUNT),
        "cached_tokens": min(spent.usage.cached_tokens, LARGEST_COUNT),
        "usd": spent.usd,
        "session": printable(tally.session) or None,
    }


def judged(ending: Ending, stop_why: str | None, own: Tally | None = None) -> dict[str, Any]:
    """Columns for how a run ended."""
    verdict = heeding_stop(ending.verdict, stop_why)
    code = ending.exit.code
    return {
        **heard(ending.tally, ending.offsets, own),
        "outcome": verdict.outcome.value,
        "decided_by": verdict.decided_by.value,
        "why": printable(verdict.why),
        "result": verdict.result.model_dump_json() if verdict.result else None,
        "limit_signal": remember_limit(verdict.limit),
        "exit_code": code if code is None or abs(code) <= LARGEST_CODE else None,
        "ended_by": ending.exit.ended_by.value,
        "counted": int(ending.counted),
    }


def verdict_of(run: Run) -> Verdict:
    """The verdict as stored: a finish that is repeated sees what the first one saw."""
    if run.outcome in {None, NEVER_STARTED} or run.decided_by is None:
        raise ValueError(f"the run {run.run} has no outcome yet")
    return Verdict(
        Outcome(run.outcome),
        DecidedBy(run.decided_by),
        run.why or "",
        Result.model_validate_json(run.result) if run.result else None,
        recall_limit(run.limit_signal),
    )


def next_step(run: Run) -> Next:
    """What the task does after this run. A stop that came late counts as well."""
    if run.stop_why is not None:
        return Next.STOP
    return Next.RETRY if run.outcome == NEVER_STARTED else meaning(verdict_of(run).outcome).next
