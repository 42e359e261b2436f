"""The demo's scenario, its folder with settings and scripts, and hints for `--keep`."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from hostler.sandbox.auth import token_for

MAINTAINER, REVIEWER, OUTSIDER, BOT = "ada", "grace", "mallory", "stablehand"
ALLOWED = (MAINTAINER, REVIEWER)
OWNER = "tidewater"
LABELS = ("agent:design", "agent:bugfix", "agent:small-job", "agent:ignore")
DATA = files("hostler.cli.demo") / "data"


@dataclass(frozen=True, slots=True)
class DemoRepo:
    """A repository with its files, tests and agent."""

    name: str
    description: str
    tests: tuple[str, ...]
    agent: str
    files: Mapping[str, str]

    @property
    def short(self) -> str:
        """The name without its owner."""
        return self.name.partition("/")[2]


@dataclass(frozen=True, slots=True)
class PlannedIssue:
    """An issue that a demo user files."""

    repo: str
    author: str
    title: str
    label: str
    body: str


@dataclass(frozen=True, slots=True)
class PlannedReview:
    """A comment on the line that contains `near`, and the texts it is edited to."""

    issue: str
    path: str
    near: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedAnswer:
    """The answer to an agent's question on an issue."""

    issue: str
    text: str


@dataclass(frozen=True, slots=True)
class DemoScenario:
    """Everything that is fixed before the demo starts."""

    projects: tuple[DemoRepo, ...]
    filings: tuple[PlannedIssue, ...]
    reviews: tuple[PlannedReview, ...]
    answers: tuple[PlannedAnswer, ...]


def load_scenario() -> DemoScenario:
    """Load the scenario that comes with Hostler."""
    raw = _read_toml("story.toml")
    return DemoScenario(
        projects=tuple(_read_repo(f"repos/{name}.toml") for name in ("almanac", "tide-table")),
        filings=tuple(PlannedIssue(**one) for one in raw["issue"]),
        reviews=tuple(
            PlannedReview(**one | {"words": tuple(one["words"])}) for one in raw["review"]
        ),
        answers=tuple(PlannedAnswer(**one) for one in raw["answer"]),
    )


def read_agent_script(agent: str) -> str:
    """Read the script of an agent."""
    return (DATA / "agents" / f"{agent}.toml").read_text(encoding="utf-8")


def build_seed(scenario: DemoScenario) -> dict[str, Any]:
    """Build the initial state of the sandbox, with empty repositories."""
    access = {MAINTAINER: "admin", REVIEWER: "write", BOT: "write", OUTSIDER: "triage"}
    return {
        "users": [
            {"login": OWNER, "type": "Organization", "members": [MAINTAINER]},
            *({"login": login} for login in access),
        ],
        "repos": [
            {
                "name": project.name,
                "description": project.description,
                "auto_init": False,
                "collaborators": access,
                "labels": list(LABELS),
            }
            for project in scenario.projects
        ],
    }


def _read_repo(path: str) -> DemoRepo:
    read = _read_toml(path)
    return DemoRepo(**read | {"tests": tuple(read["tests"])})


def _read_toml(path: str) -> dict[str, Any]:
    return tomllib.loads(DATA.joinpath(path).read_text(encoding="utf-8"))


POLL_SECONDS = 5
_PASSED_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "USER", "LOGNAME", "SHELL")


@dataclass(frozen=True, slots=True)
class DemoPaths:
    """The paths of a demo."""

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
        """The command of the service."""
        return [*self.hostler(), "service", "--stop-agents"]

    def hostler(self) -> list[str]:
        """The first words of every command on this home."""
        where = ["--home", str(self.home), "--config", str(self.config)]
        return [sys.executable, "-P", "-m", "hostler", *where]

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """Build the environment: this Python, without tokens, settings or proxies of the user."""
        passed = {name: ours[name] for name in _PASSED_VARIABLES if name in ours}
        tools = Path(sys.executable).parent
        path = os.pathsep.join([str(tools), ours.get("PATH", os.defpath)])
        return {**passed, "PATH": path, "HOME": str(self.folder / "user")}


def set_up_folder(folder: Path, scenario: DemoScenario, url: str, token: str) -> DemoPaths:
    """Write the files that the service needs."""
    paths = DemoPaths(folder)
    for name in ("home", "user", "agents"):
        (folder / name).mkdir(mode=0o700)
    for project in scenario.projects:
        _script_path(paths, project).write_text(read_agent_script(project.agent), encoding="utf-8")
    paths.token.touch(mode=0o600)
    paths.token.write_text(token + "\n", encoding="utf-8")
    paths.config.write_text(render_settings(paths, scenario, url), encoding="utf-8")
    return paths


def render_settings(paths: DemoPaths, scenario: DemoScenario, url: str) -> str:
    """Render `hostler.toml`."""
    tables: dict[str, dict[str, object]] = {
        "github": {
            "api_url": url,
            "web_url": url,
            "auth": "token",
            "token_file": str(paths.token),
        },
        "runtime": {"poll_interval_seconds": POLL_SECONDS, "memory_floor_mb": 0},
        # Its port may be in use by a real service.
        "web": {"enabled": False},
    }
    for project in scenario.projects:
        owner, _, name = project.name.partition("/")
        tables[f"repo.{project.short}"] = {
            "owner": owner,
            "name": name,
            "allowed_users": list(ALLOWED),
            "operator_logins": [MAINTAINER],
            "agent": project.agent,
            "required_tests": list(project.tests),
        }
        script = str(_script_path(paths, project))
        tables[f"agent.{project.agent}"] = {"kind": "scripted", "script": script}
    head = f"# Written by `hostler demo`; {BOT} is the account that Hostler writes as.\n"
    return head + "".join(_render_table(name, values) for name, values in tables.items())


def _render_table(name: str, values: Mapping[str, object]) -> str:
    # JSON's strings, numbers, booleans and lists of strings are valid TOML.
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in values.items()]
    return f"\n[{name}]\n" + "".join(lines)


def _script_path(paths: DemoPaths, project: DemoRepo) -> Path:
    return paths.folder / "agents" / f"{project.agent}.toml"


def render_hints(paths: DemoPaths, url: str, scenario: DemoScenario, program: str) -> list[str]:
    """Render the addresses, the users and commands to try."""
    repo = scenario.projects[0].name
    issue = json.dumps({"title": "Write a greeting", "labels": ["agent:small-job"]})
    return [
        "",
        "Everything keeps running until Ctrl-C.",
        f"  GitHub  {url}",
        f"  home    {paths.home}",
        f"  log     {paths.log}",
        "Access tokens of the sandbox GitHub:",
        *(f"  {who:<10}  {token_for(who)}" for who in (MAINTAINER, REVIEWER, OUTSIDER, BOT)),
        "Try:",
        f"  git clone {url}/{repo}.git",
        f"  curl '{url}/repos/{repo}/pulls?state=all'",
        f"  curl -H 'Authorization: Bearer {token_for(MAINTAINER)}' \\",
        f"    {url}/repos/{repo}/issues -d '{issue}'",
        f"  tail -f {paths.log}",
        f"  {program} --home {paths.home} status",
        f"  {program} --home {paths.home} top",
        f"  {program} --home {paths.home} repo list",
        f"  {program} --home {paths.home} service --dry-run",
    ]
