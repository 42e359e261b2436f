"""Errors of git, and of what agents leave in their checkouts.

CheckoutError             git, and what agents leave in their checkouts
├── GitMissing            git is not installed
├── GitTooOld             the version of git is too old
├── GitFailed             a git command failed
├── GitTimeout            a git command timed out
├── DiskFull              no disk space is left for git
├── RemoteError           the repository on the code host
│   ├── RemoteUnreachable the host does not answer
│   ├── RemoteDenied      the host rejected the credentials
│   ├── RemoteMissing     the repository does not exist, or access is denied
│   └── RemoteMoved       the repository has a new address
├── BranchMissing         the base branch does not exist
├── CheckoutMissing       the checkout does not exist
├── CheckoutTampered      its `.git` was changed
├── FilesTooLarge         files are larger than code hosts accept
├── HistoryRefused        commits that Hostler does not push
│   ├── HistoryRewritten  a required commit is no longer in the history
│   ├── WrongBranch       HEAD is on another branch
│   ├── DetachedHead      HEAD is on no branch
│   ├── BranchDeleted     the branch was deleted
│   └── UnfinishedMerge   a merge, rebase or similar is unfinished
├── PushRaced             the remote branch has changed
├── PushRefused           the host rejected the push
├── PushUnverified        the push succeeded, but the remote does not show it
└── WorkWouldBeLost       removing the checkout would lose work
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from hostler.errors import CheckoutError


class GitMissing(CheckoutError):
    """Git is not installed."""

    def __init__(self) -> None:
        super().__init__("git is not installed.", remedy="Install git 2.32 or newer.")


class GitTooOld(CheckoutError):
    """The version of git is too old."""

    def __init__(self, found: str) -> None:
        super().__init__(f"git {found} is too old.", remedy="Install git 2.32 or newer.")
        self.found = found


class GitFailed(CheckoutError):
    """A git command failed."""

    def __init__(self, verb: str, code: int, output: str) -> None:
        super().__init__(f"git {verb} failed (exit {code}): {output or 'no output'}")
        self.verb = verb
        self.code = code
        self.output = output


class GitTimeout(CheckoutError):
    """A git command timed out and was killed."""

    def __init__(self, verb: str, seconds: float) -> None:
        super().__init__(
            f"git {verb} did not end within {seconds:.0f} s.",
            safe="It was stopped; nothing was pushed partially.",
            remedy="Try again; check the disk and the network if it persists.",
        )
        self.verb = verb
        self.seconds = seconds


class DiskFull(CheckoutError):
    """No disk space is left for git."""

    def __init__(self, place: object) -> None:
        super().__init__(
            f"No space is left on the disk of {place}.",
            safe="What was committed before is safe.",
            remedy="Free some space; the step is then retried.",
        )


class RemoteError(CheckoutError):
    """The repository on the code host cannot be used."""

    because = "cannot be used"
    remedy = "Check the address and the token."

    # Whether the host's message is more useful than ours.
    quotes_host = False

    def __init__(self, url: str, output: str = "") -> None:
        details = re.findall(r"^remote: *(\S.*)$", output, re.MULTILINE) if self.quotes_host else []
        why = f": {' '.join(details).rstrip('.')}" if details else ""
        what = f"{url} {self.because}{why}."
        super().__init__(what, safe="Nothing was changed.", remedy=self.remedy)
        self.url = url
        self.output = output


class RemoteUnreachable(RemoteError):
    """The host does not answer."""

    because = "does not answer"
    remedy = "It is retried later; check the network if it persists."


class RemoteDenied(RemoteError):
    """The host rejected the credentials."""

    because = "rejected the credentials"
    remedy = "Give the token read and write access to the contents of this repository."
    quotes_host = True


class RemoteMissing(RemoteError):
    """The repository does not exist, or the token has no access."""

    because = "does not exist, or the token has no access"
    remedy = "Check the repository's name and the token's access."


class RemoteMoved(RemoteError):
    """The repository has a new address."""

    because = "has moved"
    remedy = "Write the repository's new name into the settings."


class BranchMissing(CheckoutError):
    """The base branch does not exist on the remote."""

    def __init__(self, branch: str, known: Iterable[str]) -> None:
        self.branch = branch
        self.known = tuple(known)
        some = ", ".join(self.known[:5]) or "none: it has no commits yet"
        lacks = f"has no branch {branch}" if branch else "names no branch to start from"
        super().__init__(
            f"The repository {lacks} (it has {some}).",
            remedy="Set `base_branch` to one that exists, or push a first commit.",
        )


class CheckoutMissing(CheckoutError):
    """The checkout does not exist."""


class CheckoutTampered(CheckoutError):
    """The `.git` folder of a checkout was changed."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"The checkout {path} was tampered with: {what}.",
            safe="Nothing more was read, and nothing was pushed.",
            remedy="Check the folder; delete it to restart the task.",
        )
        self.path = path
        self.reason = what


