"""`hostler governor`: show, set, reset, park and resume pools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hostler.cli.context import (
    GlobalOptions,
    JsonOption,
    call_service_or_local,
    global_options,
    load_settings,
)
from hostler.cli.help import CommandGroup
from hostler.cli.output import print_json, print_line, print_note
from hostler.errors import HostlerError, StoreMissing, StoreOutdated

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from hostler.governor.adaptive.model import PoolConfig
    from hostler.governor.status import GovernorStatus
    from hostler.service.tasks.control import PoolControl
    from hostler.store import Store
    from hostler.web.client.connection import ServiceConnection


ProviderOption = Annotated[
    str,
    typer.Option(
        metavar="POOL",
        help="Pool: provider or provider:account [default: all for show, else anthropic].",
    ),
]

WatchOption = Annotated[bool, typer.Option("--watch", help="Keep updating until Ctrl-C.")]

T = TypeVar("T")

# Processes that die and times that pass write nothing to the database: check again after this.
REFRESH_SECONDS = 1.0
CLEAR_SCREEN = "\x1b[H\x1b[2J"

commands = CommandGroup("governor", runs_alone=True)


def register_governor(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.callback()
def governor(
    context: typer.Context,
    provider: ProviderOption = "",
    json: JsonOption = False,
    watch: WatchOption = False,
) -> None:
    """Show and set how many agents run at once.

    Without a command, same as `hostler governor show`.

    \b
    Example:
      hostler governor
      hostler governor set --provider openai --max-global 4
    """
    context.obj = (provider, json)
    if context.invoked_subcommand is None:
        _show_pools(global_options(context), provider, as_json=json, watch=watch)


@commands.command()
def show(
    context: typer.Context,
    provider: ProviderOption = "",
    json: JsonOption = False,
    watch: WatchOption = False,
) -> None:
    """Show the pools.

    Shows each pool's cap, adaptive state and running agents, and why other agents wait.

    \b
    Example:
      hostler governor show
      hostler governor show --watch
      hostler governor show --provider openai --json
    """
    provider, json = _with_group_options(context, provider, json=json)
    _show_pools(global_options(context), provider, as_json=json, watch=watch)


@commands.command("set")
def set_cap(
    context: typer.Context,
    max_global: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=1024,
            help="Maximum number of agents at once; 0: as in `[runtime]` of the settings.",
        ),
    ],
    provider: ProviderOption = "",
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Adapt the cap to what the provider accepts.")
    ] = False,
    policy: Annotated[
        str, typer.Option(metavar="NAME", help="Adaptive policy: aimd or served.")
    ] = "aimd",
    hard_max: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=4096,
            help="Upper limit of the adaptive cap; 0: twice --max-global.",
        ),
    ] = 0,
    settle_sec: Annotated[
        int,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=86_400,
            help="Settle window after a change of the cap; 0: 120.",
        ),
    ] = 0,
    break_sec: Annotated[
        int,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=86_400,
            help="How long the breaker first stays open; 0: 300.",
        ),
    ] = 0,
    min_dispatch_interval: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, max=86_400, help="Minimum time between two starts; 0: 3."
        ),
    ] = 0,
    json: JsonOption = False,
) -> None:
    """Set how many agents of a pool run at once.

    Applies to this machine. Replaces all settings of the pool: options not given return to their
    defaults, so without --adaptive the cap is fixed. An adaptive cap restarts from --max-global;
    breaker and parking are kept. Other pools, and other programs' keys in governor.json, are not
    changed. Applies from the next start; running agents continue.

    \b
    Example:
      hostler governor set --max-global 6
      hostler governor set --max-global 6 --adaptive --hard-max 20
      hostler governor set --provider openai:work --max-global 2
    """
    from hostler.governor.policy import read_policy

    provider, json = _with_group_options(context, provider, json=json)
    given = global_options(context)
    pool = _parse_pool(provider)
    given_values: dict[str, Any] = {
        "max_global_agents": max_global,
        "adaptive": adaptive,
        "policy": _parse_policy(policy),
        "hard_max": hard_max,
        "settle_seconds": settle_sec,
        "break_seconds": break_sec,
        "min_dispatch_interval_seconds": min_dispatch_interval,
    }
    defaults = {"adaptive": False, "policy": "aimd"}
    # Defaults are not written: the file contains only what the operator has chosen.
    chosen = {
        key: value for key, value in given_values.items() if value not in (0, defaults.get(key))
    }
    settings = load_settings(given).settings
    if 0 < hard_max < max_global:
        raise _usage_error(
            f"--hard-max {hard_max} is below --max-global {max_global}.",
            "Use a higher one, or leave it out for twice --max-global.",
        )
    _set_caps(context, pool, {"max_global_agents": max_global, **chosen})
    config = read_policy(given.home_folder, settings).pool_config(pool)
    if json:
        print_json({"pool": pool, **given_values, **_effective_caps(config)})
        return
    many = f"{config.max_global} agent{'s' if config.max_global != 1 else ''}"
    if config.adaptive:
        print_line(
            f"Pool {pool}: starts with {many}, at most {config.hard_max} "
            f"(adaptive: {config.policy})."
        )
    else:
        print_line(f"Pool {pool}: at most {many} at once.")


@commands.command()
def reset(context: typer.Context, provider: ProviderOption = "", json: JsonOption = False) -> None:
    """Reset the adaptive state of a pool.

    Resets the adaptive cap, the breaker and the rate-limit history.

    \b
    Example:
      hostler governor reset --provider openai
    """
    provider, json = _with_group_options(context, provider, json=json)
    pool = _parse_pool(provider)
    known = _control_pools(context, lambda to: to.reset(pool))
    if json:
        print_json({"pool": pool, "was_known": known})
    else:
        print_line(
            f"Pool {pool}: "
            + ("adaptive state was reset." if known else "there was no adaptive state.")
        )


@commands.command()
def park(
    context: typer.Context,
    provider: ProviderOption = "",
    until: Annotated[
        str, typer.Option(metavar="TIME", help="End in UTC, such as 2026-05-01T12:00Z.")
    ] = "",
    hours: Annotated[
        float | None, typer.Option("--for", metavar="HOURS", min=0, help="Duration in hours.")
    ] = None,
    why: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason (shown for waiting tasks).")
    ] = "",
    json: JsonOption = False,
) -> None:
    """Start no agents in a pool for a time.

    Without --until or --for, the pool is parked until it is resumed. Running agents continue. If
    the pool is already parked for longer, that stays.

    \b
    Example:
      hostler governor park --provider openai --for 2 --why "Replacing the key."
      hostler governor park --until 2026-05-01T12:00Z
    """
    from hostler.model import format_timestamp

    provider, json = _with_group_options(context, provider, json=json)
    pool, term = _parse_pool(provider), _parse_term(until, hours)
    reason = " ".join(why.split()) or "Parked by an operator."
    found = _control_pools(context, lambda to: to.park(pool, term, reason))
    if json:
        ends_at = format_timestamp(found.ends_at) if found and found.ends_at else None
        print_json({"pool": pool, "parked": found is not None, "until": ends_at})
    elif found is None:
        print_line(f"Pool {pool} is not parked: that time has passed.")
    else:
        print_line(f"Pool {pool} is parked {found.text}.")


@commands.command()
def resume(context: typer.Context, provider: ProviderOption = "", json: JsonOption = False) -> None:
    """Resume a parked pool.

    Also resumes a pool that was parked because its provider reported a limit.

    \b
    Example:
      hostler governor resume --provider openai
    """
    provider, json = _with_group_options(context, provider, json=json)
    pool = _parse_pool(provider)
    was_parked = _control_pools(context, lambda to: to.resume(pool))
    if json:
        print_json({"pool": pool, "was_parked": was_parked})
    else:
        print_line(f"Resumed pool {pool}." if was_parked else f"Pool {pool} was not parked.")


def _with_group_options(context: typer.Context, provider: str, *, json: bool) -> tuple[str, bool]:
    """Return the options given either before or after the command's name."""
    above: Any = context.parent.obj if context.parent else ("", False)
    return provider or above[0], json or above[1]


