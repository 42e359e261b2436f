"""What all tests share: a home of their own, and the real command."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from hostler_program import run_hostler
from shared_statements import share_statements

# Timing on shared machines is noise: examples may be slow, and failures repeat from their print.
PLAIN = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("hostler", max_examples=30, **PLAIN)
settings.register_profile("soak", max_examples=1000, **PLAIN)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "hostler"))

share_statements()

# A shell's background jobs ignore Ctrl-C, and so would every program that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def environment(tmp_path: Path, home: Path) -> dict[str, str]:
    """A clean user: an empty HOME, no tokens, no settings of the person who runs the tests."""
    user = tmp_path / "user"
    user.mkdir()
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
    return {**kept, "HOME": str(user), "HOSTLER_HOME": str(home), "TERM": "dumb"}


@pytest.fixture
def hostler(tmp_path: Path, environment: dict[str, str]) -> Callable[..., Done]:
    """Run the real command in an empty folder."""
    folder = tmp_path / "cwd"
    folder.mkdir()

    def run(*argv: str | Path, stdin: str = "", env: dict[str, str] | None = None) -> Done:
        given = {**environment, **(env or {})}
        done = run_hostler([*map(str, argv)], cwd=folder, env=given, stdin=stdin)
        return Done(done.returncode, done.stdout, done.stderr)

    return run
