"""The folder of a demo: settings, token, scripts, and how the service is started on them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostler.cli.demo.cast import ALLOWED, BOT, MAINTAINER, Plot, Project, script_of

POLL_SECONDS = 5
_PASSED = ("LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "USER", "LOGNAME", "SHELL")


@dataclass(frozen=True, slots=True)
class Stage:
    """Where everything is."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def config(self) -> Path:
        return self.home / "hostler.toml"

    @property
    def log(self) -> Path:
        return self.folder / "service.log"

    @property
    def token(self) -> Path:
        return self.folder / "token"

    def service(self) -> list[str]:
        """The real program, as anybody would start it."""
        return [*self.hostler(), "service", "--stop-agents"]

    def hostler(self) -> list[str]:
        """The beginning of every command on this home."""
        where = ["--home", str(self.home), "--config", str(self.config)]
        return [sys.executable, "-P", "-m", "hostler", *where]

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """No token, setting or proxy of the person who looks on; the Python that runs us."""
        passed = {name: ours[name] for name in _PASSED if name in ours}
        tools = Path(sys.executable).parent
        path = os.pathsep.join([str(tools), ours.get("PATH", os.defpath)])
        return {**passed, "PATH": path, "HOME": str(self.folder / "user")}


def set_up(folder: Path, plot: Plot, url: str, token: str) -> Stage:
    """Write everything that the service needs."""
    stage = Stage(folder)
    for name in ("home", "user", "agents"):
        (folder / name).mkdir(mode=0o700)
    for project in plot.projects:
        _script(stage, project).write_text(script_of(project.agent), encoding="utf-8")
    stage.token.touch(mode=0o600)
    stage.token.write_text(token + "\n", encoding="utf-8")
    stage.config.write_text(settings(stage, plot, url), encoding="utf-8")
    return stage


def settings(stage: Stage, plot: Plot, url: str) -> str:
    """The text of `hostler.toml`."""
    tables: dict[str, dict[str, object]] = {
        "github": {
            "api_url": url,
            "web_url": url,
            "auth": "token",
            "token_file": str(stage.token),
        },
        "runtime": {"poll_interval_seconds": POLL_SECONDS, "memory_floor_mb": 0},
        # A dashboard would need a port that a service in earnest may already have.
        "web": {"enabled": False},
    }
    for project in plot.projects:
        owner, _, name = project.name.partition("/")
        tables[f"repo.{project.short}"] = {
            "owner": owner,
            "name": name,
            "allowed_users": list(ALLOWED),
            "operator_logins": [MAINTAINER],
            "agent": project.agent,
            "required_tests": list(project.tests),
        }
        script = str(_script(stage, project))
        tables[f"agent.{project.agent}"] = {"kind": "scripted", "script": script}
    head = f"# Written by `hostler demo`; {BOT} is the account that Hostler writes as.\n"
    return head + "".join(_table(name, values) for name, values in tables.items())


def _table(name: str, values: Mapping[str, object]) -> str:
    # What JSON writes for texts, numbers, flags and lists of texts is TOML too.
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in values.items()]
    return f"\n[{name}]\n" + "".join(lines)


def _script(stage: Stage, project: Project) -> Path:
    return stage.folder / "agents" / f"{project.agent}.toml"
