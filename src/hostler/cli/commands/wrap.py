"""`hostler wrap`: run any program under a lease of the governor."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from hostler.cli.context import GlobalOptions, global_options, load_settings
from hostler.cli.output import print_note
from hostler.errors import HostlerError, StoreMissing

if TYPE_CHECKING:
    from hostler.config.settings import Settings
    from hostler.governor.gates import LeaseDenied, LeaseRequest
    from hostler.governor.leases import LeaseWaiter
    from hostler.governor.policy import Policy
    from hostler.store import Store


# As shells say it.
EXIT_NOT_FOUND, EXIT_NOT_STARTED = 127, 126


def register_wrap(app: typer.Typer) -> None:
    """Add the commands of this file."""
    # What stands behind the program's name is the program's, dashes or not.
    app.command(context_settings={"allow_interspersed_args": False})(wrap)


def wrap(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="PROGRAM...", help="The program and its arguments.")
    ],
    provider: Annotated[
        str, typer.Option(help="Whose place it takes: provider or provider:account.")
    ] = "anthropic",
    project: Annotated[
        str, typer.Option(help="For which project [default: HOSTLER_PROJECT, else this folder].")
    ] = "",
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="End with code 75 if there is no place now.")
    ] = False,
) -> None:
    """Run a program in a place of its own, counted like every other agent.

    It waits until there is a place, says why on standard error, and then becomes the program:
    terminal, signals and exit code are the program's own. The place is free when it ends.

    \b
    Example:
      hostler wrap -- claude
      hostler wrap --provider openai --project stable -- codex exec "Mend the tests."
    """
    path = _find_program(command[0])
    given = global_options(context)
    settings = load_settings(given).settings
    ask = _build_request(settings, provider, project, command[0])
    store = _open_store(given, settings)
    try:
        _migrate_state(given, store)
        waiter = _build_waiter(store, given, settings)
        _acquire_lease(waiter, ask, wait=not no_wait)
        _exec_program(path, command, waiter, ask)
    finally:
        store.close()


def _find_program(program: str) -> str:
    import shutil

    found = shutil.which(program)
    if found is not None:
        return found
    exists = os.sep in program and Path(program).exists()
    what = "cannot be run" if exists else "was not found"
    error = HostlerError(
        f"The program {program} {what}.",
        safe="No place was taken.",
        remedy="Make it executable." if exists else "Install it, or name it with its path.",
    )
    error.exit_code = EXIT_NOT_STARTED if exists else EXIT_NOT_FOUND
    raise error


def _build_request(settings: Settings, provider: str, project: str, program: str) -> LeaseRequest:
    import secrets

    from hostler.governor.gates import LeaseRequest
    from hostler.governor.policy import checked_pool_name, pool_key

    project = (
        checked_pool_name("project", project or os.environ.get("HOSTLER_PROJECT", ""))
        or _folder_name()
    )
    known = settings.repo.get(project)
    return LeaseRequest(
        f"wrap-{secrets.token_hex(8)}",
        project,
        pool_key(checked_pool_name("pool", provider)),
        program=Path(program).name,
        width=known.max_concurrent_slots if known else 0,
        weight=known.weight if known else 1,
    )


def _folder_name() -> str:
    """This folder's name, as far as it can be shown."""
    return "".join(char if char.isprintable() else "?" for char in Path.cwd().name) or "root"


def _open_store(given: GlobalOptions, settings: Settings) -> Store:
    from hostler.store import open_store

    url = settings.runtime.database_url or None
    try:
        return open_store(given.home_folder, url)
    except StoreMissing:
        # Here alone: it loads much that nobody else needs.
        from hostler.clock import SystemClock
        from hostler.service.context import open_or_create_store

        return open_or_create_store(given.home_folder, url, SystemClock())


def _migrate_state(given: GlobalOptions, store: Store) -> None:
    """State that an older program kept in the operator's file counts from now on."""
    from hostler.governor.caps_file import move_state

    move_state(given.home_folder, store)


def _build_waiter(store: Store, given: GlobalOptions, settings: Settings) -> LeaseWaiter:
    from hostler.clock import SystemClock
    from hostler.governor.holders import read_host
    from hostler.governor.leases import LeaseWaiter
    from hostler.governor.policy import read_policy

    def policy() -> Policy:
        return read_policy(given.home_folder, settings)

    return LeaseWaiter(store, SystemClock(), policy, read_host, _build_denial_printer())


def _build_denial_printer() -> Callable[[LeaseDenied], None]:
    """Says each closed gate once, until another one is closed."""
    said: list[str] = []

    def tell(denied: LeaseDenied) -> None:
        if said[-1:] != [denied.gate]:
            said.append(denied.gate)
            print_note(f"Waiting for a place: {denied.what} {denied.remedy} (Ctrl-C gives up)")

    return tell


def _acquire_lease(waiter: LeaseWaiter, ask: LeaseRequest, *, wait: bool) -> None:
    from hostler.governor.gates import LeaseDenied
    from hostler.governor.leases import NoFreeSlot

    if wait:
        waiter.place(ask)
        return
    answer = waiter.now(ask, wishing=False)
    if isinstance(answer, LeaseDenied):
        raise NoFreeSlot(answer)


def _exec_program(
    path: str, command: list[str], waiter: LeaseWaiter, ask: LeaseRequest
) -> NoReturn:
    """Be replaced by the program; give the place back if that fails."""
    from hostler.governor.leases import release_lease

    try:
        sys.stdout.flush()
        _reset_signals()
        os.execv(path, command)  # noqa: S606
    except BaseException as error:
        policy = waiter.policy()
        with waiter.store.write("admission", relaxed=True) as tx:
            release_lease(tx, ask.lease, policy)
        if isinstance(error, OSError):
            raise _not_started_error(command[0], error) from error
        raise


def _reset_signals() -> None:
    """Python ignores these two, and what is ignored stays so in the next program."""
    import signal

    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _not_started_error(program: str, error: OSError) -> HostlerError:
    told = HostlerError(
        f"The program {program} could not be started: {error.strerror}.",
        safe="Its place was given back.",
        remedy="Look at the file; a script needs a first line such as `#!/bin/sh`.",
    )
    told.exit_code = EXIT_NOT_STARTED
    return told
