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
from hostler.cli.output import print_json, print_line, print_note
from hostler.errors import HostlerError, StoreMissing, StoreOutdated

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from hostler.governor.adaptive.model import PoolConfig
    from hostler.governor.status import Status
    from hostler.service.tasks.control import PoolControl
    from hostler.store import Store
    from hostler.web.client.connection import ServiceConnection


ProviderOption = Annotated[
    str, typer.Option(help="The pool: provider or provider:account [show: all; else anthropic].")
]

WatchOption = Annotated[bool, typer.Option("--watch", help="Show it again whenever it changes.")]

T = TypeVar("T")

# Deaths and passing moments are told by no commit.
REFRESH_SECONDS = 1.0
CLEAR_SCREEN = "\x1b[H\x1b[2J"

commands = typer.Typer(
    name="governor",
    help="Show and set how many agents run at once. Alone, it shows.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


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
    """Show and set how many agents run at once. Alone, it shows.

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
    """Show every pool: its cap, what was learned of it, who runs, and why others wait.

    It changes nothing.

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
        typer.Option(min=0, max=1024, help="Agents at once; 0: as `[runtime]` of the settings."),
    ],
    provider: ProviderOption = "",
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Let the cap follow what the provider takes.")
    ] = False,
    policy: Annotated[str, typer.Option(help="How it follows: aimd or served.")] = "aimd",
    hard_max: Annotated[
        int, typer.Option(min=0, max=4096, help="Where it ends; 0: twice --max-global.")
    ] = 0,
    settle_sec: Annotated[
        int, typer.Option(min=0, max=86_400, help="Pause after every change of it; 0: 120.")
    ] = 0,
    break_sec: Annotated[
        int, typer.Option(min=0, max=86_400, help="First pause of the breaker; 0: 300.")
    ] = 0,
    min_dispatch_interval: Annotated[
        float, typer.Option(min=0, max=86_400, help="Seconds between two starts; 0: 3.")
    ] = 0,
    json: JsonOption = False,
) -> None:
    """Set how many agents of one pool run at once, on the whole machine.

    The pool is set anew: what is not named goes back to its default, so that without --adaptive
    its cap is fixed. An adaptive cap starts again from --max-global; the breaker and a closing
    stay. Other pools, and keys of other programs in governor.json, stay too. It holds from the
    next start on; running agents are left alone.

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
    told: dict[str, Any] = {
        "max_global_agents": max_global,
        "adaptive": adaptive,
        "policy": _parse_policy(policy),
        "hard_max": hard_max,
        "settle_seconds": settle_sec,
        "break_seconds": break_sec,
        "min_dispatch_interval_seconds": min_dispatch_interval,
    }
    usual = {"adaptive": False, "policy": "aimd"}
    # What is as usual is not written: the file says what the operator has chosen.
    chosen = {key: value for key, value in told.items() if value not in (0, usual.get(key))}
    settings = load_settings(given).settings
    if 0 < hard_max < max_global:
        raise _usage_error(
            f"--hard-max {hard_max} is below --max-global {max_global}.",
            "Name one that is not, or none: then it is twice --max-global.",
        )
    _set_caps(context, pool, {"max_global_agents": max_global, **chosen})
    knobs = read_policy(given.home_folder, settings).knobs(pool)
    if json:
        print_json({"pool": pool, **told, **_effective_caps(knobs)})
        return
    many = f"{knobs.max_global} agent{'s' if knobs.max_global != 1 else ''}"
    if knobs.adaptive:
        print_line(f"Pool {pool}: {many} to start with, at most {knobs.hard_max} ({knobs.policy}).")
    else:
        print_line(f"Pool {pool}: at most {many} at once.")


@commands.command()
def reset(context: typer.Context, provider: ProviderOption = "", json: JsonOption = False) -> None:
    """Forget what was learned of a pool: its cap, its breaker, its events.

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
            f"Pool {pool}: {'what was learned is forgotten' if known else 'nothing was learned'}."
        )


