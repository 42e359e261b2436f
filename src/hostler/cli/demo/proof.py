"""The last proof: what was merged is fetched as anybody would, and its tests are run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from hostler.cli.demo.cast import Plot
from hostler.cli.demo.checks import Check

PROMISE = "what was merged passes its tests"
_SECONDS = 60.0


def prove(plot: Plot, url: str, folder: Path, env: Mapping[str, str]) -> Check:
    """Clone each repository into the folder and run its tests."""
    return Check(PROMISE, tuple(_failures(plot, url, folder, env)))


def _failures(plot: Plot, url: str, folder: Path, env: Mapping[str, str]) -> Iterator[str]:
    for project in plot.projects:
        where = folder / project.short
        clone = ["git", "clone", "--quiet", f"{url}/{project.name}.git", str(where)]
        tests = [["sh", "-c", command] for command in project.tests]
        for argv, cwd in [(clone, folder), *((one, where) for one in tests)]:
            if wrong := _run(argv, cwd, env):
                yield f"{project.short}: {argv[-1]}: {wrong}"
                break


def _run(argv: list[str], cwd: Path, env: Mapping[str, str]) -> str:
    """What went wrong, in its last line."""
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env={**env, "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = (done.stdout + done.stderr).strip().splitlines()
    return "" if done.returncode == 0 else (said[-1] if said else f"code {done.returncode}")
