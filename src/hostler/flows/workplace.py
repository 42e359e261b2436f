"""The edge before a run: a checkout that shows the remote's news; and how far its work is."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hostler.checkouts import beneath
from hostler.checkouts.cleaning import checkpoint
from hostler.checkouts.commands import run_setup
from hostler.checkouts.mirror import base_of, head_of, update
from hostler.checkouts.names import Sha
from hostler.checkouts.place import PUSHED, Checkout
from hostler.checkouts.preparing import Plan, prepare
from hostler.checkouts.refreshing import refresh
from hostler.checkouts.status import status
from hostler.errors import CheckoutError
from hostler.flows.desk import Desk
from hostler.flows.outcomes import CLEAN
from hostler.flows.trouble import SetupFailed
from hostler.store.tasks import Task

# Larger files are told apart by size and time of change.
LARGEST_READ = 4 * 1024 * 1024


def set_up(desk: Desk, task: Task) -> Checkout:
    """The task's checkout, made or refreshed. Each step finds what an earlier try has done."""
    return make_ready(desk, task).checkout


@dataclass(frozen=True, slots=True)
class Ready:
    """A checkout that is ready, and the commit that the remote's base branch has now."""

    checkout: Checkout
    base: Sha


def make_ready(desk: Desk, task: Task) -> Ready:
    """The same, with what else was found out on the way."""
    update(desk.mirror, desk.remote)
    base, tip = base_of(desk.mirror, desk.remote, task.base_branch)
    place = desk.checkout(task).place
    plan = Plan(task.branch, base, desk.identity)
    made = prepare(place, desk.mirror, desk.remote, plan)
    if not made.created:
        _refresh(made.checkout, base)
    if desk.settings.setup_command:
        ran = run_setup(
            place.path, desk.settings.setup_command, desk.env, seconds=desk.command_seconds
        )
        if ran is not None and not ran.passed:
            raise SetupFailed(ran)
    return Ready(made.checkout, tip)


def _refresh(checkout: Checkout, base: str) -> None:
    try:
        refresh(checkout, base)
    except CheckoutError:
        # An agent that left its branch is told so at the end of its turn, when it matters.
        return


def progress(desk: Desk, task: Task) -> str:
    """A word that changes when the work does; empty where it cannot be told."""
    try:
        found = status(desk.checkout(task), task.base_branch or "HEAD")
    except (CheckoutError, ValueError):
        return ""
    checkout = desk.checkout(task)
    path = checkout.path
    start = head_of(desk.mirror, f"{PUSHED}{task.branch}") or head_of(
        desk.mirror, checkout.ref("base")
    )
    if not found.dirty and found.head.commit == start:
        return f"{CLEAN}{start}"
    parts = [str(found.head), *(f"{file} {_traits(path, file)}" for file in found.dirty)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def keep(desk: Desk, task: Task) -> str:
    """Put blocked work on a branch of its own; its name, or nothing where that cannot be done."""
    desk.permit()
    try:
        made = checkpoint(
            desk.checkout(task), desk.remote, desk.identity, issue=task.number, title=task.title
        )
    except (CheckoutError, ValueError):
        return ""
    return made.branch


def _traits(root: Path, file: str) -> str:
    """What changes with a file's content. Writing the same anew is no progress."""
    try:
        found = (root / file).lstat()
        if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST_READ:
            data = beneath.read(root, *PurePosixPath(file).parts, limit=LARGEST_READ)
            return hashlib.sha256(data or b"").hexdigest()
    except OSError:
        return "gone"
    return f"{found.st_size} {found.st_mtime_ns}"
