"""`hostler` alone: help; on a terminal, the offer to start, once the settings are there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hostler.cli.output import emit, note, say
from hostler.cli.state import Globals, settings_of

if TYPE_CHECKING:
    from hostler.config import Loaded, Settings

# In the home: who said yes to the first start, and when.
AGREED = "agreed.json"


def bare(context: typer.Context, given: Globals) -> None:
    """Start the service after a yes, which is asked for once per home; otherwise help."""
    loaded = _ready(given)
    if loaded is None:
        emit(context.get_help())
        raise typer.Exit(2)
    if not _agreed(given.home_folder):
        for line in plan(loaded.settings):
            say(line)
        if not typer.confirm("Start now?", err=True):
            note("Nothing was started. Later: hostler service")
            raise typer.Exit(1)
        _agree(given.home_folder)
    from hostler.cli.service import start

    start(given, loaded)


def plan(settings: Settings) -> list[str]:
    """What a service would do with these settings, and what keeps it within bounds."""
    runtime, budget = settings.runtime, settings.budget
    agents = ", ".join(f"{name} ({agent.kind})" for name, agent in settings.agent.items())
    repos = [f"{repo.owner}/{repo.name}" for repo in settings.repo.values()]
    purses = ((budget.per_task_usd, "task"), (budget.per_day_usd, "day"))
    caps = [f"{usd:g} USD per {what}" if usd else f"no limit per {what}" for usd, what in purses]
    return [
        "The service would watch "
        + (", ".join(repos) or "no repository, only tasks by hand")
        + ".",
        f"Issues with a label of ours, by people you allow, start agents: {agents}.",
        f"Agents spend money: at most {runtime.worker_count} agents at once; {', '.join(caps)} "
        "(counted when an agent ends: what runs then goes on).",
        "See first what it would pick up: hostler service --dry-run",
    ]


def _ready(given: Globals) -> Loaded | None:
    """The settings, if somebody can be asked, they are there, and nobody works on the home."""
    from hostler.service.presence import presence

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    loaded = settings_of(given)
    here = presence(given.home_folder)
    if here.holder is not None:
        note(here.sentence())
        return None
    return loaded if loaded.path is not None and loaded.settings.agent else None


def _agreed(home: Path) -> bool:
    return (home / AGREED).exists()


def _agree(home: Path) -> None:
    import json
    from datetime import UTC, datetime

    from hostler.cli.output import write_file
    from hostler.cli.who import person
    from hostler.model import stamp

    said = {"by": person(), "at": stamp(datetime.now(UTC))}
    write_file(home / AGREED, json.dumps(said) + "\n")
