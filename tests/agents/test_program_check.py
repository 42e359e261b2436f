"""Versions, and what they mean to us."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.adapters.registry import KINDS
from hostler.agents.program_check import (
    check_installed,
    check_version,
    find_program_path,
    is_newer,
    parse_version,
)
from hostler.config.settings import Agent
from hostler.health import CheckStatus

NUMBERS = st.lists(st.integers(0, 10**9 - 1), min_size=2, max_size=4).map(tuple)
PROGRAMS = ("claude", "codex", "gemini", "opencode")


def dotted(numbers):
    return ".".join(map(str, numbers))


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("2.1.325 (Claude Code)\n", "2.1.325"),
        ("codex-cli 0.166.0\n", "0.166.0"),
        ("v1.18.33-beta.2", "1.18.33"),
        ("no version here: 12", ""),
        ("", ""),
    ],
)
def test_a_version_is_found_in_what_programs_print(printed, found):
    assert parse_version(printed) == found


@given(st.text(), NUMBERS, st.text())
def test_any_text_has_a_version_or_none_and_ours_if_it_stands_first(before, numbers, after):
    found = parse_version(before + " " + dotted(numbers) + " " + after)
    assert found and not is_newer(found, found)
    if not parse_version(before):
        assert found == dotted(numbers)


@given(NUMBERS, NUMBERS)
def test_of_two_versions_at_most_one_is_newer(one, other):
    assert not (is_newer(dotted(one), dotted(other)) and is_newer(dotted(other), dotted(one)))
    assert is_newer(dotted((*one[:1], one[1] + 1)), dotted(one))


@given(NUMBERS.filter(lambda numbers: len(numbers) < 4))
def test_zeros_at_the_end_change_nothing(numbers):
    assert not is_newer(dotted((*numbers, 0)), dotted(numbers))
    assert not is_newer(dotted(numbers), dotted((*numbers, 0)))


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_newer_version_is_a_hint_and_no_failure(kind):
    agent, known = Agent(kind=kind), KINDS[kind].program.known
    assert [one.status for one in check_version(agent, known)] == [CheckStatus.OK]
    assert [one.status for one in check_version(agent, "0.0.1")] == [CheckStatus.OK]
    (newer,) = check_version(agent, "999.0")
    assert newer.status is CheckStatus.WARNING and known in newer.evidence and newer.remedy
    (silent,) = check_version(agent, "")
    assert silent.status is CheckStatus.WARNING


def test_of_any_command_nobody_knows_a_version():
    assert check_version(Agent(kind="command", command=["sh"]), "") == []


def test_where_a_program_is_and_that_it_is_not(tmp_path):
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\n")
    agent = Agent(kind="codex")
    assert find_program_path(agent, str(tmp_path)) is None
    program.chmod(0o700)
    assert find_program_path(agent, str(tmp_path)) == str(program)
    assert [one.status for one in check_installed(agent, str(tmp_path))] == [CheckStatus.OK]
    assert [one.status for one in check_installed(agent, "/nowhere")] == [CheckStatus.FAILED]
    inside = Agent(kind="command", command=["./run.sh"])
    assert [one.status for one in check_installed(inside, "/nowhere")] == [CheckStatus.OK]
