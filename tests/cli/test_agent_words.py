"""`hostler done` and `hostler ask`, as an agent calls them."""

from __future__ import annotations

import json

import pytest

from hostler.agents.result import read_result


@pytest.fixture
def run_dir(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.fixture
def inside(run_dir):
    return {"HOSTLER_RUN_DIR": str(run_dir)}


def result_of(run_dir):
    reading = read_result(run_dir / "result.json")
    assert reading.result is not None, reading.sentence
    return reading.result


def test_done_writes_everything_that_was_said(hostler, tmp_path, run_dir, inside):
    body = tmp_path / "body.md"
    body.write_text("Über\n")
    done = hostler(
        *("done", "--summary", "Mended.", "--title", "Mend it", "--body-file", body),
        *("--commit-message", "Mend", "--reply", "5=a=b", "--reply", "6=Yes."),
        env=inside,
    )
    assert done.code == 0, done.err
    assert "done" in done.out
    said = result_of(run_dir)
    assert (said.summary, said.pr_title, said.pr_body) == ("Mended.", "Mend it", "Über\n")
    assert said.commit_message == "Mend"
    assert {reply.comment_id: reply.body for reply in said.replies} == {5: "a=b", 6: "Yes."}
    assert [path.name for path in run_dir.iterdir()] == ["result.json"]


def test_a_description_can_come_on_standard_input(hostler, run_dir, inside):
    assert hostler("done", "--body-file", "-", stdin="From a pipe.", env=inside).code == 0
    assert result_of(run_dir).pr_body == "From a pipe."


def test_the_last_word_counts(hostler, run_dir, inside):
    assert hostler("ask", "Which?", env=inside).code == 0
    assert result_of(run_dir).status == "needs_input"
    assert hostler("ask", "--blocked", "No licence.", env=inside).code == 0
    assert (result_of(run_dir).status, result_of(run_dir).question) == ("blocked", "No licence.")
    assert hostler("done", env=inside).code == 0
    assert result_of(run_dir).status == "done"


def test_json_says_what_was_written_and_where(hostler, run_dir, inside):
    said = json.loads(hostler("ask", "Which?", "--json", env=inside).out)
    assert said["written"] == str(run_dir / "result.json")
    assert (said["status"], said["question"]) == ("needs_input", "Which?")


@pytest.mark.parametrize("argv", [("done",), ("ask", "Which?"), ("ask", "--blocked", "So.")])
def test_outside_of_a_run_there_is_nobody_to_tell(hostler, argv, tmp_path):
    for env in ({}, {"HOSTLER_RUN_DIR": str(tmp_path / "absent")}):
        done = hostler(*argv, env=env)
        assert done.code == 2
        assert "HOSTLER_RUN_DIR" in done.err
        assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (("done", "--title", "a\nb"), "pr_title"),
        (("done", "--title", "x" * 300), "pr_title"),
        (("done", "--summary", "x" * 70_000), "summary"),
        (("done", "--reply", "five=Yes"), "five=Yes"),
        (("done", "--reply", "=Yes"), "ID=TEXT"),
        (("done", "--reply", "5="), "replies.0.body"),
        (("done", "--reply", "5=a", "--reply", "5=b"), "twice"),
        (("ask", ""), "question"),
        (("ask", "--blocked", "  "), "question"),
        (("ask",), "QUESTION"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else value,
)
def test_what_breaks_the_contract_is_refused_and_writes_nothing(
    hostler, run_dir, inside, argv, word
):
    done = hostler(*argv, env=inside)
    assert done.code == 2
    assert word in done.err
    assert "Traceback" not in done.err
    assert list(run_dir.iterdir()) == []


def test_a_refused_word_leaves_the_earlier_one(hostler, run_dir, inside):
    hostler("done", "--summary", "First.", env=inside)
    assert hostler("done", "--title", "a\nb", env=inside).code == 2
    assert result_of(run_dir).summary == "First."


def test_a_description_that_cannot_be_read_is_told(hostler, tmp_path, run_dir, inside):
    missing = hostler("done", "--body-file", tmp_path / "absent", env=inside)
    assert missing.code == 1
    assert "absent" in missing.err
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff")
    assert "UTF-8" in hostler("done", "--body-file", binary, env=inside).err
    assert list(run_dir.iterdir()) == []


def test_a_link_in_the_place_of_the_result_is_replaced_and_not_followed(
    hostler, tmp_path, run_dir, inside
):
    target = tmp_path / "precious"
    target.write_text("keep")
    (run_dir / "result.json").symlink_to(target)
    assert hostler("done", env=inside).code == 0
    assert target.read_text() == "keep"
    assert result_of(run_dir).status == "done"


def test_a_folder_in_the_place_of_the_result_is_told(hostler, run_dir, inside):
    (run_dir / "result.json").mkdir()
    done = hostler("done", env=inside)
    assert done.code == 1
    assert "result.json could not be written" in done.err
    assert [path.name for path in run_dir.iterdir()] == ["result.json"]
