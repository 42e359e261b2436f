"""Questions to programs: they answer in time, or are ended with everything they started."""

from __future__ import annotations

import os
import sys

import pytest

from hostler.agents.program_query import MAX_OUTPUT_BYTES, query_program
from hostler.shim import processes

LEAVES_A_CHILD = """
import os, sys
if os.fork() == 0:
    os.setsid()
    sys.stdout.close()
    os.close(1), os.close(2)
    while True:
        __import__("signal").pause()
print("1.2.3")
"""


@pytest.fixture
def asked(tmp_path, environment):
    def run(code, seconds=60.0):
        return query_program(
            [sys.executable, "-I", "-S", "-c", code], environment, tmp_path, seconds
        )

    return run


def carriers(word):
    found = []
    for pid in processes.list_pids():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
                found += [pid] if word.encode() in file.read() else []
        except OSError:
            continue
    return found


def test_what_it_says_and_how_it_ended(asked):
    answer = asked("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (answer.code, answer.out, answer.err, answer.problem) == (3, "out\n", "err\n", "")


def test_it_has_no_input_and_nothing_of_our_environment(asked, monkeypatch):
    monkeypatch.setenv("OUR_OWN", "x")
    answer = asked("import os, sys; print(sys.stdin.read() == '', 'OUR_OWN' in os.environ)")
    assert answer.out == "True False\n"


def test_what_it_left_in_another_session_is_gone(asked):
    word = f"left-{os.getpid()}"
    answer = asked(f"# {word}\n{LEAVES_A_CHILD}")
    assert (answer.code, answer.out) == (0, "1.2.3\n")
    assert carriers(word) == []


def test_one_that_never_answers_is_ended(asked):
    word = f"silent-{os.getpid()}"
    answer = asked(f"# {word}\nimport signal\nsignal.pause()", 0.2)
    assert answer.code is None and "no answer" in answer.problem
    assert carriers(word) == []


def test_of_endless_words_the_beginning_is_kept(asked):
    answer = asked(f"print('1.2.3' + 'x' * {4 * MAX_OUTPUT_BYTES})")
    assert answer.out.startswith("1.2.3x") and len(answer.out) == MAX_OUTPUT_BYTES


def test_bytes_that_are_no_text_are_no_trouble(asked):
    assert asked("import os; os.write(1, bytes(range(256)))").code == 0


@pytest.mark.parametrize("argv", [["/no/such/program"], ["/"], ["a\0b"]])
def test_one_that_cannot_be_started_says_why(argv, tmp_path, environment):
    answer = query_program(argv, environment, tmp_path)
    assert answer.code is None and "cannot be started" in answer.problem
