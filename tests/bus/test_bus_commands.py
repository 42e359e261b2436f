"""`hostler bus`, as agents and people call it."""

from __future__ import annotations

import getpass
import json
import os
import signal

import pytest
from bus_fixture import AGENT, INFO, PATIENCE, SERVICE, bodies, post_many
from piped_commands import Piped

from hostler.bus.bus import open_project_bus, open_task_bus
from hostler.bus.message import MessageType

IN_A_RUN = {"HOSTLER_RUN": "r7", "HOSTLER_TASK": "t1", "HOSTLER_PROJECT": "stable"}


@pytest.fixture
def task(home):
    return open_task_bus(home, "stable", "t1").create()


@pytest.fixture
def project(home, task):
    return open_project_bus(home, "stable")


def test_an_agent_posts_on_its_tasks_bus_and_is_stamped(hostler, task):
    done = hostler("bus", "post", "The parser is done.", env=IN_A_RUN)
    assert (done.code, done.err) == (0, "")
    (message,) = task.since()
    assert message.id in done.out and "task t1 of project stable" in done.out
    assert (message.type, message.body) == ("FACT", "The parser is done.")
    stamped = {"kind": "agent", "run": "r7", "task": "t1", "project": "stable"}
    assert message.sender.stored() == stamped


def test_a_person_posts_as_the_user_of_the_machine(hostler, task):
    env = {"USER": "somebody", "LOGNAME": "else"}
    done = hostler("bus", "post", "--task", "t1", "--json", "Hello", env=env)
    said = json.loads(done.out)
    (message,) = task.since()
    assert said == {"bus": str(task.path), **message.stored()}
    assert (message.type, message.sender.name) == ("USER", getpass.getuser())


def test_the_project_alone_means_its_own_bus(hostler, task, project):
    assert hostler("bus", "post", "--project", "stable", "To all", env=IN_A_RUN).code == 0
    assert bodies(project.since()) == ["To all"]
    assert len(task.since()) == 0


def test_a_message_can_come_from_a_file_or_a_pipe(hostler, task, tmp_path):
    file = tmp_path / "note.md"
    file.write_bytes("Über\nzwei\xff\n".encode("latin-1"))
    assert hostler("bus", "post", "--file", file, env=IN_A_RUN).code == 0
    assert hostler("bus", "post", "-", stdin="From a pipe.\n", env=IN_A_RUN).code == 0
    assert hostler("bus", "post", stdin="Without a dash.", env=IN_A_RUN).code == 0
    assert bodies(task.since()) == ["\ufffdber\nzwei\ufffd", "From a pipe.", "Without a dash."]


def test_answers_join_the_thread(hostler, task):
    asked = json.loads(
        hostler("bus", "post", "--type", "question", "--json", "Which?", env=IN_A_RUN).out
    )
    assert hostler("bus", "post", "--task", "t1", "--thread", asked["id"], "This.").code == 0
    _, answer = task.since()
    assert (answer.type, answer.thread) == ("USER", asked["id"])
    post_many(task, 3)
    shown = hostler("bus", "read", "--task", "t1", "--thread", answer.id, "--json")
    assert [message["body"] for message in json.loads(shown.out)["messages"]] == ["Which?", "This."]


def test_reading_shows_the_last_ones_and_all_after_an_id(hostler, task):
    said = post_many(task, 30)
    usual = json.loads(hostler("bus", "read", "--json", env=IN_A_RUN).out)
    assert [message["id"] for message in usual["messages"]] == [m.id for m in said[-20:]]
    assert usual["skipped"] == 0
    two = hostler("bus", "read", "--last", "2", env=IN_A_RUN).out
    assert said[-2].id in two and said[-1].id in two and said[-3].id not in two
    since = hostler("bus", "read", "--since", said[4].id, "--json", env=IN_A_RUN)
    assert len(json.loads(since.out)["messages"]) == 25
    both = hostler("bus", "read", "--since", said[4].id, "--last", "3", "--json", env=IN_A_RUN)
    assert [m["body"] for m in json.loads(both.out)["messages"]] == ["m27", "m28", "m29"]


