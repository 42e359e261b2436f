"""Fixtures for all tests: a home of their own and the real command. The end of a run."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from hostler_program import run_hostler, start_preloading
from missing_tools import render_last_line
from quick_run import SLOW_FILES, slow_files
from shared_parameters import share_parameters
from shared_statements import share_statements
from started_processes import adopt_orphans

# Examples may be slow on a busy machine, and a failure prints what reproduces it.
_PROFILE = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("hostler", max_examples=30, **_PROFILE)
settings.register_profile("soak", max_examples=1000, **_PROFILE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "hostler"))

MANY_TESTS = 200
_LEFT_OUT = pytest.StashKey[set[Path]]()

# Inherited as ignored under nohup, in background jobs of shells and in some CI systems.
_RESET_SIGNALS = (
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGCHLD,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)


def reset_inherited_signals() -> None:
    """Give this process, and all that it starts, the signals of a fresh login."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in _RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)


reset_inherited_signals()
adopt_orphans()
share_statements()
share_parameters()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help=f"leave out {SLOW_FILES.name}")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LEFT_OUT] = slow_files() if config.getoption("--quick") else set()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a slow file before it is imported."""
    return True if collection_path in config.stash[_LEFT_OUT] else None


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Prepare what all tests of this process share."""
    if session.config.option.collectonly:
        return
    # The garbage collector need not look at what lives as long as the process.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    if "loaded_children" in sys.modules:
        sys.modules["loaded_children"].start_server()
    # In a large run some test will need it, and should not wait for it.
    if len(session.items) > MANY_TESTS:
        start_preloading(os.getpid())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Print the last line of the run, below pytest's own."""
    result = yield
    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter and not hasattr(config, "workerinput") and not config.option.collectonly:
        stats = reporter.stats
        failed = len(stats.get("failed", ())) + len(stats.get("error", ()))
        reasons = [report.longrepr[2] for report in stats.get("skipped", ())]
        reporter.write_line(render_last_line(len(stats.get("passed", ())), failed, reasons))
    return result


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
    """Return the environment of a new user: an empty HOME, no tokens, no settings."""
    user = tmp_path / "user"
    user.mkdir()
    kept = {key: os.environ[key] for key in ("PATH", "TMPDIR") if key in os.environ}
    return {
        **kept,
        "LANG": "C.UTF-8",
        "HOME": str(user),
        "HOSTLER_HOME": str(home),
        "TERM": "dumb",
    }


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
