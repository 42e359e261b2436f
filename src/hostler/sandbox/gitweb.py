"""Where git meets the world: who may push, and what a push changes."""

from __future__ import annotations

from dataclasses import replace

from hostler.sandbox.auth import identify
from hostler.sandbox.entities import Repo
from hostler.sandbox.errors import ApiError
from hostler.sandbox.git.gate import Call, Standing
from hostler.sandbox.git.http import GitBridge, Push
from hostler.sandbox.git.vault import Vault
from hostler.sandbox.world import World


def bridge(world: World, vault: Vault) -> GitBridge:
    """The smart-HTTP side of a world's repositories."""

    async def pushed(push: Push) -> None:
        repo = world.truth.get(Repo, push.number)
        if repo is not None:
            now = world.now()
            world.put(replace(repo, pushed_at=now, updated_at=now))
        for listener in world.push_listeners:
            await listener(push)

    def look_up(call: Call, token: str | None) -> Standing:
        return standing(world, call, token)

    return GitBridge(vault, look_up, pushed, lambda: world.settings.git_idle_seconds or None)


def standing(world: World, call: Call, token: str | None) -> Standing:
    """How the bearer of a token stands to the repository that a git client names."""
    try:
        viewer = identify(world, None if token is None else f"Bearer {token}")
    except ApiError:
        return Standing(None, bad_credentials=True)
    tables = world.truth
    name = f"{call.owner}/{call.name}".lower()
    repo = tables.find(Repo, name)
    moved = None if repo else tables.find(Repo, "former", name)
    found = repo or moved
    if found is None:
        return Standing(None, login=viewer.login or None)
    return Standing(
        number=found.id,
        login=viewer.login or None,
        can_read=viewer.can(tables, found, "read"),
        can_write=viewer.can(tables, found, "write") and not found.archived,
        moved_to=found.full_name if moved else None,
    )