def test_reading_by_type(hostler, task):
    task.post(MessageType.RUN_START, "begun", SERVICE)
    post_many(task, 25)
    task.post(MessageType.ERROR, "broken", AGENT)
    argv = ("bus", "read", "--type", "run-start", "--type", "ERROR", "--json")
    found = json.loads(hostler(*argv, env=IN_A_RUN).out)
    assert [message["body"] for message in found["messages"]] == ["begun", "broken"]


def test_a_terminal_is_never_told_what_to_do_by_a_message(hostler, task):
    task.post(INFO, "a\x1b[2J\x9b1m\u202eb\nc\r\u2028d 👩‍🚀\xa0e", AGENT)
    out = hostler("bus", "read", env=IN_A_RUN).out
    assert out.splitlines()[1:] == [
        "  a\\x1b[2J\\x9b1m\\u202eb",
        "  c\\r\\u2028d 👩‍🚀\xa0e",
    ]


def test_what_is_no_message_is_told(hostler, task):
    post_many(task, 1)
    with task.path.open("ab") as file:
        file.write(b"garbage\n")
    done = hostler("bus", "read", env=IN_A_RUN)
    assert "1 line" in done.err
    assert "garbage" not in done.out


def test_an_empty_bus_is_no_error(hostler, task):
    done = hostler("bus", "read", env=IN_A_RUN)
    assert (done.code, done.out) == (0, "")
    assert "No messages" in done.err
    assert json.loads(hostler("bus", "read", "--json", env=IN_A_RUN).out)["messages"] == []


def test_stats_count_everything(hostler, task):
    post_many(task, 3)
    task.post(MessageType.ERROR, "x", AGENT)
    found = json.loads(hostler("bus", "stats", "--json", env=IN_A_RUN).out)
    assert (found["messages"], found["attempts"], found["retries"]) == (4, 4, 0)
    assert found["types"] == {"INFO": 3, "ERROR": 1}
    assert found["bytes"] == task.path.stat().st_size
    text = hostler("bus", "stats", env=IN_A_RUN).out
    assert "ERROR 1, INFO 3" in text


def following(environment, tmp_path, *argv):
    env = {**environment, **IN_A_RUN}
    return Piped(["bus", "follow", *argv], cwd=tmp_path, env=env)


def test_following_shows_what_comes_until_it_is_interrupted(environment, tmp_path, task):
    post_many(task, 2)
    child = following(environment, tmp_path, "--json")
    assert b"Following" in child.stderr.readline()
    said = task.post(INFO, "new\nlines", AGENT)
    assert json.loads(child.stdout.readline()) == said.stored()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130
    assert b"Traceback" not in err


def test_following_begins_after_an_id_and_shows_some_types(environment, tmp_path, task):
    first, second = post_many(task, 2)
    child = following(environment, tmp_path, "--since", first.id, "--type", "info")
    assert second.id in child.stdout.readline().decode()
    assert child.stdout.readline() == b"  m1\n"
    task.post(MessageType.FACT, "not wanted", AGENT)
    third = task.post(INFO, "wanted", AGENT)
    assert third.id in child.stdout.readline().decode()
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=PATIENCE)


BAD = [
    (("post", ""), "empty"),
    (("post", "  \n "), "empty"),
    (("post", "x", "--file", "y"), "--file"),
    (("post", "--file", "absent"), "absent"),
    (("post", "x" * 70_000), "65,536"),
    (("post", "--type", "SHOUT", "x"), "SHOUT"),
    (("post", "--type", "USER", "x"), "cannot post USER"),
    (("post", "--type", "RUN_START", "x"), "cannot post RUN_START"),
    (("post", "--thread", "20260301-120000-123456", "x"), "no message"),
    (("post", "--thread", "nonsense", "x"), "no message"),
    (("post", "--project", "../up", "x"), "../up"),
    (("post", "--task", "a/b", "x"), "a/b"),
    (("post", "--task", "t2", "x"), "no task t2 of project stable"),
    (("post", "--project", "stabel", "x"), "Did you mean stable?"),
    (("post", "--project", "other", "x"), "no project other"),
    (("read", "--project", "other"), "no project other"),
    (("read", "--since", "yesterday"), "yesterday"),
    (("read", "--type", "SHOUT"), "SHOUT"),
    (("read", "--last", "0"), "--last"),
    (("read", "--thread", "20260301-120000-123456"), "no message"),
    (("follow", "--since", "yesterday"), "yesterday"),
    (("follow", "--project", "other"), "no project other"),
    (("stats", "--project", "other"), "no project other"),
]


