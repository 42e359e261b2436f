"""Opening a page in the person's browser, if there is one here."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from shutil import which
from urllib.parse import urlsplit

_SECONDS = 10.0
Find = Callable[[str], str | None]


def command_for(
    url: str, environment: Mapping[str, str], platform: str = sys.platform, find: Find = which
) -> list[str] | None:
    """What shows a page; None: nothing here can, or it is no page."""
    if urlsplit(url).scheme not in ("http", "https"):
        return None
    named = environment.get("BROWSER", "").split(os.pathsep)[0]
    if named:
        return _named(named, url)
    if platform == "darwin":
        return ["open", url]
    # Without a display only browsers for terminals are left, and this terminal is in use.
    if not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        return None
    opener = find("xdg-open")
    return [opener, url] if opener else None


def _named(named: str, url: str) -> list[str] | None:
    try:
        words = shlex.split(named)
    except ValueError:
        return None
    if any("%s" in word for word in words):
        return [word.replace("%s", url) for word in words]
    return [*words, url] if words else None


def open_page(url: str) -> bool:
    """Show a page; False: it cannot be shown here. It never touches this terminal."""
    command = command_for(url, os.environ)
    if command is None:
        return False
    quiet = subprocess.DEVNULL
    try:
        started = subprocess.Popen(
            command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )
    except OSError:
        return False
    try:
        return started.wait(_SECONDS) == 0
    except subprocess.TimeoutExpired:
        # It goes on as long as the browser does: that is as good as a yes.
        return True
