"""Failing CI as material for a turn: what still fails, and the ends of its logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hostler.flows.steps import Effect, Write
from hostler.forge.ci import tail
from hostler.forge.payloads import pull_of, run_of
from hostler.forge.port import Forge
from hostler.intake import RunSeen
from hostler.intake.ci import flaky_issue, rerun
from hostler.store.outbox import Lane

# Jobs of one run whose logs are read; the others are named.
MOST_LOGS = 5
LONGEST_LOG = 16_000
NO_LOG = "GitHub has no log of it any more."
LEFT_OUT = "Its log was left out."


@dataclass(frozen=True, slots=True)
class Log:
    """The end of a failed job's log."""

    job: str
    conclusion: str
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A run of the present head that failed; its logs come when they are needed."""

    seen: RunSeen
    logs: tuple[Log, ...] = ()


def still_fails(forge: Forge, failure: Failure) -> bool:
    """Whether this very attempt is still the newest, of a head that is still the present one."""
    found, seen = forge.workflow_run(failure.seen.row.object_id), failure.seen
    if found is None:
        return False
    now = run_of(found.payload)
    if not now.failed or now.attempt != seen.run.attempt:
        return False
    return pull_of(forge.pull(seen.row.scope_number).payload).head_sha == now.head_sha


def with_logs(forge: Forge, failures: Iterable[Failure], lines: int) -> tuple[Failure, ...]:
    """The same, with the ends of the logs of what failed. Asks the network."""
    return tuple(replace(one, logs=_logs(forge, one, lines)) for one in failures)


def _logs(forge: Forge, failure: Failure, lines: int) -> tuple[Log, ...]:
    jobs = forge.failed_jobs(failure.seen.run.id)
    read = [(job, forge.job_log(job.id) or NO_LOG) for job in jobs[:MOST_LOGS]]
    rest = [(job, LEFT_OUT) for job in jobs[MOST_LOGS:]]
    return tuple(
        Log(job.name, job.conclusion, tail(text, lines, LONGEST_LOG)) for job, text in read + rest
    )


def suspected(failures: Iterable[Failure], summary: str) -> list[Effect]:
    """An agent has looked at these and found nothing to change: each is run once more."""
    said = f"It says: {summary.strip()[:1000]}" if summary.strip() else ""
    why = f"An agent has looked at it and found nothing to change. {said}".strip()
    effects: list[Effect] = []
    for one in failures:
        for deed, token in (rerun(one.seen), flaky_issue(one.seen, why)):
            effects.append(Write(deed, token, Lane.FEEDBACK, "ci"))
    return effects
