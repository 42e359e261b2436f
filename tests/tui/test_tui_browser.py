"""Pages in a browser, where there is one."""

from __future__ import annotations

import sys

import pytest

from hostler.tui.terminal import browser_command, open_page

URL = "https://github.com/octo/barn/pull/5?a=1&b=$(touch x)"


def found(program):
    return f"/usr/bin/{program}"


def nothing(_program):
    return None


@pytest.mark.parametrize(
    ("environment", "platform", "find", "command"),
    [
        ({"DISPLAY": ":0"}, "linux", found, ["/usr/bin/xdg-open", URL]),
        ({"WAYLAND_DISPLAY": "w"}, "linux", found, ["/usr/bin/xdg-open", URL]),
        ({"DISPLAY": ":0"}, "linux", nothing, None),
        ({}, "linux", found, None),
        ({}, "darwin", nothing, ["open", URL]),
        ({"BROWSER": "my-browser --new"}, "linux", nothing, ["my-browser", "--new", URL]),
        ({"BROWSER": "show '%s':other"}, "linux", nothing, ["show", URL]),
        ({"BROWSER": "'"}, "linux", found, None),
        ({"BROWSER": " "}, "linux", found, None),
    ],
)
def test_who_shows_a_page(environment, platform, find, command):
    assert browser_command(URL, environment, platform, find) == command


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:1", "-x", "", "ftp://x/y"])
def test_only_pages_of_the_web_are_shown(url):
    assert browser_command(url, {"DISPLAY": ":0"}, "linux", found) is None


def test_a_browser_is_started_with_the_address_and_nothing_else(tmp_path, monkeypatch):
    told = tmp_path / "told"
    script = tmp_path / "browser"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(told)!r}, 'w').write(repr(sys.argv[1:]))\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(script))
    assert open_page(URL)
    assert told.read_text() == repr([URL])


def test_a_browser_that_fails_or_is_not_there(monkeypatch):
    for named in ("false", "/nowhere/at/all"):
        monkeypatch.setenv("BROWSER", named)
        assert not open_page(URL)
