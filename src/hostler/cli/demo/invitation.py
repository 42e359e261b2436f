"""What can be tried while a demo is kept open. Pure."""

from __future__ import annotations

import json

from hostler.cli.demo.cast import BOT, MAINTAINER, REVIEWER, STRANGER, Plot
from hostler.cli.demo.stage import Stage
from hostler.sandbox.auth import token_for


def invitation(stage: Stage, url: str, plot: Plot, program: str) -> list[str]:
    """Where everything is, who there is, and what to try."""
    repo = plot.projects[0].name
    issue = json.dumps({"title": "Write a greeting", "labels": ["agent:small-job"]})
    return [
        "",
        "Everything goes on until Ctrl-C.",
        f"  GitHub  {url}",
        f"  home    {stage.home}",
        f"  log     {stage.log}",
        "Tokens of this GitHub:",
        *(f"  {who:<10}  {token_for(who)}" for who in (MAINTAINER, REVIEWER, STRANGER, BOT)),
        "Try:",
        f"  git clone {url}/{repo}.git",
        f"  curl '{url}/repos/{repo}/pulls?state=all'",
        f"  curl -H 'Authorization: Bearer {token_for(MAINTAINER)}' \\",
        f"    {url}/repos/{repo}/issues -d '{issue}'",
        f"  tail -f {stage.log}",
        f"  {program} --home {stage.home} repo list",
        f"  {program} --home {stage.home} service --dry-run",
    ]
