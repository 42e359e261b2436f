"""What some tests need of the machine, and how to get it where it is missing.

A test calls `skip_without("chromium", why)` or is marked with `needs(…)`. The last line of a run
counts these skips by name.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import pytest

# How to get each thing, for the last line of a run.
REMEDIES = {
    "chromium": "apt-get install chromium",
    "postgresql": "apt-get install postgresql",
    "bubblewrap": "apt-get install bubblewrap, and allow user namespaces",
    "root": "run as root, or in `unshare -rm`",
    "systemd": "apt-get install systemd",
    "npm": "apt-get install npm",
    "linux": "run on Linux with /proc",
}
_REASON = re.compile(r"needs (\w+): ")


def reason_without(tool: str, why: str) -> str:
    """Return a skip reason that the last line of a run counts under `tool`."""
    assert tool in REMEDIES, tool
    return f"needs {tool}: {why}"


def skip_without(tool: str, why: str) -> NoReturn:
    """Skip this test because a tool is missing. Fail instead where CI=true."""
    reason = reason_without(tool, why)
    if _in_ci():
        pytest.fail(reason)
    pytest.skip(reason)


def needs(tool: str, why_missing: str) -> pytest.MarkDecorator:
    """Mark tests to be skipped if `why_missing` says something. Where CI=true they run and fail."""
    reason = reason_without(tool, why_missing)
    return pytest.mark.skipif(bool(why_missing) and not _in_ci(), reason=reason)


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"


def render_last_line(passed: int, failed: int, reasons: Iterable[str]) -> str:
    """Return the line that ends a run: counts, why tests were skipped, and what to do."""
    tools = Counter(_tool_of(reason) for reason in reasons)
    skipped = sum(tools.values())
    line = f"Result: {passed} passed, {failed} failed, {skipped} skipped"
    if not skipped:
        return line
    parts = [_explain(tool, count) for tool, count in sorted(tools.items())]
    return f"{line} ({'; '.join(parts)})"


def _tool_of(reason: str) -> str:
    found = _REASON.search(reason)
    return found[1] if found and found[1] in REMEDIES else ""


def _explain(tool: str, count: int) -> str:
    need = f"{count} need{'s' if count == 1 else ''}"
    return f"{need} {tool}: {REMEDIES[tool]}" if tool else f"{count} for other reasons: see -rs"
