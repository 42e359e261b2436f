"""The player, on real processes and a real repository."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import psutil
import pytest
from scripted_runs import heard

from hostler.agents.agent_files import MAX_LINE_BYTES
from hostler.agents.events import (
    CostEvent,
    Finished,
    LimitSignal,
    Noise,
    Retrying,
    SessionEvent,
    Started,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.outcomes import Outcome
from hostler.agents.scripted.adapter import PLAYER_COMMAND

pytest_plugins = ["scripted_runs"]


def kinds(ended) -> list[type]:
    return [type(event) for event in ended.events]


def test_everything_it_can_say_is_an_event(player):
    ended = player.play(
        {"say": "Hello"},
        {"tool": {"name": "grep", "detail": "fence"}},
        {"session": "s-1"},
        {"usage": {"input": 10, "output": 2}},
        {"cost": 0.25},
        {"retrying": {"reason": "overloaded", "seconds": 3}},
        {"limit": {"reason": "quota", "status": 429, "resets_at": "2026-01-01T00:00:00.000Z"}},
    )
    assert ended.code == 0
    assert isinstance(ended.events[0], Started)
    assert ended.events[1:] == [
        Text("Hello"),
        ToolUse("grep", "fence"),
        SessionEvent("s-1"),
        Usage(10, 2),
        CostEvent(0.25),
        Retrying(Outcome.OVERLOADED, 3.0),
        LimitSignal(Outcome.QUOTA, 429, 0.0, "2026-01-01T00:00:00.000Z"),
        Finished(True, Outcome.SUCCESS),
    ]


def test_files_are_written_appended_and_deleted(player, work):
    (work.checkout / "old").mkdir()
    (work.checkout / "old" / "file").write_text("x")
    ended = player.play(
        {"write": {"path": "deep/in/a.txt", "text": "one\n"}},
        {"append": {"path": "deep/in/a.txt", "text": "two\n", "repeat": 2}},
        {"write": {"path": "b.txt", "text": ""}},
        {"delete": "b.txt"},
        {"delete": "old"},
        {"delete": "never/was"},
    )
    assert ended.code == 0
    assert (work.checkout / "deep/in/a.txt").read_text() == "one\ntwo\ntwo\n"
    assert not (work.checkout / "b.txt").exists()
    assert not (work.checkout / "old").exists()


def test_a_commit_keeps_the_checkouts_identity_and_needs_no_other(player, repository):
    player.play({"write": {"path": "a", "text": "1"}}, {"commit": "Add a"})
    assert repository("log", "--format=%s by %an") == "Add a by Scripted agent"
    repository("config", "user.name", "Hostler")
    repository("config", "user.email", "hostler@example.org")
    player.play({"write": {"path": "b", "text": "1"}}, {"commit": "Add b"})
    assert repository("log", "-1", "--format=%s by %an") == "Add b by Hostler"
    assert repository("status", "--porcelain") == ""


def test_committing_nothing_is_no_failure(player, repository):
    steps = ({"write": {"path": "a", "text": "1"}}, {"commit": "Add a"})
    assert player.play(*steps).code == 0
    again = player.play(*steps)
    assert again.code == 0
    assert Text("Nothing to commit.") in again.events
    assert repository("rev-list", "--count", "HEAD") == "1"


def test_a_commit_outside_of_a_repository_is_told(player):
    ended = player.play({"commit": "Add nothing"})
    assert ended.verdict.outcome is Outcome.CONFIG
    assert "git add" in ended.verdict.why


def test_a_program_is_run_in_the_checkout_and_its_failure_ends_the_run(player, work):
    assert player.play({"run": ["sh", "-c", "echo {{ attempt }} > ran; echo out"]}).code == 0
    assert (work.checkout / "ran").read_text() == "1\n"
    failed = player.play({"run": ["false"]}, {"say": "never"})
    assert failed.verdict.outcome is Outcome.CONFIG
    assert Text("never") not in failed.events
    assert player.play({"run": ["no-such-program"]}).verdict.outcome is Outcome.CONFIG


def test_it_fails_so_many_attempts_and_then_succeeds(player):
    steps = ({"fail": {"times": 2, "code": 7, "say": "No luck in {{attempt}}."}}, {"say": "Luck."})
    codes = [player.attempt(number).play(*steps).code for number in (1, 2, 2, 3, 4)]
    assert codes == [7, 7, 7, 0, 0]
    first = player.attempt(1).play(*steps)
    assert Text("No luck in 1.") in first.events
    assert first.verdict.outcome is Outcome.CRASH


def test_attempts_that_never_started_count_as_no_failure(player):
    steps = ({"fail": {"times": 2}},)
    assert [player.attempt(number).play(*steps).code for number in (3, 9, 12)] == [1, 1, 0]


def test_the_first_scene_that_fits_is_played(player):
    scenes = [
        {"when": {"flow": "feedback", "comments": True}, "steps": [{"say": "answers"}]},
        {"when": {"issue": 7, "title_has": "fence"}, "steps": [{"say": "fence"}]},
        {"when": {"attempt": 2}, "steps": [{"say": "second"}]},
        {"when": {"prompt_has": "Mend"}, "steps": [{"say": "prompt"}]},
        {"steps": [{"say": "else"}]},
    ]
    fence = {"number": 7, "title": "Mend the fence"}
    comment = {"id": 1, "body": "b"}
    told = player.told(flow="feedback", comments=[comment], issue=fence)
    assert Text("answers") in told.play(scene=scenes).events
    assert Text("fence") in player.told(flow="feedback", issue=fence).play(scene=scenes).events
    assert Text("second") in player.attempt(2).play(scene=scenes).events
    assert Text("prompt") in player.play(scene=scenes).events
    nothing = player.play(scene=[{"when": {"attempt": 5}, "steps": []}])
    assert nothing.verdict.outcome is Outcome.CONFIG


def test_every_comment_of_the_context_gets_its_reply(player, work):
    told = player.told(
        issue={"number": 7, "title": "Fence"},
        comments=[{"id": 5, "body": "Why?"}, {"id": 6, "body": "{{ issue.title }}"}],
    )
    ended = told.play(
        {
            "result": {
                "status": "done",
                "pr_title": "Mend #{{issue.number}}",
                "replies": [{"comment_id": 4, "body": "First."}],
                "reply_each": "On {{ comment.body }}: done.",
            }
        }
    )
    said = ended.verdict.result
    assert ended.verdict.outcome is Outcome.SUCCESS
    assert said.pr_title == "Mend #7"
    assert {reply.comment_id: reply.body for reply in said.replies} == {
        4: "First.",
        5: "On Why?: done.",
        6: "On {{ issue.title }}: done.",
    }


@pytest.mark.parametrize("text", ["{{ issue.title }}", "{{ attempt.of }}", "{{ nobody }}"])
def test_a_name_that_is_not_there_ends_the_run(player, text):
    ended = player.play({"say": text})
    assert ended.verdict.outcome is Outcome.CONFIG
    assert "nothing here is called" in ended.stderr


def test_a_bad_script_ends_with_every_mistake_on_standard_error(player):
    ended = player.play({"sayy": "Hello"}, {"exit": 999})
    assert ended.verdict.outcome is Outcome.CONFIG
    assert "steps[0].sayy" in ended.stderr
    assert "steps[1].exit" in ended.stderr
    assert "steps[0].sayy" in ended.verdict.why and "steps[1].exit" in ended.verdict.why


@pytest.mark.parametrize("code", [1, 3, 255])
def test_an_exit_code_is_kept_and_says_no_last_word(player, code):
    ended = player.play({"exit": code})
    assert ended.code == code
    assert Finished not in kinds(ended)
    assert ended.verdict.outcome is Outcome.CRASH


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.SUCCESS])
def test_an_end_can_be_of_any_class(player, outcome):
    assert player.play({"end": {"outcome": outcome.value}}).verdict.outcome is outcome


def test_a_limit_before_a_failed_end_is_its_reason(player):
    limit = {"limit": {"reason": "rate_limited", "retry_after_seconds": 30}}
    ended = player.play(limit, {"exit": 1})
    assert ended.verdict.outcome is Outcome.RATE_LIMITED
    assert ended.verdict.limit.retry_after_seconds == 30
    assert player.play(limit, {"say": "Through."}, {"exit": 1}).verdict.outcome is Outcome.CRASH


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_it_can_die_by_a_signal(player, name):
    ended = player.play({"ignore_sigterm": True}, {"die": name})
    assert ended.code == -signal.Signals[name]
    assert name in ended.verdict.why


def test_garbage_and_endless_lines_are_noise_and_hide_no_event(player):
    ended = player.play(
        {"garbage": 300_000},
        {"print": {"text": "\n"}},
        {"print": {"text": "x", "repeat": MAX_LINE_BYTES + 1}},
        {"print": {"text": "\n"}},
        {"print": {"text": "aside\n", "to": "stderr"}},
        {"say": "y" * 300_000},
    )
    assert ended.verdict.outcome is Outcome.SUCCESS
    assert Text("y" * 300_000) in ended.events
    assert max(len(e.text) for e in ended.events if isinstance(e, Noise)) == MAX_LINE_BYTES
    assert "aside" in ended.stderr


@pytest.mark.parametrize(
    ("step", "code", "word"),
    [
        ({"say": "By hand, in {{ attempt }}."}, 0, "By hand, in 1."),
        ({"result": {"status": "done"}}, 2, "HOSTLER_RESULT is not set"),
        ({"mark_done": True}, 2, "HOSTLER_DONE is not set"),
        ({"fail": {"times": 1}}, 2, "HOSTLER_TASK_DIR is not set"),
    ],
)
def test_by_hand_it_plays_all_that_needs_no_run(tmp_path, environment, step, code, word):
    script = tmp_path / "play.json"
    script.write_text(json.dumps({"steps": [step]}))
    done = subprocess.run(
        [*PLAYER_COMMAND, script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == code
    assert word in done.stdout + done.stderr


def test_it_takes_one_script_and_says_so(environment):
    done = subprocess.run(PLAYER_COMMAND, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage" in done.stderr


def test_a_context_that_cannot_be_read_ends_the_run(environment, tmp_path):
    script = tmp_path / "play.json"
    script.write_text(json.dumps({"steps": []}))
    context = tmp_path / "context.json"
    for text in ("{", "[]", "[" * 100_000):
        context.write_text(text)
        env = {**environment, "HOSTLER_CONTEXT": str(context)}
        done = subprocess.run([*PLAYER_COMMAND, script], env=env, capture_output=True, text=True)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def child_of(events) -> psutil.Process:
    for event in events:
        if isinstance(event, ToolUse) and event.name == "child":
            return psutil.Process(int(event.detail))
    raise AssertionError("no child was started")


def test_a_child_lives_in_another_session_and_ignores_sigterm(piped):
    process = piped(
        {"child": {"seconds": 600, "session": True, "ignore_sigterm": True}},
        {"hang": 600},
    )
    child = child_of(heard(process))
    try:
        assert os.getsid(child.pid) == child.pid != os.getsid(process.pid)
        assert child.ppid() == process.pid
        child.terminate()
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM
        assert child.is_running()
    finally:
        child.kill()


def test_a_detached_child_has_another_parent(piped):
    process = piped({"child": {"seconds": 600, "detached": True}}, {"hang": 600})
    child = child_of(heard(process))
    try:
        assert child.ppid() != process.pid
    finally:
        child.kill()


def test_a_hanging_agent_that_ignores_sigterm_must_be_killed(piped):
    process = piped({"ignore_sigterm": True}, {"say": "Deaf."}, {"hang": 600})
    events = heard(process)
    while next(events) != Text("Deaf."):
        pass
    process.terminate()
    assert psutil.Process(process.pid).is_running()
    process.kill()
    assert process.wait(30) == -signal.SIGKILL


def test_a_delay_is_over_when_its_time_is_over(player):
    assert player.play({"delay": 0.01}, {"hang": 0}, {"say": "On."}).code == 0
