"""Build the archive of `hostler support`: versions, settings, and logs without free text."""

from __future__ import annotations

import io
import json
import platform
import re
import sqlite3
import tarfile
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from hostler import __version__
from hostler.telemetry.redaction import redact, redact_value

_MAX_LOG_LINES = 2_000
_MAX_LOG_BYTES = 8 * 1024 * 1024
MAX_VALUE_LENGTH = 200
# Texts that people, agents or hosts have written.
TEXT_FIELDS = frozenset(
    {"why", "error", "output", "message", "reason", "title", "body", "text", "found"}
)
_LIBRARIES = ("pydantic", "sqlalchemy", "alembic", "httpx", "typer", "structlog", "psutil")
_FILE_LINE = re.compile(r'^  File "[^"]*?([^/"]+)", line (\d+), in (\S+)')
MANIFEST_NAME = "MANIFEST.txt"
_PRIVACY_NOTE = """\
Never inside: secrets, prompts, code, titles, comments, answers of agents, paths of checkouts.
Look through it before you pass it on: names of repositories, agents and accounts are in it.
"""


def read_versions() -> dict[str, Any]:
    """What runs here."""
    return {
        "hostler": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "sqlite": sqlite3.sqlite_version,
        "libraries": {name: _library_version(name) for name in _LIBRARIES},
    }


def _library_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def read_log_lines(folder: Path, most: int = _MAX_LOG_LINES) -> list[str]:
    """The last lines of the logs, without anybody's words."""
    kept: list[str] = []
    for path in sorted(folder.glob("????-??-??.jsonl"), reverse=True):
        lines = _read_tail(path).splitlines()
        kept = [*lines[-(most - len(kept)) :], *kept] if len(kept) < most else kept
    return [told for line in kept if (told := redact_log_line(line))]


def _read_tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(file.seek(0, io.SEEK_END) - _MAX_LOG_BYTES, 0))
        return file.read().decode("utf-8", "replace")


def redact_log_line(line: str) -> str:
    """A log line that says what happened and when, and nothing that anybody has written. Pure."""
    try:
        fields = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(fields, dict):
        return ""
    told = {str(name): _redact_value(str(name), value) for name, value in fields.items()}
    return redact(json.dumps(told, ensure_ascii=True))


def _redact_value(name: str, value: object) -> object:
    if name == "traceback":
        return summarize_traceback(str(value))
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = str(value)
    if name in TEXT_FIELDS or len(text) > MAX_VALUE_LENGTH or "\n" in text:
        return f"({len(text)} characters)"
    return text


def summarize_traceback(traceback: str) -> list[str]:
    """Where a defect happened: files, lines, functions, and the kind of error. Pure."""
    lines = traceback.splitlines()
    found = {place: m for place, line in enumerate(lines) if (m := _FILE_LINE.match(line))}
    frames = [f"{m[1]}:{m[2]} {m[3]}" for m in found.values()]
    # What was said may have lines of its own: only the first begins with the kind.
    after = lines[max(found, default=-1) + 1 :]
    said = next((line for line in after if line and not line.startswith(" ")), "")
    kind = said.partition(":")[0]
    return [*frames, kind] if kind.replace(".", "").replace("_", "").isalnum() else frames


def to_json(value: object) -> str:
    """Plain JSON without any secret."""
    return json.dumps(redact_value(value), indent=2, ensure_ascii=True) + "\n"


def render_manifest(parts: Mapping[str, str], about: Mapping[str, str]) -> str:
    """What is inside, file by file."""
    rows = [
        f"{name:<16} {about.get(name, '')}  ({len(text):,} characters)"
        for name, text in parts.items()
    ]
    return "\n".join(["What is inside:", "", *rows, "", _PRIVACY_NOTE])


def build_archive(parts: Mapping[str, str], folder: str) -> bytes:
    """The archive; the same parts make the same bytes but for the time of packing."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        for name, text in parts.items():
            data = text.encode("utf-8", "backslashreplace")
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return whole.getvalue()


def findings_json(found: Iterable[Any]) -> list[dict[str, str]]:
    """What doctor says, one by one."""
    return [
        {"check": one.check, "status": str(one.status), "evidence": one.evidence} for one in found
    ]
