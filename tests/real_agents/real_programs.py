"""The real programs: brought by npm into a folder of their own, and set up for a clean user."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hostler.agents.adapters.registry import KINDS

PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
}
# Names the folder in which the programs stay between runs of the tests.
FOLDER = "HOSTLER_REAL_AGENTS"
ANSWER_SECONDS, INSTALL_SECONDS = 30, 600


class Unavailable(Exception):
    """Why the programs cannot be had here."""


@dataclass(frozen=True)
class Setup:
    """What makes one program call an API of ours: variables, files below HOME, agent settings."""

    variables: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    agent: dict[str, str] = field(default_factory=dict)


def version_of(kind: str) -> str:
    """The version that our adapter knows."""
    program = KINDS[kind].program
    assert program is not None
    return program.known


def installed(kind: str) -> Path:
    """The folder with this program, brought there if need be."""
    wanted = f"{PACKAGES[kind]}@{version_of(kind)}"
    place = _cache() / f"{kind}-{version_of(kind)}"
    with _alone(place.with_name(f"{place.name}.lock")):
        if not place.is_dir():
            _install(wanted, place)
    return place / "node_modules" / ".bin"


def _cache() -> Path:
    named = os.environ.get(FOLDER)
    general = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else general / "hostler-real-agents"


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(wanted: str, place: Path) -> None:
    """Whole or not at all."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise Unavailable(f"{program} is not installed")
    _ask_npm(wanted)
    half = place.with_name(f"{place.name}.new")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    done = _npm("install", "--prefix", str(half), "--no-audit", "--no-fund", wanted)
    assert done.returncode == 0, f"npm installs no {wanted}: {done.stderr[-2000:]}"
    half.rename(place)


def _ask_npm(wanted: str) -> None:
    quick = ("--fetch-retries", "0", "--fetch-timeout", str(1000 * ANSWER_SECONDS))
    done = _npm("view", wanted, "version", *quick, seconds=2 * ANSWER_SECONDS)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if not line.startswith("npm warn")]
        raise Unavailable(f"npm does not answer for {wanted}: {''.join(said[:1])}")


def _npm(*argv: str, seconds: int = INSTALL_SECONDS) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["npm", *argv], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(["npm", *argv], 1, "", f"silent for {seconds} s")


# Without a model of their own, programs ask for one that our imitation does not know.
MODEL = "imitation"
CODEX_CONFIG = """
model_provider = "local"
model = "{model}"

[analytics]
enabled = false

[model_providers.local]
name = "local"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
supports_websockets = false
"""


def _codex_config(url: str) -> str:
    return CODEX_CONFIG.format(model=MODEL, url=url)


def _gemini_settings() -> str:
    return json.dumps(
        {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
        }
    )


def _opencode_config(url: str) -> str:
    options = {"baseURL": f"{url}/v1", "apiKey": "dummy"}
    local = {"npm": "@ai-sdk/openai-compatible", "name": "local", "options": options}
    local["models"] = {MODEL: {"name": MODEL}}
    return json.dumps({"provider": {"local": local}, "model": f"local/{MODEL}"})


def setup_of(kind: str, url: str) -> Setup:
    """How this program is led to the API at this address, and kept from calling home."""
    if kind == "claude":
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return Setup({"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": url, **quiet})
    if kind == "codex":
        return Setup({"OPENAI_API_KEY": "dummy"}, {".codex/config.toml": _codex_config(url)})
    if kind == "gemini":
        return Setup(
            {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": url},
            {".gemini/settings.json": _gemini_settings()},
            {"model": "gemini-2.5-flash"},
        )
    return Setup(
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"},
        {".config/opencode/opencode.json": _opencode_config(url)},
    )
