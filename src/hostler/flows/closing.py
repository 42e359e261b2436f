"""The edge after every run: from an agent's end to the transaction that stores what follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hostler.agents.verdict import Verdict
from hostler.errors import HostlerError
from hostler.flows.byhand import after_unfinished
from hostler.flows.delivering import Delivery, after_work
from hostler.flows.desk import Desk
from hostler.flows.finishing import Observer, bring_in, nobody
from hostler.flows.material import gather, waiting
from hostler.flows.outcomes import Facts, after_run, wants_finishing
from hostler.flows.steps import Step
from hostler.flows.storing import store_step
from hostler.flows.texts import commit_message
from hostler.flows.trouble import after_trouble
from hostler.flows.workplace import keep, progress
from hostler.model import EPOCH
from hostler.runs.states import FenceLost
from hostler.store.pull_requests import PullRow, find_pull
from hostler.store.tasks import Task, TaskState, require_task
from hostler.store.transaction import Transaction

# A rule that waits for the task as it is when its step is stored.
Rule = Callable[[Transaction, Task, Facts], Step]


@dataclass(frozen=True, slots=True)
class Ending:
    """What is left to do after a run: one transaction. Storing it twice stores it once."""

    task: str
    rule: Rule
    facts: Facts

    def store(self, tx: Transaction) -> Task:
        """Move the task as it is now; one that was stopped meanwhile stays so."""
        present = require_task(tx, self.task)
        step = self.rule(tx, present, _now(tx, present, self.facts))
        if present.state is TaskState.RUNNING and _unheard(tx, present):
            step = hear_first(step)
        return store_step(tx, present, step)


def hear_first(step: Step) -> Step:
    """A question while words wait that its agent has not heard: they may be the answer. Pure."""
    task = step.task
    if task.state is not TaskState.NEEDS_INPUT:
        return step
    going_on = replace(task, state=TaskState.QUEUED, reason="More was said meanwhile.")
    return replace(step, task=going_on)


def close_run(
    desk: Desk,
    task: Task,
    verdict: Verdict,
    session: str = "",
    observe: Observer = nobody,
    *,
    spoke: bool = False,
) -> Ending:
    """Do what the end of a run asks for on disk and remote; what is to be stored about it."""
    facts = Facts(EPOCH, session=session, progress=progress(desk, task), spoke=spoke)
    if not wants_finishing(task, verdict):
        return _ending(desk, task, _after_run(desk, verdict), facts)
    try:
        work = bring_in(desk, task, commit_message(task, verdict.result), observe)
    except FenceLost:
        raise
    except HostlerError as error:
        return failed(desk, task, error, replace(facts, finishing=True))

    def rule(tx: Transaction, present: Task, facts: Facts) -> Step:
        pull = _pull(tx, present)
        material = gather(tx, present)
        delivery = Delivery(
            work,
            verdict,
            material.remarks,
            more=_unheard(tx, present),
            last_head=pull.last_seen_head_sha if pull else "",
            failures=material.failures,
        )
        return after_work(present, delivery, facts, desk.limits)

    return Ending(task.id, rule, facts)


def failed(desk: Desk, task: Task, error: HostlerError, facts: Facts | None = None) -> Ending:
    """The same for an error on the way: before the agent (set up, launch) or after it."""

    def rule(_tx: Transaction, present: Task, facts: Facts) -> Step:
        return after_trouble(present, error, facts, desk.limits)

    return _ending(desk, task, rule, facts or Facts(EPOCH))


def _after_run(desk: Desk, verdict: Verdict) -> Rule:
    def rule(_tx: Transaction, present: Task, facts: Facts) -> Step:
        after = after_unfinished if present.by_hand else after_run
        return after(present, verdict, facts, desk.limits)

    return rule


def _ending(desk: Desk, task: Task, rule: Rule, facts: Facts) -> Ending:
    """Work that is about to wait for a person, and is not on GitHub, is kept on a branch first."""
    with desk.store.read() as tx:
        present = require_task(tx, task.id)
        foreseen = rule(tx, present, _now(tx, present, facts))
    after = foreseen.task.state
    asks_unpushed = after is TaskState.NEEDS_INPUT and facts.finishing
    if (after is TaskState.BLOCKED or asks_unpushed) and task.state is not after:
        facts = replace(facts, kept=keep(desk, task))
    return Ending(task.id, rule, facts)


def _now(tx: Transaction, task: Task, facts: Facts) -> Facts:
    """The facts, with what only the database knows."""
    pull = _pull(tx, task)
    turns = pull.turns_without_person if pull else 0
    return replace(facts, now=tx.now(), turns_without_person=turns)


def _unheard(tx: Transaction, task: Task) -> bool:
    """Whether words wait that the present turn was not given."""
    return bool(set(waiting(tx, task)) - set(task.turn_keys))


def _pull(tx: Transaction, task: Task) -> PullRow | None:
    return find_pull(tx, task.repo, task.pr_number) if task.pr_number else None
