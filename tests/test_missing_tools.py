"""The last line of a run says what was skipped, why, and what to do."""

from __future__ import annotations

import pytest

from missing_tools import REMEDIES, reason_without, render_last_line, skip_without


def test_a_run_without_skips_has_counts_alone():
    assert render_last_line(12, 0, []) == "Result: 12 passed, 0 failed, 0 skipped"


def test_skips_are_counted_by_tool_with_what_to_do():
    reasons = ["Skipped: " + reason_without("chromium", "not on PATH")] * 2
    reasons.append(reason_without("root", "mount: permission denied"))
    reasons.append("Skipped: a full moon")
    assert render_last_line(5, 1, reasons) == (
        "Result: 5 passed, 1 failed, 4 skipped (1 for other reasons: see -rs; "
        f"2 need chromium: {REMEDIES['chromium']}; 1 needs root: {REMEDIES['root']})"
    )


def test_a_missing_tool_fails_in_ci_and_skips_elsewhere(monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs npm: none"):
        skip_without("npm", "none")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="needs npm: none"):
        skip_without("npm", "none")


def test_a_tool_without_a_remedy_is_a_mistake():
    with pytest.raises(AssertionError):
        reason_without("moonlight", "daytime")
