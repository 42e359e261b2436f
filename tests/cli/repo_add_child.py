"""`hostler repo add` in a process that ends with kill -9 at a given moment."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostler.cli import main
from hostler.cli.commands import repo_add
from hostler.forge.outbox import sender
from hostler.forge.outbox.sender import OutboxSender, SendStage

# In the order in which they come.
MOMENTS = ("asked", "opened", "written", "queueing", "queued", *SendStage)


def add_until(moment: str, name: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Run the command; the process is killed as soon as it has come to the moment."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    sys.argv = ["hostler", "repo", "add", name]
    for known, function in (
        ("asked", "read_repository_access"),
        ("opened", "open_or_create_store"),
        ("written", "rewrite_file"),
        ("queueing", "queue_labels"),
    ):
        if moment == known:
            setattr(repo_add, function, _kill_after(getattr(repo_add, function)))
    if moment == "queued":
        sender.WriteDelivery.wait_until_settled = _kill_after(lambda *_: None)
    if moment in list(SendStage):
        sender.OutboxSender = _sender(SendStage(moment))
    main.run()


def _kill_after(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*arguments: Any) -> None:
        function(*arguments)
        _kill()

    return called


def _sender(last: SendStage) -> Callable[..., OutboxSender]:
    def observe(act: SendStage, _token: str) -> None:
        if act is last:
            _kill()

    return lambda *arguments, **named: OutboxSender(*arguments, **named, observe=observe)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
