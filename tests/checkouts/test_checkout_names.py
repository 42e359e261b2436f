"""Names: whatever a title says, git and the file system accept what we make of it."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostler.checkouts.names import (
    MAX_SLUG_LENGTH,
    build_branch_name,
    build_checkpoint_name,
    is_branch_name,
    parse_sha,
    require_path_component,
    slugify,
)

HEAD = parse_sha("a1" * 20)


def git_accepts(name: str) -> bool:
    if "\0" in name:
        return False
    asked = subprocess.run(["git", "check-ref-format", "--branch", name], capture_output=True)
    return asked.returncode == 0


@given(st.text())
@example("..")
@example("fix .lock")
@example("@{upstream}")
@example("–" * 300)
@example("Ünïcödé Straße")
def test_a_slug_is_plain_short_and_never_empty(title: str) -> None:
    made = slugify(title)
    assert 1 <= len(made) <= MAX_SLUG_LENGTH
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert not made.startswith("-") and not made.endswith("-")
    assert ".." not in made and not made.endswith(".lock") and "@{" not in made
    assert slugify(made) == made


@settings(max_examples=40)
@given(st.integers(1, 10**9), st.text())
def test_git_accepts_every_branch_we_name(issue: int, title: str) -> None:
    for name in (
        build_branch_name("bugfix", issue, title),
        build_checkpoint_name(issue, title, HEAD),
    ):
        assert is_branch_name(name)
        assert git_accepts(name)


@settings(max_examples=100)
@given(st.lists(st.sampled_from([*"ab/.@{-~^:?*[\\ \x7f\n", ".lock"]), max_size=6).map("".join))
@example("a.lock/b")
@example("HEAD")
@example("@")
@example("-a")
@example("refs/heads/a")
def test_we_accept_the_branches_that_git_accepts(name: str) -> None:
    # `@` and `@{-1}` are accepted there as ways to say another branch.
    if name != "@" and "@{" not in name:
        assert is_branch_name(name) == git_accepts(name)


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", ".git", "a..b", "x.lock", "-a", "a\n"])
def test_a_folder_name_that_could_lead_elsewhere_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="folder name"):
        require_path_component(bad)


def test_the_branch_says_flow_issue_and_title() -> None:
    assert build_branch_name("bugfix", 12, "Crash on start!") == "agent/bugfix/12-crash-on-start"
    assert build_checkpoint_name(12, "Crash", HEAD) == "agent/checkpoint/12-crash-a1a1a1a1a1a1"
    for flow, issue in (("checkpoint", 1), ("a/b", 1), ("bugfix", 0)):
        with pytest.raises(ValueError, match="not a"):
            build_branch_name(flow, issue, "x")