@commands.command()
def park(
    context: typer.Context,
    provider: ProviderOption = "",
    until: Annotated[str, typer.Option(help="Until when, in UTC: 2026-05-01T12:00Z.")] = "",
    hours: Annotated[float | None, typer.Option("--for", min=0, help="For how many hours.")] = None,
    why: Annotated[str, typer.Option(help="Why, for those who wait.")] = "",
    json: JsonOption = False,
) -> None:
    """Close a pool: nobody starts there. Without a time, until it is resumed.

    Running agents are left alone. A closing that lasts longer stays as it is.

    \b
    Example:
      hostler governor park --provider openai --for 2 --why "The key is renewed."
      hostler governor park --until 2026-05-01T12:00Z
    """
    from hostler.model import format_timestamp

    provider, json = _with_group_options(context, provider, json=json)
    pool, term = _parse_pool(provider), _parse_term(until, hours)
    reason = " ".join(why.split()) or "An operator closed it."
    found = _control_pools(context, lambda to: to.park(pool, term, reason))
    if json:
        ends_at = format_timestamp(found.ends_at) if found and found.ends_at else None
        print_json({"pool": pool, "parked": found is not None, "until": ends_at})
    elif found is None:
        print_line(f"Pool {pool} is open: that moment is past.")
    else:
        print_line(f"Pool {pool} is closed {found.in_words}.")


@commands.command()
def resume(context: typer.Context, provider: ProviderOption = "", json: JsonOption = False) -> None:
    """Open a pool that was closed, by its provider's word or by `park`.

    \b
    Example:
      hostler governor resume --provider openai
    """
    provider, json = _with_group_options(context, provider, json=json)
    pool = _parse_pool(provider)
    was_closed = _control_pools(context, lambda to: to.resume(pool))
    if json:
        print_json({"pool": pool, "was_parked": was_closed})
    else:
        print_line(f"Pool {pool} is open." if was_closed else f"Pool {pool} was open.")


def _with_group_options(context: typer.Context, provider: str, *, json: bool) -> tuple[str, bool]:
    """Options may stand before the command's name as well."""
    above: Any = context.parent.obj if context.parent else ("", False)
    return provider or above[0], json or above[1]


def _parse_pool(provider: str) -> str:
    from hostler.governor.policy import checked_pool_name, pool_key

    return pool_key(checked_pool_name("pool", provider))


def _parse_policy(name: str) -> str:
    from typing import get_args

    from hostler.config.pools import PoolCaps

    known = get_args(PoolCaps.model_fields["policy"].annotation)
    if name in known:
        return name
    raise _usage_error(f"There is no policy {name!r}.", f"Known are: {', '.join(known)}.")


def _effective_caps(knobs: PoolConfig) -> dict[str, Any]:
    """What holds where the operator left it open."""
    return {
        "max_global_agents": knobs.max_global,
        "hard_max": knobs.hard_max,
        "settle_seconds": knobs.settle_seconds,
        "break_seconds": knobs.break_seconds,
        "min_dispatch_interval_seconds": knobs.min_dispatch_interval_seconds,
    }


def _parse_term(until: str, hours: float | None) -> datetime | timedelta | None:
    """For how long or until when a pool is closed; None: until it is resumed."""
    from datetime import timedelta

    from hostler.model import parse_timestamp

    if hours is not None and not hours > 0:
        raise _usage_error(
            "--for 0 is no time.", "Leave it out to close the pool until it is resumed."
        )
    if until and hours:
        raise _usage_error("--until and --for say the same thing twice.", "Give one of them.")
    if hours:
        return timedelta(hours=min(hours, 10_000))
    if not until:
        return None
    try:
        return parse_timestamp(until)
    except (ValueError, OverflowError):
        raise _usage_error(
            f"{until[:60]!r} is no moment.", "Write it like 2026-05-01T12:00Z."
        ) from None


def _usage_error(what: str, remedy: str) -> HostlerError:
    refused = HostlerError(what, safe="Nothing was changed.", remedy=remedy)
    refused.exit_code = 2
    return refused