def _parse_pool(provider: str) -> str:
    from hostler.governor.policy import pool_key, require_pool_name

    return pool_key(require_pool_name("pool", provider))


def _parse_policy(name: str) -> str:
    from typing import get_args

    from hostler.config.pools import PoolCaps

    known = get_args(PoolCaps.model_fields["policy"].annotation)
    if name in known:
        return name
    raise _usage_error(f"Unknown policy {name!r}.", f"Known policies: {', '.join(known)}.")


def _effective_caps(config: PoolConfig) -> dict[str, Any]:
    """Return the effective limits, including defaults."""
    return {
        "max_global_agents": config.max_global,
        "hard_max": config.hard_max,
        "settle_seconds": config.settle_seconds,
        "break_seconds": config.break_seconds,
        "min_dispatch_interval_seconds": config.min_dispatch_interval_seconds,
    }


def _parse_term(until: str, hours: float | None) -> datetime | timedelta | None:
    """Parse how long or until when a pool is parked; None means until it is resumed."""
    from datetime import timedelta

    from hostler.model import parse_timestamp

    if hours is not None and not hours > 0:
        raise _usage_error(
            "--for must be more than 0.", "Leave it out to park the pool until it is resumed."
        )
    if until and hours:
        raise _usage_error("Give either --until or --for, not both.", "")
    if hours:
        return timedelta(hours=min(hours, 10_000))
    if not until:
        return None
    try:
        return parse_timestamp(until)
    except (ValueError, OverflowError):
        raise _usage_error(
            f"Invalid time {until[:60]!r}.", "Write it like 2026-05-01T12:00Z."
        ) from None


def _usage_error(what: str, remedy: str) -> HostlerError:
    refused = HostlerError(what, safe="Nothing was changed.", remedy=remedy)
    refused.exit_code = 2
    return refused


