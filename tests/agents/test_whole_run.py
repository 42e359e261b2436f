"""From an assignment to a verdict, with real programs, friendly and hostile."""

from __future__ import annotations

import os

import pytest

from hostler.agents.outcomes import NextAction, Outcome, outcome_meaning
from hostler.agents.result import ResultFault, read_result
from hostler.agents.scripted.script import BAD_RESULTS
from hostler.agents.verdict import DecidedBy, EndedBy
from hostler.config.settings import Agent

pytest_plugins = ["scripted_runs"]


def shell(text: str, **more) -> Agent:
    return Agent(kind="command", command=["sh", "-c", text], **more)


def test_a_command_gets_its_prompt_on_standard_input(player, work):
    ended = player.run(shell("cat > got; echo read"))
    assert (work.checkout / "got").read_text() == work.prompt
    assert [event.text for event in ended.events] == ["read"]
    assert ended.verdict.outcome is Outcome.SUCCESS


def test_a_command_gets_its_prompt_as_a_file(player, work):
    player.run(shell('cat "$1" > got; cat >> got', prompt="file", extra_args=["sh"]))
    assert (work.checkout / "got").read_text() == work.prompt


def test_a_command_sees_no_token_of_ours(player, work):
    player.run(shell("env > seen"))
    assert "a-token-of-ours" not in (work.checkout / "seen").read_text()


def test_a_command_says_that_it_is_done(player):
    ended = player.run(shell("hostler done --summary Mended --reply 5=Yes; exit 3"))
    assert (ended.verdict.outcome, ended.verdict.decided_by) == (
        Outcome.SUCCESS,
        DecidedBy.RESULT,
    )
    assert ended.verdict.result.summary == "Mended"


def test_a_command_asks(player):
    verdict = player.run(shell('hostler ask "Which fence?"')).verdict
    assert outcome_meaning(verdict.outcome).next is NextAction.ASK
    assert verdict.result.question == "Which fence?"


def test_a_command_marks_its_task_as_done(player):
    verdict = player.run(shell('touch "$HOSTLER_DONE"; exit 1')).verdict
    assert (verdict.outcome, verdict.decided_by) == (Outcome.SUCCESS, DecidedBy.DONE)


def test_done_as_a_folder_is_an_error(player):
    verdict = player.run(shell('hostler done; mkdir "$HOSTLER_DONE"')).verdict
    assert verdict.outcome is Outcome.BAD_RESULT
    assert "a folder" in verdict.why


def test_a_command_that_fails_without_a_word_crashed(player):
    assert player.run(shell("exit 3")).verdict.outcome is Outcome.CRASH


def test_a_home_of_its_own_is_where_the_agent_writes(player, work):
    player.run(shell("echo kept > ~/note; mktemp > /dev/null", own_home=True))
    assert (work.task_dir / "home" / "note").read_text() == "kept\n"
    assert len(list((work.run_dir / "tmp").iterdir())) == 1


@pytest.mark.parametrize(
    ("ended_by", "outcome"),
    [
        (EndedBy.STOP, Outcome.INTERRUPTED),
        (EndedBy.WALL_TIMEOUT, Outcome.TIMEOUT),
        (EndedBy.STALL, Outcome.STALLED),
    ],
)
def test_our_own_ending_comes_first_and_a_valid_word_is_kept(player, ended_by, outcome):
    ended = player.run(shell('hostler done --summary Mended; touch "$HOSTLER_DONE"'), ended_by)
    assert ended.verdict.outcome is outcome
    assert ended.verdict.result.summary == "Mended"


FAULTS = {
    "deep": ResultFault.TOO_DEEP,
    "directory": ResultFault.NOT_A_FILE,
    "empty": ResultFault.EMPTY,
    "fifo": ResultFault.NOT_A_FILE,
    "half": ResultFault.CUT_OFF,
    "huge": ResultFault.TOO_LARGE,
    "nan": ResultFault.NOT_JSON,
    "no_question": ResultFault.INVALID,
    "not_json": ResultFault.NOT_JSON,
    "not_utf8": ResultFault.NOT_UTF8,
    "symlink": ResultFault.SYMLINK,
    "wrong_types": ResultFault.INVALID,
}


@pytest.mark.parametrize("how", BAD_RESULTS)
def test_whatever_stands_in_the_place_of_a_result_gets_a_clear_outcome(player, work, how):
    ended = player.play({"say": "Done!"}, {"bad_result": how})
    assert ended.verdict.outcome is Outcome.BAD_RESULT
    reading = read_result(work.result_file)
    assert reading.fault is FAULTS[how]
    assert ended.verdict.why == reading.sentence
    assert len(ended.verdict.why) < 2_000


def test_a_question_and_a_block_end_the_loop(player):
    asked = player.play({"ask": "Which?"}).verdict
    assert (asked.outcome, asked.result.question) == (Outcome.NEEDS_INPUT, "Which?")
    blocked = player.play({"block": "No licence."}).verdict
    assert (blocked.outcome, blocked.result.question) == (Outcome.BLOCKED, "No licence.")


def test_the_marker_is_enough(player):
    verdict = player.play({"mark_done": True}, {"exit": 1}).verdict
    assert (verdict.outcome, verdict.decided_by) == (Outcome.SUCCESS, DecidedBy.DONE)


def test_a_hundred_verdicts_leak_no_descriptor(player, work):
    agent = shell("exit 0")
    player.run(agent)
    os.mkfifo(work.result_file)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(100):
        assert read_result(work.result_file).wrong
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