def _set_caps(context: typer.Context, pool: str, chosen: dict[str, Any]) -> None:
    """Where there is no database yet, nothing was learned either."""
    from hostler.governor.caps_file import set_caps

    try:
        _control_pools(context, lambda to: to.set(pool, chosen))
    except StoreMissing:
        set_caps(global_options(context).home_folder, pool, chosen)


def _control_pools(context: typer.Context, act: Callable[[PoolControl], T]) -> T:
    given = global_options(context)

    def there(line: ServiceConnection) -> T:
        from hostler.web.client.commands import RemotePools

        return act(RemotePools(line))

    def here() -> T:
        from hostler.service.pool_admin import LocalPoolControl

        with _open_store(given) as store:
            return act(LocalPoolControl(given.home_folder, load_settings(given).settings, store))

    return call_service_or_local(context, there, here)


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
        raise _usage_error("--watch is for people.", "Ask with --json alone, as often as you like.")
    if watch:
        with suppress(KeyboardInterrupt):
            _wait_for_database(given, provider)
            _watch_pools(given, provider)
        return
    try:
        _print_status(_select_pool(_read_status(given), provider), as_json=as_json)
    except StoreOutdated as error:
        # A program must not take what the operator's file says for all that there is.
        if as_json:
            raise
        _print_caps(_select_pool(_status_from_files(given), provider), error)


def _wait_for_database(given: GlobalOptions, provider: str) -> None:
    """Without a database nothing changes but its absence; say so once, and wait for it."""
    import sys

    from hostler.clock import SystemClock

    told = False
    while True:
        try:
            with _open_store(given):
                return
        except StoreMissing:
            if not told:
                _print_status(
                    _select_pool(_status_without_database(given), provider), as_json=False
                )
                sys.stdout.flush()
            told = True
        SystemClock().wakeup().wait(REFRESH_SECONDS)


def _print_caps(found: Status, error: StoreOutdated) -> None:
    """What the operator allows, where nobody can read who runs."""
    from hostler.cli.commands.governor_format import format_caps

    for line in format_caps(found):
        print_line(line)
    print_note(f"{error.what} Until it is upgraded, who runs and what was learned is not shown.")
    print_note(error.remedy)


def _watch_pools(given: GlobalOptions, provider: str) -> None:
    """Show it, and again when something but the free memory has changed, until interrupted."""
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


def _select_pool(found: Status, provider: str) -> Status:
    from dataclasses import replace

    if not provider:
        return found
    found = replace(found, pools=tuple(p for p in found.pools if p.pool == provider))
    if not found.pools:
        raise HostlerError(
            f"There is no pool {provider}: nobody set its cap, uses it or wants it.",
            remedy="See all with `hostler governor`.",
        )
    return found


def _print_status(found: Status, *, as_json: bool) -> None:
    from hostler.cli.commands.governor_format import format_machine, format_pools

    if as_json:
        print_json(found.as_json())
        return
    for line in [*format_pools(found), format_machine(found)]:
        print_line(line)


def _read_status(given: GlobalOptions) -> Status:
    try:
        with _open_store(given) as store:
            return _status_from_store(store, given)
    except StoreMissing:
        return _status_without_database(given)


def _status_without_database(given: GlobalOptions) -> Status:
    found = _status_from_files(given)
    print_note("There is no database yet: nothing runs.")
    return found


def _status_from_files(given: GlobalOptions) -> Status:
    """What the operator's files say alone."""
    from hostler.clock import SystemClock
    from hostler.governor.holders import NOTHING_TO_PRUNE, read_host
    from hostler.governor.policy import read_policy
    from hostler.governor.status import Stored, status_of

    policy = read_policy(given.home_folder, load_settings(given).settings)
    return status_of(NOTHING_TO_PRUNE, Stored(), SystemClock().now(), policy, read_host())


def _status_from_store(store: Store, given: GlobalOptions) -> Status:
    from hostler.governor.holders import read_host
    from hostler.governor.policy import read_policy
    from hostler.governor.status import status

    policy = read_policy(given.home_folder, load_settings(given).settings)
    with store.read() as tx:
        return status(tx, policy, read_host())
