"""What can go wrong with git in the sandbox.

SandboxError
└── GitError
    ├── GitCommandFailed a git command ended with an error
    ├── GitTooSlow       a git command ran past its time
    ├── BadName          a ref, sha or path that we do not accept
    ├── RefMoved         a ref was not where the writer expected it
    ├── NotFastForward   the new commit does not contain the old one
    ├── NoSuchObject     a ref, commit or path that is not there
    └── MergeConflict    two sides changed the same place
"""

from __future__ import annotations

from collections.abc import Sequence

from hostler.errors import SandboxError


class GitError(SandboxError):
    """Git in the sandbox could not do what was asked."""


class GitCommandFailed(GitError):
    """A git command ended with an error."""

    def __init__(self, args: Sequence[str], code: int, stderr: str) -> None:
        super().__init__(f"git {' '.join(args)} ended with {code}: {stderr.strip()}")
        self.code = code
        self.stderr = stderr


class GitTooSlow(GitError):
    """A git command ran past its time and was ended."""

    def __init__(self, args: Sequence[str], seconds: float) -> None:
        super().__init__(f"git {' '.join(args)} was ended after {seconds:.0f} s.")


class BadName(GitError):
    """A ref, sha or path that we do not accept."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"not a {kind}: {text!r}")
        self.kind = kind
        self.text = text


class RefMoved(GitError):
    """A ref was not where the writer expected it."""

    def __init__(self, ref: str) -> None:
        super().__init__(f"{ref} is not where it was expected.")
        self.ref = ref


class NotFastForward(GitError):
    """The new commit does not contain the old one."""

    def __init__(self, ref: str) -> None:
        super().__init__(f"{ref} would lose commits.")
        self.ref = ref


class NoSuchObject(GitError):
    """A ref, commit or path that is not there."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} does not exist.")
        self.name = name


class MergeConflict(GitError):
    """Two sides changed the same place."""

    def __init__(self, paths: Sequence[str] = ()) -> None:
        super().__init__("The two sides conflict.")
        self.paths = tuple(paths)
