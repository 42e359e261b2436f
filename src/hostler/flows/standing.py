"""What speaks against going on with a pull request: rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hostler.errors import HostlerError
from hostler.forge.port import Pull
from hostler.store.pull_requests import PullRow, PullStatus
from hostler.store.tasks import Task, TaskState


class NotResumed(HostlerError):
    """A pull request does not go on, and this is why; `over`: it is closed or merged there."""

    def __init__(self, what: str, remedy: str = "", *, over: bool = False) -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)
        self.over = over


@dataclass(frozen=True, slots=True)
class Standing:
    """A pull request of ours, here: its row, its task, and whether a run of that is not over.

    `current`: the pull request that the task works for now, if it is another one and not over.
    """

    pull: PullRow
    task: Task | None
    busy: bool = False
    current: int | None = None

    @property
    def name(self) -> str:
        return f"{self.pull.repo_full_name}#{self.pull.pr_number}"

    @property
    def watched(self) -> bool:
        """Whether it awaits feedback, with a task that hears it."""
        return (
            self.pull.status is PullStatus.AWAITING_FEEDBACK
            and self.task is not None
            and not self.task.over
            and self.task.state is not TaskState.BLOCKED
            and self.task.pr_number == self.pull.pr_number
        )


def against_here(here: Standing) -> NotResumed | None:
    """What speaks against it, by what is known here; GitHub need not even be asked."""
    return next(_here(here), None)


def against_there(here: Standing, there: Pull, head_sha: str = "") -> NotResumed | None:
    """What speaks against it, by how it is on GitHub."""
    return next(_there(here, there, head_sha), None)


def against_label(name: str, labels: Iterable[str], ignore: str) -> NotResumed | None:
    """People have the work as long as the label is there."""
    if ignore.lower() not in {label.lower() for label in labels}:
        return None
    return NotResumed(
        f"{name} carries {ignore}: people have the work.", "Take the label off first."
    )


def _here(here: Standing) -> Iterator[NotResumed]:
    pull, task = here.pull, here.task
    again = f"Begin anew: hostler run {pull.repo_full_name}#{pull.issue_number}"
    if pull.status is PullStatus.MERGED:
        yield NotResumed(f"{here.name} was merged, and that is final.")
    if task is None:
        yield NotResumed(
            f"The task of {here.name} was deleted.", again if pull.issue_number else ""
        )
        return
    if task.state is TaskState.DONE:
        yield NotResumed(f"The task of {here.name} is done.")
    if here.current is not None:
        yield NotResumed(
            f"The task of {here.name} goes on with pull request {here.current}.",
            "Say there what is to be done.",
        )
    if not task.over and task.pr_number != pull.pr_number:
        yield NotResumed(
            f"The task of {here.name} has begun anew, and will open another pull request.",
            f"Stop it first, if you want the old one: hostler task stop {task.id}",
        )
    if here.busy and not here.watched:
        yield NotResumed(f"The last run of {task.id} has not ended.", "Try again in a moment.")


def _there(here: Standing, there: Pull, head_sha: str) -> Iterator[NotResumed]:
    if there.merged:
        yield NotResumed(f"{here.name} was merged, and that is final.", over=True)
    if there.state != "open":
        yield NotResumed(f"{here.name} is closed on GitHub.", "Reopen it there first.", over=True)
    if head_sha and head_sha.lower() != there.head_sha.lower():
        yield NotResumed(
            f"The head of {here.name} is {there.head_sha}, not {head_sha}.",
            "Look at what was pushed, and name that head, or none.",
        )
