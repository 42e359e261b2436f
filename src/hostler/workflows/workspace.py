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

# Time limit of one setup or test command.
COMMAND_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class RepoContext:
    """One repository: its settings, mirror, remote, and where its checkouts are.

    `env` is the environment of commands that the repository's settings name; it has none of
    Hostler's secrets. `require_fence` is called before every push, and raises `FenceLost` if this
    run is stale.
    """

    store: Store
    policy: RepoPolicy
    settings: Repo
    mirror: Mirror
    remote: Remote
    checkouts: Path
    identity: CommitIdentity
    limits: Tasks = field(default_factory=Tasks)
    env: Mapping[str, str] = field(default_factory=dict)
    command_seconds: float = COMMAND_SECONDS
    require_fence: Callable[[], None] = lambda: None

    def checkout(self, task: Task) -> Checkout:
        """Return the checkout of a task."""
        return Checkout(
            CheckoutLocation(self.checkouts, task.project, task.id), self.mirror, task.branch
        )


# Larger files are compared by size and modification time.
MAX_HASHED_BYTES = 4 * 1024 * 1024


def set_up_checkout(context: RepoContext, task: Task) -> Checkout:
    """Make or refresh the task's checkout. Each step finds what an earlier attempt has done."""
    return prepare_checkout(context, task).checkout


@dataclass(frozen=True, slots=True)
class ReadyCheckout:
    """A checkout that is ready, and the present commit of the remote's base branch."""

    checkout: Checkout
    base: Sha


def prepare_checkout(context: RepoContext, task: Task) -> ReadyCheckout:
    """Make or refresh the task's checkout, and run its setup command."""
    fetch_mirror(context.mirror, context.remote)
    base, tip = resolve_base(context.mirror, context.remote, task.base_branch)
    place = context.checkout(task).place
    plan = CheckoutPlan(task.branch, base, context.identity)
    made = ensure_checkout(place, context.mirror, context.remote, plan)
    if not made.created:
        _refresh_checkout(made.checkout, base)
    if context.settings.setup_command:
        ran = run_setup(
            place.path, context.settings.setup_command, context.env, seconds=context.command_seconds
        )
        if ran is not None and not ran.passed:
            raise SetupFailed(ran)
    return ReadyCheckout(made.checkout, tip)


def _refresh_checkout(checkout: Checkout, base: str) -> None:
    try:
        refresh_checkout(checkout, base)
    except CheckoutError:
        # An agent that left its branch gets the error at the end of its turn.
        return


def progress_digest(context: RepoContext, task: Task) -> str:
    """Return a digest that changes when the work does; empty if it cannot be computed."""
    try:
        found = read_status(context.checkout(task), task.base_branch or "HEAD")
    except (CheckoutError, ValueError):
        return ""
    checkout = context.checkout(task)
    path = checkout.path
    start = read_mirror_ref(context.mirror, f"{PUSHED_REFS}{task.branch}") or read_mirror_ref(
        context.mirror, checkout.ref("base")
    )
    if not found.dirty and found.head.commit == start:
        return f"{CLEAN_PREFIX}{start}"
    parts = [str(found.head), *(f"{file} {_file_digest(path, file)}" for file in found.dirty)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def save_blocked_work(context: RepoContext, task: Task) -> str:
    """Push blocked work to a branch of its own; return its name, or nothing if that fails."""
    context.require_fence()
    try:
        made = push_checkpoint(
            context.checkout(task),
            context.remote,
            context.identity,
            issue=task.number,
            title=task.title,
        )
    except (CheckoutError, ValueError):
        return ""
    return made.branch


def _file_digest(root: Path, file: str) -> str:
    """Return a digest of a file's content; rewriting the same content is not progress."""
    try:
        found = (root / file).lstat()
        if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_HASHED_BYTES:
            data = agent_folder.read_file(root, *PurePosixPath(file).parts, limit=MAX_HASHED_BYTES)
            return hashlib.sha256(data or b"").hexdigest()
    except OSError:
        return "gone"
    return f"{found.st_size} {found.st_mtime_ns}"


# Further files are ignored: changes among them may be missed.
MAX_FILES = 20_000
# Git's object store changes without any work; HEAD and refs change with commits.
_IGNORED_GIT_FOLDERS = frozenset({"objects", "lfs", "hooks"})


def folder_digest(folder: Path) -> str:
    """Return a digest of names, sizes and times. Reads no file; empty if there is no folder."""
    if not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for line in islice(_walk_files(str(folder)), MAX_FILES):
        digest.update(line.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:24]


def _walk_files(folder: str) -> Iterator[str]:
    """Yield a line for every file below, ordered by name. Symlinks are not followed."""
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