@pytest.mark.parametrize(
    ("argv", "word"), BAD, ids=lambda v: v if isinstance(v, str) else " ".join(v)[:40]
)
def test_bad_input_is_told_and_posts_nothing(hostler, home, task, argv, word):
    done = hostler("bus", *argv, env=IN_A_RUN)
    assert done.code == 2, done.err
    assert word in done.err
    assert "Traceback" not in done.err
    assert not task.path.exists()
    assert [path.name for path in (home / "projects").iterdir()] == ["stable"]


def test_a_pipe_without_end_is_not_read_to_its_end(environment, tmp_path, task):
    child = Piped(["bus", "post", "-"], cwd=tmp_path, env={**environment, **IN_A_RUN})
    child.stdin.write(b"x" * 70_000)
    child.stdin.flush()
    assert b"65,536" in child.stderr.read()
    assert child.wait(PATIENCE) == 2
    child.stdin.close()


def test_outside_of_a_run_a_bus_must_be_named(hostler, task):
    for command in (("post", "x"), ("read",), ("follow",), ("stats",)):
        done = hostler("bus", *command)
        assert done.code == 2
        assert "Which bus" in done.err and "--project" in done.err


def test_a_person_cannot_tell_of_runs(hostler, task):
    done = hostler("bus", "post", "--task", "t1", "--type", "RUN_CRASH", "boom")
    assert done.code == 2
    assert "A person cannot post RUN_CRASH" in done.err


def test_an_environment_that_was_tampered_with_is_refused(hostler, task):
    done = hostler("bus", "post", "x", env={**IN_A_RUN, "HOSTLER_RUN": "../../r"})
    assert done.code == 2
    assert "HOSTLER_RUN" in done.err


def test_a_bus_is_begun_on_request(hostler, home):
    assert hostler("bus", "post", "--project", "new", "--create", "First").code == 0
    assert hostler("bus", "post", "--project", "new", "--task", "t", "--create", "First").code == 0
    assert bodies(open_project_bus(home, "new").since()) == ["First"]
    assert bodies(open_task_bus(home, "new", "t").since()) == ["First"]


def test_settings_in_a_checkout_are_not_the_operators(hostler, home, task, tmp_path):
    (tmp_path / "cwd" / "hostler.toml").write_text("nonsense = true\n")
    assert hostler("bus", "post", "x", env=IN_A_RUN).code == 0
    (home / "hostler.toml").write_text("[tasks]\nbus_max_retries = 0\n")
    done = hostler("bus", "post", "x", env=IN_A_RUN)
    assert done.code == 2
    assert "bus_max_retries" in done.err
    (home / "hostler.toml").write_text("[tasks]\nbus_sync = true\n")
    assert hostler("bus", "post", "x", env=IN_A_RUN).code == 0
    assert len(task.since()) == 2


def test_a_locked_bus_names_the_holder(hostler, home, task):
    import fcntl

    (home / "hostler.toml").write_text(
        "[tasks]\nbus_lock_timeout_seconds = 0.05\nbus_retry_backoff_seconds = 0\n"
    )
    task.post(INFO, "x", AGENT)
    with task.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = hostler("bus", "post", "y", env=IN_A_RUN)
    assert done.code == 1
    assert f"pid {os.getpid()}" in done.err
    assert "3 attempts" in done.err
    assert "Nothing was posted" in done.err


def test_what_looks_like_a_token_is_hidden_before_it_is_stored(hostler, task):
    token = "ghp_" + "a1B2" * 10
    assert hostler("bus", "post", f"It is {token}.", env=IN_A_RUN).code == 0
    assert bodies(task.since()) == ["It is [redacted]."]
