"""The unit of systemd that keeps a service running for its user. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

WATCHDOG_SECONDS = 180


class Unfit(ValueError):
    """Something that no unit can hold."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be started. `environment` is written into the unit: nothing secret."""

    program: tuple[str, ...]
    home: Path
    # Where names of files in the settings begin that are not whole.
    folder: Path
    config: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def unit_text(plan: Plan) -> str:
    """The whole unit."""
    given = ["--home", str(plan.home)]
    if plan.config is not None:
        given += ["--config", str(plan.config)]
    program, *words = plan.program
    command = " ".join([executable(program), *map(argument, (*words, *given, "service"))])
    lines = [f"Environment={quoted(f'{k}={v}')}" for k, v in sorted(plan.environment.items())]
    return f"""\
# Written by `hostler service install`. Your own changes belong into a drop-in:
# systemctl --user edit hostler
[Unit]
Description=Hostler: coding agents on GitHub issues
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
WorkingDirectory={path(plan.folder)}
NotifyAccess=main
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
{_block(lines)}# Secrets: NAME=value lines in a file that you alone can read.
EnvironmentFile=-{path(plan.home / "environment")}
Restart=on-failure
RestartSec=5
# Bad settings do not become better by another start.
RestartPreventExitStatus=2
# Agents live on under their own supervisors; the next start takes them over.
KillMode=process
# One agent that is too large must not take all others with it.
OOMPolicy=continue
TimeoutStartSec=300
TimeoutStopSec=60
WatchdogSec={WATCHDOG_SECONDS}

[Install]
WantedBy=default.target
"""


def _block(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def quoted(word: str) -> str:
    """One word, whatever it holds. `%` means something to systemd everywhere."""
    _require_text(word)
    inside = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inside.replace("%", "%%")}"'


def argument(word: str) -> str:
    """One word of a command, where `$` means something too; in an assignment it does not."""
    return quoted(word.replace("$", "$$"))


def executable(word: str) -> str:
    """The program of a command. systemd runs what is written, but names it with `$` replaced."""
    if "$" in word:
        raise Unfit(f"the path of the program has a $ in it: {word}")
    return quoted(word)


def path(place: Path) -> str:
    """A path that stands alone: not quoted, and only `%` means something."""
    text = str(place)
    _require_text(text)
    if not place.is_absolute() or text != text.strip():
        raise Unfit(f"not a path that a unit can name: {text!r}")
    return text.replace("%", "%%")


def _require_text(text: str) -> None:
    if not text.isprintable():
        raise Unfit(f"a unit is made of printable lines: {text!r}")
