"""What changes a home: by the service that works on it, or else here. Nobody sees which.

Reading commands do not come here: they need nothing of a service.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, TypeVar

import typer

from hostler.cli.state import globals_of, settings_of
from hostler.cli.task import opened
from hostler.cli.who import who

if TYPE_CHECKING:
    from hostler.cli.task import Opened
    from hostler.service.directing import Director
    from hostler.service.doing import Holds, Tasks
    from hostler.web.client.line import Line

T = TypeVar("T")
# Where the API of a home says that it answers: `web/notes.py`.
NOTE = "web.json"


def do(
    context: typer.Context, there: Callable[[Line], T], here: Callable[[], T], by: str = ""
) -> T:
    """Have the service do something if it would do just what we would; otherwise do it here."""
    home = globals_of(context).home_folder
    # First what costs nothing: whatever speaks to a service takes time to load.
    if inside_a_run(os.environ) or not (home / NOTE).exists():
        return here()
    from hostler.web.client.finding import line_to_service
    from hostler.web.client.line import NotTaken

    settings = settings_of(globals_of(context)).settings
    line = line_to_service(home, settings, os.environ, by or who())
    if line is not None:
        with closing(line), suppress(NotTaken):
            return there(line)
    return here()


def inside_a_run(environment: Mapping[str, str]) -> bool:
    """Whether an agent calls: it has no business with its operator's token."""
    return bool(environment.get("HOSTLER_RUN") or environment.get("HOSTLER_TASK"))


def with_tasks(context: typer.Context, act: Callable[[Tasks], T]) -> T:
    """Do something with tasks."""

    def there(line: Line) -> T:
        from hostler.web.client.ports import RemoteTasks

        return act(RemoteTasks(line))

    def here() -> T:
        with opened(context) as house:
            return act(director(house))

    return do(context, there, here)


def with_holds(context: typer.Context, act: Callable[[Holds], T], *, make: bool = False) -> T:
    """Hold something back, or let it go on; `make`: also where there is no database yet."""

    def there(line: Line) -> T:
        from hostler.web.client.ports import RemoteHolds

        return act(RemoteHolds(line))

    def here() -> T:
        with opened(context, make=make) as house:
            return act(director(house))

    return do(context, there, here)


def director(house: Opened) -> Director:
    """Whoever gives a command here."""
    from hostler.service.directing import Director

    grace = float(house.settings.runtime.stop_grace_seconds)
    return Director(house.home, house.store, house.clock, grace, who())