def _set_caps(context: typer.Context, pool: str, chosen: dict[str, Any]) -> None:
    """Set caps through the database, or only in the file if there is no database yet."""
    from hostler.governor.caps_file import set_caps

    try:
        _control_pools(context, lambda to: to.set(pool, chosen))
    except StoreMissing:
        set_caps(global_options(context).home_folder, pool, chosen)


def _control_pools(context: typer.Context, act: Callable[[PoolControl], T]) -> T:
    given = global_options(context)

    def remote(line: ServiceConnection) -> T:
        from hostler.web.client.commands import RemotePools

        return act(RemotePools(line))

    def local() -> T:
        from hostler.service.pool_admin import LocalPoolControl

        with _open_store(given) as store:
            return act(LocalPoolControl(given.home_folder, load_settings(given).settings, store))

    return call_service_or_local(context, remote, local)


@contextmanager
def _open_store(given: GlobalOptions) -> Iterator[Store]:
    from hostler.store import open_store

    store = open_store(
        given.home_folder, load_settings(given).settings.runtime.database_url or None
    )
    try:
        yield store
    finally:
        store.close()


def _show_pools(given: GlobalOptions, provider: str, *, as_json: bool, watch: bool) -> None:
    if watch and as_json:
        raise _usage_error("--watch does not go with --json.", "Call it repeatedly with --json.")
    if watch:
        with suppress(KeyboardInterrupt):
            _wait_for_database(given, provider)
            _watch_pools(given, provider)
        return
    try:
        _print_status(_select_pool(_read_status(given), provider), as_json=as_json)
    except StoreOutdated as error:
        # JSON must be complete: the settings alone would look like the whole status.
        if as_json:
            raise
        _print_caps(_select_pool(_status_from_files(given), provider), error)


def _wait_for_database(given: GlobalOptions, provider: str) -> None:
    """Wait until there is a database; print the configured caps once."""
    import sys

    from hostler.clock import SystemClock

    printed = False
    while True:
        try:
            with _open_store(given):
                return
        except StoreMissing:
            if not printed:
                _print_status(
                    _select_pool(_status_without_database(given), provider), as_json=False
                )
                sys.stdout.flush()
            printed = True
        SystemClock().wakeup().wait(REFRESH_SECONDS)


def _print_caps(found: GovernorStatus, error: StoreOutdated) -> None:
    """Print the configured caps when the database is too old to read."""
    from hostler.cli.commands.governor_format import format_caps

    for line in format_caps(found):
        print_line(line)
    print_note(f"{error.what} Running agents and adaptive state cannot be shown until then.")
    print_note(error.remedy)


def _watch_pools(given: GlobalOptions, provider: str) -> None:
    """Print the status, and again whenever more than the free memory has changed."""
    import sys

    from hostler.cli.commands.governor_format import format_pools

    before: list[str] = []
    with _open_store(given) as store:
        while True:
            mark = store.change_mark()
            found = _select_pool(_status_from_store(store, given), provider)
            now = format_pools(found)
            if now != before:
                before = now
                sys.stdout.write(CLEAR_SCREEN if sys.stdout.isatty() else "")
                _print_status(found, as_json=False)
                sys.stdout.flush()
            store.wait_for_change(mark, REFRESH_SECONDS)


def _select_pool(found: GovernorStatus, provider: str) -> GovernorStatus:
    from dataclasses import replace

    if not provider:
        return found
    found = replace(found, pools=tuple(p for p in found.pools if p.pool == provider))
    if not found.pools:
        raise HostlerError(
            f"There is no pool {provider}: it has no cap set and no agents.",
            remedy="`hostler governor` lists all pools.",
        )
    return found


def _print_status(found: GovernorStatus, *, as_json: bool) -> None:
    from hostler.cli.commands.governor_format import format_machine, format_pools

    if as_json:
        print_json(found.as_json())
        return
    for line in [*format_pools(found), format_machine(found)]:
        print_line(line)


def _read_status(given: GlobalOptions) -> GovernorStatus:
    try:
        with _open_store(given) as store:
            return _status_from_store(store, given)
    except StoreMissing:
        return _status_without_database(given)


def _status_without_database(given: GlobalOptions) -> GovernorStatus:
    found = _status_from_files(given)
    print_note("No database yet: no agents are running.")
    return found


def _status_from_files(given: GlobalOptions) -> GovernorStatus:
    """Return the status as far as the settings and governor.json tell it."""
    from hostler.clock import SystemClock
    from hostler.governor.holders import EMPTY_PRUNE_PLAN, read_host
    from hostler.governor.policy import read_policy
    from hostler.governor.status import StoredPools, status_of

    policy = read_policy(given.home_folder, load_settings(given).settings)
    return status_of(EMPTY_PRUNE_PLAN, StoredPools(), SystemClock().now(), policy, read_host())


def _status_from_store(store: Store, given: GlobalOptions) -> GovernorStatus:
    from hostler.governor.holders import read_host
    from hostler.governor.policy import read_policy
    from hostler.governor.status import status

    policy = read_policy(given.home_folder, load_settings(given).settings)
    with store.read() as tx:
        return status(tx, policy, read_host())
