"""Whether a pull request can be merged, found out in the background as GitHub does.

The first reader after a move gets "unknown" and starts the check; the next one waits for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from weakref import WeakKeyDictionary

from hostler.sandbox import people
from hostler.sandbox.entities import Issue
from hostler.sandbox.git import merging, refs
from hostler.sandbox.git.errors import MergeConflict
from hostler.sandbox.git.merging import Merge
from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.pull_entities import Pull
from hostler.sandbox.world import World

_under_way: WeakKeyDictionary[World, dict[int, asyncio.Task[None]]] = WeakKeyDictionary()


async def look(world: World, git: Repository, pull_id: int) -> None:
    """Start a check where one is needed, or wait for the one under way."""
    tasks = _under_way.setdefault(world, {})
    task = tasks.get(pull_id)
    if task is not None:
        await asyncio.shield(task)
    elif pull := _unknown(world, pull_id):
        task = asyncio.create_task(_check(world, git, pull))
        tasks[pull_id] = task
        task.add_done_callback(lambda _done: tasks.pop(pull_id, None))


async def settle(world: World, git: Repository, pull_id: int) -> None:
    """Find out now, for those who cannot go on without knowing and hold the lock."""
    pull = _unknown(world, pull_id)
    if pull is not None:
        await _store(world, git, pull, await _try(world, git, pull))


def _unknown(world: World, pull_id: int) -> Pull | None:
    """The pull request, where it is open and nobody knows whether it merges."""
    pull = world.truth.get(Pull, pull_id)
    issue = world.truth.get(Issue, pull.issue_id) if pull else None
    opened = issue is not None and issue.state == "open"
    return pull if pull and pull.mergeable is None and opened else None


async def _check(world: World, git: Repository, pull: Pull) -> None:
    made = await _try(world, git, pull)
    async with git.lock:
        await _store(world, git, pull, made)


async def _try(world: World, git: Repository, pull: Pull) -> str | None:
    """Merge for trial; the commit, or None where the sides conflict."""
    try:
        return await merging.merge(git, _trial(world, pull))
    except MergeConflict:
        return None


async def _store(world: World, git: Repository, asked: Pull, made: str | None) -> None:
    now = world.truth.get(Pull, asked.id)
    # It may have moved meanwhile; then the answer is to a question nobody asks any more.
    if now is None or now.merged_at is not None:
        return
    if (now.head_sha, now.base_sha) != (asked.head_sha, asked.base_sha):
        return
    world.put(replace(now, mergeable=made is not None, merge_sha=made))
    ref = f"refs/pull/{asked.number}/merge"
    if made:
        await refs.move(git, ref, made)
    else:
        await drop(git, ref)


def _trial(world: World, pull: Pull) -> Merge:
    host = people.host(world)
    words = f"Merge {pull.head_sha} into {pull.base_sha}\n"
    return Merge(pull.base_sha, pull.head_sha, words, host, host)


async def drop(git: Repository, ref: str) -> None:
    """Remove a ref if it is there."""
    if await refs.find(git, ref):
        await refs.move(git, ref, ZERO)


def under_way(world: World, pull_id: int) -> bool:
    """Whether a check has been started and not ended."""
    return pull_id in _under_way.get(world, {})
