"""`hostler repo add` in a process that ends with kill -9 at a given moment."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostler.cli import main, repo_add
from hostler.forge.outbox import delivery
from hostler.forge.outbox.sender import Act, Sender

# In the order in which they come.
MOMENTS = ("asked", "opened", "written", "queueing", "queued", *Act)


def add_until(moment: str, name: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Run the command; the process is killed as soon as it has come to the moment."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    sys.argv = ["hostler", "repo", "add", name]
    for known, function in (
        ("asked", "ask_standing"),
        ("opened", "open_or_make"),
        ("written", "rewrite"),
        ("queueing", "queue_labels"),
    ):
        if moment == known:
            setattr(repo_add, function, _kill_after(getattr(repo_add, function)))
    if moment == "queued":
        delivery.Delivery.see_through = _kill_after(lambda *_: None)
    if moment in list(Act):
        delivery.Sender = _sender(Act(moment))
    main.run()


def _kill_after(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*arguments: Any) -> None:
        function(*arguments)
        _kill()

    return called


def _sender(last: Act) -> Callable[..., Sender]:
    def observe(act: Act, _token: str) -> None:
        if act is last:
            _kill()

    return lambda *arguments, **named: Sender(*arguments, **named, observe=observe)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
