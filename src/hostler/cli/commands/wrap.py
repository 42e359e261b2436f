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


# The same codes as shells use.
EXIT_NOT_FOUND, EXIT_NOT_STARTED = 127, 126


def register_wrap(app: typer.Typer) -> None:
    """Add the commands of this file."""
    # Options after the program's name belong to the program.
    app.command(context_settings={"allow_interspersed_args": False})(wrap)


def wrap(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="PROGRAM...", help="Program and its arguments.")
    ],
    provider: Annotated[
        str,
        typer.Option(
            metavar="POOL", help="Pool whose slot it takes: provider or provider:account."
        ),
    ] = "anthropic",
    project: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Project it counts for [default: HOSTLER_PROJECT, else the folder's name].",
        ),
    ] = "",
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Exit with code 75 if there is no free slot.")
    ] = False,
) -> None:
    """Run any program under the concurrency limits.

    The program counts like an agent. Waits for a free slot (showing the reason on standard
    error), then replaces itself with the program: terminal, signals and exit code are those of
    the program. The slot is released when the program exits.

    \b
    Example:
      hostler wrap -- claude
      hostler wrap --provider openai --project stable -- codex exec "Fix the tests."
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
        safe="No slot was taken.",
        remedy="Make it executable." if exists else "Install it, or give its full path.",
    )
    error.exit_code = EXIT_NOT_STARTED if exists else EXIT_NOT_FOUND
    raise error


def _build_request(settings: Settings, provider: str, project: str, program: str) -> LeaseRequest:
    import secrets

    from hostler.governor.gates import LeaseRequest
    from hostler.governor.policy import pool_key, require_pool_name

    project = (
        require_pool_name("project", project or os.environ.get("HOSTLER_PROJECT", ""))
        or _folder_name()
    )
    known = settings.repo.get(project)
    return LeaseRequest(
        f"wrap-{secrets.token_hex(8)}",
        project,
        pool_key(require_pool_name("pool", provider)),
        program=Path(program).name,
        width=known.max_concurrent_slots if known else 0,
        weight=known.weight if known else 1,
    )


def _folder_name() -> str:
    """Return the current folder's name, with unprintable characters replaced."""
    return "".join(char if char.isprintable() else "?" for char in Path.cwd().name) or "root"


def _open_store(given: GlobalOptions, settings: Settings) -> Store:
    from hostler.store import open_store

    url = settings.runtime.database_url or None
    try:
        return open_store(given.home_folder, url)
    except StoreMissing:
        # Imported here because it is slow to load and rarely needed.
        from hostler.clock import SystemClock
        from hostler.service.context import open_or_create_store

        return open_or_create_store(given.home_folder, url, SystemClock())


def _migrate_state(given: GlobalOptions, store: Store) -> None:
    """Move state that older versions kept in governor.json into the database."""
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
    """Return a callback that prints a denial whenever its gate differs from the last one."""
    printed: list[str] = []

    def print_denial(denied: LeaseDenied) -> None:
        if printed[-1:] != [denied.gate]:
            printed.append(denied.gate)
            print_note(f"Waiting for a slot: {denied.what} {denied.remedy} (Ctrl-C to give up)")

    return print_denial


def _acquire_lease(waiter: LeaseWaiter, ask: LeaseRequest, *, wait: bool) -> None:
    from hostler.governor.gates import LeaseDenied
    from hostler.governor.leases import NoFreeSlot

    if wait:
        waiter.wait(ask)
        return
    answer = waiter.try_acquire(ask, publish=False)
    if isinstance(answer, LeaseDenied):
        raise NoFreeSlot(answer)


def _exec_program(
    path: str, command: list[str], waiter: LeaseWaiter, ask: LeaseRequest
) -> NoReturn:
    """Replace this process with the program; release the lease if that fails."""
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
    """Restore the default of the two signals that Python ignores; exec would inherit that."""
    import signal

    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _not_started_error(program: str, error: OSError) -> HostlerError:
    refused = HostlerError(
        f"The program {program} could not be started: {error.strerror}.",
        safe="Its slot was released.",
        remedy="Check the file; a script needs a first line such as `#!/bin/sh`.",
    )
    refused.exit_code = EXIT_NOT_STARTED
    return refused
