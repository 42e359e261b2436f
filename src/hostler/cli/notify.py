"""`hostler notify`: calls for people, tried out."""

from __future__ import annotations

from typing import Annotated

import typer

from hostler.cli.output import say, say_json
from hostler.cli.state import globals_of, settings_of

commands = typer.Typer(
    name="notify",
    help="Try out who is called when a person is needed.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.callback()
def notify() -> None:
    """Try out who is called when a person is needed.

    \b
    Example:
      hostler notify test
    """


@commands.command()
def test(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Make one call to the address of `[notify]`, in its shape and signed, and say how it went.

    Needs no service and no database. The address is a secret, and is not shown.

    \b
    Example:
      hostler notify test
      hostler notify test --json
    """
    import os

    from hostler.clock import SystemClock
    from hostler.errors import HostlerError
    from hostler.model import stamp
    from hostler.service.notify import address_of, post, shaped
    from hostler.store.operator import Notice

    settings = settings_of(globals_of(context)).settings.notify
    address = address_of(settings, os.environ)
    if address is None:
        raise HostlerError(
            "The settings name no address to call.",
            safe="Nothing was sent.",
            remedy="Set `notify.url_env` or `notify.url_file`.",
        )
    now = stamp(SystemClock().now())
    words = "If you can read this, Hostler can reach you."
    notice = Notice(f"test:{now}", "test", "A test from Hostler", words, created_at=now)
    status = post(address, shaped(notice, settings.shape, address.secret))
    signed = bool(address.secret)
    if json:
        say_json({"status": status, "shape": settings.shape, "signed": signed})
    else:
        how = "signed" if signed else "not signed"
        say(f"Called: HTTP {status} ({settings.shape}, {how}).")
