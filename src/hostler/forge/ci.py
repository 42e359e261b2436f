"""What a code host says about CI: workflow runs, their jobs, and the ends of their logs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# What asks for mending. One that was cancelled, or waits for an approval, needs a person.
FAILED = frozenset({"failure", "timed_out", "startup_failure"})
COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of a workflow run; `conclusion` is empty until it is over.

    `foreign`: the commit was offered by a fork.
    """

    id: int
    name: str
    event: str
    head_sha: str
    status: str
    conclusion: str
    attempt: int
    branch: str = ""
    foreign: bool = False
    url: str = ""

    @property
    def check(self) -> str:
        """What tells the checks of a commit apart: the workflow, and what set it off."""
        return f"{self.name} ({self.event})" if self.event else self.name

    @property
    def over(self) -> bool:
        return self.status == COMPLETED

    @property
    def failed(self) -> bool:
        return self.over and self.conclusion in FAILED

    @property
    def passed(self) -> bool:
        return self.over and self.conclusion == "success"


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a run's present attempt."""

    id: int
    name: str
    conclusion: str
    url: str = ""

    @property
    def failed(self) -> bool:
        return self.conclusion in FAILED


def tail(log: str, lines: int, longest: int) -> str:
    """The end of a log: at most so many lines, and so many characters of them."""
    whole = log.rstrip()
    kept = whole[-longest:].splitlines()
    if len(whole) > longest and len(kept) > 1:
        # The first of them is cut.
        kept = kept[1:]
    return "\n".join(kept[-lines:])