class FilesTooLarge(CheckoutError):
    """Changed files are larger than code hosts accept."""

    def __init__(self, files: Iterable[str], limit: int) -> None:
        self.files = tuple(files)
        super().__init__(
            f"Larger than {limit // 1_000_000} MB: {', '.join(self.files[:5])}.",
            safe="Nothing was committed.",
            remedy="Remove them or add them to .gitignore.",
        )


class HistoryRefused(CheckoutError):
    """Commits that Hostler does not push."""


class HistoryRewritten(HistoryRefused):
    """A required commit is no longer in the history."""

    def __init__(self, role: str, missing: str, head: str) -> None:
        super().__init__(
            f"The history was rewritten: the {role} {missing[:12]} is not part of {head[:12]}.",
            safe="Nothing was pushed.",
            remedy=f"Put the work on top of {missing[:12]}; add commits, never change old ones.",
        )
        self.role = role
        self.missing = missing
        self.head = head


class WrongBranch(HistoryRefused):
    """HEAD is on another branch than the task's."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(
            f"The checkout is on the branch {found} instead of {expected}.",
            safe="Nothing was pushed.",
            remedy=f"Move the commits to {expected} and switch to it.",
        )
        self.expected = expected
        self.found = found


class DetachedHead(HistoryRefused):
    """HEAD is on no branch."""

    def __init__(self, expected: str, head: str) -> None:
        super().__init__(
            f"The checkout is on no branch (at {head[:12]}) instead of {expected}.",
            safe="Nothing was pushed.",
            remedy=f"Move the commits to {expected} and switch to it.",
        )
        self.expected = expected
        self.head = head


class BranchDeleted(HistoryRefused):
    """The task's branch was deleted in the checkout."""

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"The branch {branch} is gone from the checkout.",
            safe="Nothing was pushed.",
            remedy=f"Create {branch} again at the latest commit.",
        )
        self.branch = branch


class UnfinishedMerge(HistoryRefused):
    """A merge, rebase or similar is unfinished."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The checkout has an unfinished {what}.",
            safe="Nothing was committed or pushed.",
            remedy=f"Finish or abort the {what}.",
        )
        self.operation = what


class PushRaced(CheckoutError):
    """The remote branch has changed: it was moved, created or deleted by someone else."""

    def __init__(self, branch: str, expected: str | None, found: str | None) -> None:
        before = expected[:12] if expected else "nothing"
        now = found[:12] if found else "nothing"
        super().__init__(
            f"The remote branch {branch} is at {now}, expected was {before}.",
            safe="Nothing was pushed and nothing was overwritten.",
            remedy="Merge the remote's commits, then push again.",
        )
        self.branch = branch
        self.expected = expected
        self.found = found


class PushRefused(CheckoutError):
    """The host rejected the push."""

    def __init__(self, branch: str, reason: str) -> None:
        super().__init__(
            f"The push of {branch} was refused: {reason or 'no reason was given'}",
            safe="The work is kept in the mirror and in the checkout.",
            remedy="Check the branch protection and the token's permissions.",
        )
        self.branch = branch
        self.reason = reason


class PushUnverified(CheckoutError):
    """The push succeeded, but the remote does not show it."""

    def __init__(self, branch: str, pushed: str, found: str | None) -> None:
        super().__init__(
            f"{pushed[:12]} was pushed to {branch}, but the remote has "
            f"{found[:12] if found else 'nothing'} there.",
            safe="The work is kept in the mirror and in the checkout.",
            remedy="Check who changed the branch on the remote.",
        )
        self.branch = branch
        self.pushed = pushed
        self.found = found


class WorkWouldBeLost(CheckoutError):
    """Removing the checkout would lose work."""

    def __init__(self, path: Path, what: Iterable[str]) -> None:
        self.path = path
        self.losses = tuple(what)
        super().__init__(
            f"{path} still contains work: {', '.join(self.losses[:5])}.",
            safe="Nothing was removed.",
            remedy="Push it or keep it as a checkpoint first.",
        )
