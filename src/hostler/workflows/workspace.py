"""The context of one repository, preparing a task's checkout, and digests of its progress."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath

from hostler.checkouts import agent_folder
from hostler.checkouts.checkout import PUSHED_REFS, Checkout, CheckoutLocation, CommitIdentity
from hostler.checkouts.cleanup import push_checkpoint
from hostler.checkouts.commands import run_setup
from hostler.checkouts.commits import read_status
from hostler.checkouts.mirror import Mirror, Remote, fetch_mirror, read_mirror_ref, resolve_base
from hostler.checkouts.names import Sha
from hostler.checkouts.preparation import CheckoutPlan, ensure_checkout, refresh_checkout
from hostler.config.settings import Repo, Tasks
from hostler.errors import CheckoutError
from hostler.intake.repo_policy import RepoPolicy
from hostler.store import Store
from hostler.store.tasks import Task
from hostler.workflows.outcomes import CLEAN_PREFIX, SetupFailed

# Longest run of one setup or test command.
COMMAND_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class RepoContext:
    """One repository: its settings, its mirror, its remote, and where its checkouts are.

    `env` is the agent's environment: commands of the repository never see ours. `permit` is asked
    before anything leaves the house, and raises `FenceLost` if the work is no longer ours.
    """

    store: Store
    watch: RepoPolicy
    settings: Repo
    mirror: Mirror
    remote: Remote
    checkouts: Path
    identity: CommitIdentity
    limits: Tasks = field(default_factory=Tasks)
    env: Mapping[str, str] = field(default_factory=dict)
    command_seconds: float = COMMAND_SECONDS
    permit: Callable[[], None] = lambda: None

    def checkout(self, task: Task) -> Checkout:
        """Where a task's work is."""
        return Checkout(
            CheckoutLocation(self.checkouts, task.project, task.id), self.mirror, task.branch
        )


# Larger files are told apart by size and time of change.
MAX_HASHED_BYTES = 4 * 1024 * 1024


def set_up_checkout(repo_context: RepoContext, task: Task) -> Checkout:
    """The task's checkout, made or refreshed. Each step finds what an earlier try has done."""
    return prepare_checkout(repo_context, task).checkout


@dataclass(frozen=True, slots=True)
class ReadyCheckout:
    """A checkout that is ready, and the commit that the remote's base branch has now."""

    checkout: Checkout
    base: Sha


def prepare_checkout(repo_context: RepoContext, task: Task) -> ReadyCheckout:
    """The same, with what else was found out on the way."""
    fetch_mirror(repo_context.mirror, repo_context.remote)
    base, tip = resolve_base(repo_context.mirror, repo_context.remote, task.base_branch)
    place = repo_context.checkout(task).place
    plan = CheckoutPlan(task.branch, base, repo_context.identity)
    made = ensure_checkout(place, repo_context.mirror, repo_context.remote, plan)
    if not made.created:
        _refresh_checkout(made.checkout, base)
    if repo_context.settings.setup_command:
        ran = run_setup(
            place.path,
            repo_context.settings.setup_command,
            repo_context.env,
            seconds=repo_context.command_seconds,
        )
        if ran is not None and not ran.passed:
            raise SetupFailed(ran)
    return ReadyCheckout(made.checkout, tip)


def _refresh_checkout(checkout: Checkout, base: str) -> None:
    try:
        refresh_checkout(checkout, base)
    except CheckoutError:
        # An agent that left its branch is told so at the end of its turn, when it matters.
        return


def progress_digest(repo_context: RepoContext, task: Task) -> str:
    """A word that changes when the work does; empty where it cannot be told."""
    try:
        found = read_status(repo_context.checkout(task), task.base_branch or "HEAD")
    except (CheckoutError, ValueError):
        return ""
    checkout = repo_context.checkout(task)
    path = checkout.path
    start = read_mirror_ref(repo_context.mirror, f"{PUSHED_REFS}{task.branch}") or read_mirror_ref(
        repo_context.mirror, checkout.ref("base")
    )
    if not found.dirty and found.head.commit == start:
        return f"{CLEAN_PREFIX}{start}"
    parts = [str(found.head), *(f"{file} {_file_digest(path, file)}" for file in found.dirty)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def save_blocked_work(repo_context: RepoContext, task: Task) -> str:
    """Put blocked work on a branch of its own; its name, or nothing where that cannot be done."""
    repo_context.permit()
    try:
        made = push_checkpoint(
            repo_context.checkout(task),
            repo_context.remote,
            repo_context.identity,
            issue=task.number,
            title=task.title,
        )
    except (CheckoutError, ValueError):
        return ""
    return made.branch


def _file_digest(root: Path, file: str) -> str:
    """What changes with a file's content. Writing the same anew is no progress."""
    try:
        found = (root / file).lstat()
        if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_HASHED_BYTES:
            data = agent_folder.read_file(root, *PurePosixPath(file).parts, limit=MAX_HASHED_BYTES)
            return hashlib.sha256(data or b"").hexdigest()
    except OSError:
        return "gone"
    return f"{found.st_size} {found.st_mtime_ns}"


# More files than this are not looked at: what changed among them may go unseen.
MAX_FILES = 20_000
# Git's own store changes without any work; its HEAD and refs change with commits.
_IGNORED_GIT_FOLDERS = frozenset({"objects", "lfs", "hooks"})


def folder_digest(folder: Path) -> str:
    """A digest of names, sizes and times. Reads no file; empty where there is no folder."""
    if not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for line in islice(_walk_files(str(folder)), MAX_FILES):
        digest.update(line.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:24]


def _walk_files(folder: str) -> Iterator[str]:
    """Every file below, in the order of names; links are not followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if not (entry.name in _IGNORED_GIT_FOLDERS and folder.endswith("/.git")):
                    yield from _walk_files(entry.path)
                continue
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        yield f"{entry.path} {found.st_size} {found.st_mtime_ns}"
