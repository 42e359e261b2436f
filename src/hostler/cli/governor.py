"""`hostler governor`: who runs, who waits, and how many agents each provider takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.output import YELLOW, coloured, note, say, say_json
from hostler.cli.state import Globals, globals_of, settings_of
from hostler.errors import HostlerError, StoreMissing

if TYPE_CHECKING:
    from hostler.governor.status import PoolStatus, Status
    from hostler.store.leases import Lease

Provider = Annotated[
    str, typer.Option(help="The pool: provider or provider:account [set: anthropic; show: all].")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

commands = typer.Typer(
    name="governor",
    help="Show and set how many agents run at once. Alone, it shows.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.callback()
def governor(context: typer.Context, provider: Provider = "", json: Json = False) -> None:
    """Show and set how many agents run at once. Alone, it shows.

    \b
    Example:
      hostler governor
      hostler governor set --provider openai --max-global 4
    """
    context.obj = (provider, json)
    if context.invoked_subcommand is None:
        _show(globals_of(context), provider, as_json=json)


@commands.command()
def show(context: typer.Context, provider: Provider = "", json: Json = False) -> None:
    """Show every pool: its cap, who runs, who wants more, and what each may have.

    \b
    Example:
      hostler governor show
      hostler governor show --provider openai --json
    """
    provider, json = _given(context, provider, json=json)
    _show(globals_of(context), provider, as_json=json)


@commands.command("set")
def set_cap(
    context: typer.Context,
    max_global: Annotated[
        int,
        typer.Option(min=0, max=1024, help="Agents at once; 0: as `[runtime]` of the settings."),
    ],
    provider: Provider = "",
    json: Json = False,
) -> None:
    """Set how many agents of one pool run at once, on the whole machine.

    It holds from the next start on; running agents are left alone. All else in governor.json
    stays as it is.

    \b
    Example:
      hostler governor set --max-global 6
      hostler governor set --provider openai:work --max-global 2
    """
    from hostler.governor import pool_key, read_policy
    from hostler.governor.caps import set_caps
    from hostler.governor.pools import named_by_hand

    provider, json = _given(context, provider, json=json)
    given = globals_of(context)
    settings = settings_of(given).settings
    pool = pool_key(named_by_hand("pool", provider))
    set_caps(given.home_folder, pool, {"max_global_agents": max_global})
    cap = read_policy(given.home_folder, settings).cap(pool)
    if json:
        say_json({"pool": pool, "max_global_agents": cap})
    else:
        say(f"Pool {pool}: at most {cap} agent{'s' if cap != 1 else ''} at once.")


@commands.command()
def unpark(context: typer.Context, provider: Provider = "", json: Json = False) -> None:
    """Open a pool that was closed because its provider said so.

    \b
    Example:
      hostler governor unpark --provider openai
    """
    from hostler.governor import pool_key
    from hostler.governor import unpark as open_pool
    from hostler.governor.pools import named_by_hand
    from hostler.store import open_store

    provider, json = _given(context, provider, json=json)
    given = globals_of(context)
    pool = pool_key(named_by_hand("pool", provider))
    store = open_store(given.home_folder, settings_of(given).settings.runtime.database_url or None)
    try:
        with store.write("admission") as tx:
            was_closed = open_pool(tx, pool)
    finally:
        store.close()
    if json:
        say_json({"pool": pool, "was_parked": was_closed})
    else:
        say(f"Pool {pool} is open." if was_closed else f"Pool {pool} was open.")


def _given(context: typer.Context, provider: str, *, json: bool) -> tuple[str, bool]:
    """Options may stand before the command's name as well."""
    above: Any = context.parent.obj if context.parent else ("", False)
    return provider or above[0], json or above[1]


def _show(given: Globals, provider: str, *, as_json: bool) -> None:
    from dataclasses import replace

    found = _status(given)
    if provider:
        found = replace(found, pools=tuple(p for p in found.pools if p.pool == provider))
        if not found.pools:
            raise HostlerError(
                f"There is no pool {provider}: nobody set its cap, uses it or wants it.",
                remedy="See all with `hostler governor`.",
            )
    if as_json:
        say_json(found.as_json())
    else:
        _as_text(found)


def _status(given: Globals) -> Status:
    from hostler.clock import SystemClock
    from hostler.governor import look_around, read_policy, status
    from hostler.governor.pruning import NOTHING
    from hostler.governor.status import status_of
    from hostler.store import open_store

    settings = settings_of(given).settings
    policy, here = read_policy(given.home_folder, settings), look_around()
    try:
        store = open_store(given.home_folder, settings.runtime.database_url or None)
    except StoreMissing:
        note("There is no database yet: nothing runs.")
        return status_of(NOTHING, (), SystemClock().now(), policy, here)
    try:
        with store.read() as tx:
            return status(tx, policy, here)
    finally:
        store.close()


def _as_text(found: Status) -> None:
    for pool in found.pools:
        _say_pool(pool, found)
    ceiling = f" of {found.machine_max_agents}" if found.machine_max_agents else ""
    free = "unknown" if found.free_mb is None else f"{found.free_mb:,} MB"
    floor = f"{found.memory_floor_mb:,} MB" if found.memory_floor_mb else "nothing"
    say(f"machine: {found.on_machine}{ceiling} agents; memory free: {free}, kept: {floor}")
    if found.ended:
        say(f"given back at the next start, as their holders are dead: {', '.join(found.ended)}")


def _say_pool(pool: PoolStatus, found: Status) -> None:
    say(f"{pool.pool}: {pool.active} of {pool.cap} agents, {pool.free} free")
    if pool.parked:
        why = f" ({pool.parked.why})" if pool.parked.why else ""
        until = f"closed until {pool.parked.until:%Y-%m-%d %H:%M:%S} UTC{why}"
        say(f"  {coloured(until, YELLOW)}")
    for lease in pool.leases:
        say(f"  {_lease(lease, found)}")
    for project, share in pool.shares.items():
        wanted = [wish.wanted for wish in pool.demand if wish.project == project]
        known = [number for number in wanted if number is not None]
        more = str(sum(known)) if len(known) == len(wanted) else "some"
        say(f"  {project} wants {more} more; its share is {share}")


def _lease(lease: Lease, found: Status) -> str:
    from hostler.governor.moments import age_of

    minutes = int(age_of(lease.acquired_at, found.now).total_seconds()) // 60
    who = lease.task_id or lease.program
    marks = [
        word for word, true in (("lent", lease.lent), ("unseen", _unseen(lease, found))) if true
    ]
    return "  ".join(
        [lease.project, who, lease.lease, f"pid {lease.holder.pid}", f"{minutes} min", *marks]
    )


def _unseen(lease: Lease, found: Status) -> bool:
    return lease.lease in found.unseen
