"""Where git meets the world: who may push, and what a push changes."""

from __future__ import annotations

from functools import partial

from hostler.sandbox.auth import identify
from hostler.sandbox.entities import Repo
from hostler.sandbox.errors import ApiError
from hostler.sandbox.git.gate import Call, Standing
from hostler.sandbox.git.http import GitBridge
from hostler.sandbox.git.vault import Vault
from hostler.sandbox.ref_moves import announce
from hostler.sandbox.world import World


def bridge(world: World, vault: Vault) -> GitBridge:
    """The smart-HTTP side of a world's repositories."""

    def look_up(call: Call, token: str | None) -> Standing:
        return standing(world, call, token)

    return GitBridge(
        vault, look_up, partial(announce, world), lambda: world.settings.git_idle_seconds or None
    )


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
