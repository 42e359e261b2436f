"""The edge after an agent is done: commit, take, guard, test, push.

Each step looks for its own effect first, so the whole may be repeated after any crash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from hostler.checkouts.commands import run_tests
from hostler.checkouts.errors import CheckoutMissing, PushRaced
from hostler.checkouts.guard import Verdict as History
from hostler.checkouts.mirror import base_of, head_of, is_ancestor
from hostler.checkouts.names import Sha
from hostler.checkouts.place import PUSHED, Checkout
from hostler.checkouts.pushing import guard, push
from hostler.checkouts.sealing import commit_all
from hostler.checkouts.view import take
from hostler.flows.desk import Desk
from hostler.flows.trouble import DesignMissing, TestsFailed
from hostler.flows.turns import design_path
from hostler.store.tasks import Flow, Task


class Stage(StrEnum):
    """What has just been done, in this order. For logs, and for tests that cut in between."""

    COMMITTED = "committed"
    TAKEN = "taken"
    GUARDED = "guarded"
    TESTED = "tested"
    PUSHED = "pushed"


Observer = Callable[[Stage], None]


def nobody(_stage: Stage) -> None:
    """Observes nothing."""


@dataclass(frozen=True, slots=True)
class Work:
    """What an agent's turn has come to. `pushed` is empty where there was nothing new to push.

    `any` says whether the branch holds anything beyond its base.
    """

    head: Sha
    base_branch: str
    pushed: str
    any: bool


def bring_in(desk: Desk, task: Task, message: str, observe: Observer = nobody) -> Work:
    """From what the agent left to a branch on the remote. Raises what stands in the way."""
    checkout = desk.checkout(task)
    commit_all(checkout, message, desk.identity)
    observe(Stage.COMMITTED)
    head = take(checkout)
    observe(Stage.TAKEN)
    base = _base(checkout)
    before = head_of(desk.mirror, f"{PUSHED}{checkout.branch}")
    history = guard(desk.mirror, head, base=base, pushed=before)
    observe(Stage.GUARDED)
    base_branch, _ = base_of(desk.mirror, desk.remote, task.base_branch)
    if history is History.UNCHANGED:
        return Work(head, base_branch, "", any=head != base)
    _require_design(desk, task, head)
    _test(desk, checkout)
    observe(Stage.TESTED)
    desk.permit()
    push(desk.mirror, desk.remote, checkout.branch, head, _expected(desk, checkout, head, before))
    observe(Stage.PUSHED)
    return Work(head, base_branch, head, any=True)


def _base(checkout: Checkout) -> Sha:
    base = head_of(checkout.mirror, checkout.ref("base"))
    if base is None:
        raise CheckoutMissing(f"{checkout.path} is not known to its mirror.")
    return base


def _expected(desk: Desk, checkout: Checkout, head: Sha, before: Sha | None) -> Sha | None:
    """What the remote's branch is at, as far as we know; commits of others must be in the work."""
    theirs = head_of(desk.mirror, f"refs/heads/{checkout.branch}")
    if theirs is not None and not is_ancestor(desk.mirror, theirs, head):
        raise PushRaced(checkout.branch, before, theirs)
    return theirs


def _test(desk: Desk, checkout: Checkout) -> None:
    commands = desk.settings.required_tests
    for ran in run_tests(commands, checkout.path, desk.env, seconds=desk.command_seconds):
        if not ran.passed:
            raise TestsFailed(ran)


def _require_design(desk: Desk, task: Task, head: Sha) -> None:
    if task.flow is not Flow.DESIGN:
        return
    path = design_path(task)
    if not desk.mirror.git()("ls-tree", "--name-only", head, "--", path).text:
        raise DesignMissing(path)
