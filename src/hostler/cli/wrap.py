"""`hostler wrap`: any program as one agent among the others."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from hostler.cli.output import note
from hostler.cli.state import Globals, globals_of, settings_of
from hostler.errors import HostlerError, StoreMissing

if TYPE_CHECKING:
    from hostler.config import Settings
    from hostler.governor import Ask, Denied, Policy
    from hostler.governor.waiting import Waiter
    from hostler.store import Store

# As shells say it.
NOT_FOUND, NOT_STARTED = 127, 126


def register(app: typer.Typer) -> None:
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
    path = _find(command[0])
    given = globals_of(context)
    settings = settings_of(given).settings
    ask = _ask(settings, provider, project, command[0])
    store = _open(given, settings)
    try:
        _move_state(given, store)
        waiter = _waiter(store, given, settings)
        _take_place(waiter, ask, wait=not no_wait)
        _become(path, command, waiter, ask)
    finally:
        store.close()


def _find(program: str) -> str:
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
    error.exit_code = NOT_STARTED if exists else NOT_FOUND
    raise error


def _ask(settings: Settings, provider: str, project: str, program: str) -> Ask:
    import secrets

    from hostler.governor import Ask, pool_key
    from hostler.governor.pools import named_by_hand

    project = named_by_hand("project", project or os.environ.get("HOSTLER_PROJECT", "")) or _here()
    known = settings.repo.get(project)
    return Ask(
        f"wrap-{secrets.token_hex(8)}",
        project,
        pool_key(named_by_hand("pool", provider)),
        program=Path(program).name,
        width=known.max_concurrent_slots if known else 0,
        weight=known.weight if known else 1,
    )


def _here() -> str:
    """This folder's name, as far as it can be shown."""
    return "".join(char if char.isprintable() else "?" for char in Path.cwd().name) or "root"


def _open(given: Globals, settings: Settings) -> Store:
    from hostler.store import open_store

    url = settings.runtime.database_url or None
    try:
        return open_store(given.home_folder, url)
    except StoreMissing:
        # Here alone: it loads much that nobody else needs.
        from hostler.clock import SystemClock
        from hostler.service.opening import open_or_make

        return open_or_make(given.home_folder, url, SystemClock())


def _move_state(given: Globals, store: Store) -> None:
    """State that an older program kept in the operator's file counts from now on."""
    from hostler.governor.caps import move_state

    move_state(given.home_folder, store)


def _waiter(store: Store, given: Globals, settings: Settings) -> Waiter:
    from hostler.clock import SystemClock
    from hostler.governor import look_around, read_policy
    from hostler.governor.waiting import Waiter

    def policy() -> Policy:
        return read_policy(given.home_folder, settings)

    return Waiter(store, SystemClock(), policy, look_around, _teller())


def _teller() -> Callable[[Denied], None]:
    """Says each closed gate once, until another one is closed."""
    said: list[str] = []

    def tell(denied: Denied) -> None:
        if said[-1:] != [denied.gate]:
            said.append(denied.gate)
            note(f"Waiting for a place: {denied.what} {denied.remedy} (Ctrl-C gives up)")

    return tell


def _take_place(waiter: Waiter, ask: Ask, *, wait: bool) -> None:
    from hostler.governor import Denied, NoPlace

    if wait:
        waiter.place(ask)
        return
    answer = waiter.now(ask, wishing=False)
    if isinstance(answer, Denied):
        raise NoPlace(answer)


def _become(path: str, command: list[str], waiter: Waiter, ask: Ask) -> NoReturn:
    """Be replaced by the program; give the place back if that fails."""
    from hostler.governor import give_back

    try:
        sys.stdout.flush()
        _as_the_shell_left_it()
        os.execv(path, command)  # noqa: S606
    except BaseException as error:
        policy = waiter.policy()
        with waiter.store.write("admission", relaxed=True) as tx:
            give_back(tx, ask.lease, policy)
        if isinstance(error, OSError):
            raise _not_started(command[0], error) from error
        raise


def _as_the_shell_left_it() -> None:
    """Python ignores these two, and what is ignored stays so in the next program."""
    import signal

    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _not_started(program: str, error: OSError) -> HostlerError:
    told = HostlerError(
        f"The program {program} could not be started: {error.strerror}.",
        safe="Its place was given back.",
        remedy="Look at the file; a script needs a first line such as `#!/bin/sh`.",
    )
    told.exit_code = NOT_STARTED
    return told
