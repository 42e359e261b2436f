"""Refs that were moved, by a push or through the API, are announced so that all follows them."""

from __future__ import annotations

from dataclasses import replace

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Repo
from hostler.sandbox.git.http import Push
from hostler.sandbox.git.refs import Move
from hostler.sandbox.world import World


async def announce(world: World, push: Push) -> None:
    """Tell all listeners; the caller holds the repository's lock."""
    repo = world.truth.get(Repo, push.number)
    if repo is not None:
        now = world.now()
        world.put(replace(repo, pushed_at=now, updated_at=now))
    for listener in world.push_listeners:
        await listener(push)


async def announce_call(call: Call, *moves: Move) -> None:
    """The same for what the present caller did."""
    await announce(call.world, Push(call.repo.id, call.actor, moves))
