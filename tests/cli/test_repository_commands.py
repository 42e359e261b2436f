"""`hostler repo list | pause | unpause | remove`: they ask the file and the database alone."""

from __future__ import annotations

import json
import os
import pty
import re
from contextlib import closing
from dataclasses import replace

import pytest
from intake_yard import lay_database
from repo_program import AGENT, Program, table

from hostler.clock import SystemClock
from hostler.config.loader import read_settings
from hostler.model import RepoName
from hostler.store import open_store
from hostler.store.engine.locks import home_lock
from hostler.store.operator import ALL, all_pauses, pause
from hostler.store.pull_requests import PullRow, PullStatus, add_pull
from hostler.store.tasks import Flow, Task, TaskState, add_task, next_order
from hostler_program import Started

REPO = RepoName("octo", "stable")
TOML = (
    "# mine\n"
    + AGENT
    + "\n"
    + table("stable", "octo/stable", 'allowed_users = ["ann", "bob"]\nbase_branch = "dev"')
    + "# the other one\n"
    + table("loft", "Octo/Hay.Loft", "paused = true")
)


@pytest.fixture
def repo(tmp_path, environment, monkeypatch, capsys, home):
    home.mkdir()
    (home / "hostler.toml").write_text(TOML)
    return Program(tmp_path, environment, monkeypatch, capsys)


@pytest.fixture
def file(home):
    return home / "hostler.toml"


def facts(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


def held(home):
    with closing(open_store(home)) as store, store.read() as tx:
        return {scope: (one.by, one.why) for scope, one in all_pauses(tx).items()}


def fill(home):
    """Three unfinished tasks, one that is over, and two pull requests, one of them open."""
    states = [TaskState.QUEUED, TaskState.RUNNING, TaskState.RUNNING, TaskState.DONE]
    lay_database(home)
    with closing(open_store(home)) as store, store.write() as tx:
        for number, state in enumerate(states, start=1):
            made = Task(
                id=f"t{number}",
                project="stable",
                repo_full_name=str(REPO),
                issue_number=number,
                flow=Flow.BUGFIX,
                title=f"Crash {number}",
                author="ann",
                state=state,
                state_since=tx.stamp(),
                order=next_order(tx),
            )
            add_task(tx, made)
        by_hand = replace(made, id="hand", repo_full_name=None, issue_number=None)
        add_task(tx, replace(by_hand, state=TaskState.BLOCKED, title="Sweep"))
        row = PullRow(str(REPO), 12, 2, "t2", "agent/x", PullStatus.AWAITING_FEEDBACK)
        add_pull(tx, row)
        add_pull(tx, replace(row, pr_number=13, status=PullStatus.MERGED))


def test_list_without_a_database_shows_what_the_settings_say(repo, home):
    shown = facts(repo("list", "--json"))["repositories"]
    assert shown[0] == {
        "id": "stable",
        "repository": "octo/stable",
        "base_branch": "dev",
        "agent": "claude",
        "allowed_users": ["ann", "bob"],
        "paused": False,
        "paused_in_settings": False,
        "pauses": [],
        "tasks": {},
        "pull_requests": [],
    }
    assert (shown[1]["paused"], shown[1]["paused_in_settings"]) == (True, True)
    assert not (home / "hostler.db").exists()


def test_list_counts_what_is_open(repo, home):
    fill(home)
    with home_lock(home, SystemClock()):
        shown = facts(repo("list", "--json"))["repositories"]
    assert shown[0]["tasks"] == {"queued": 1, "running": 2, "blocked": 1}
    assert [pull["number"] for pull in shown[0]["pull_requests"]] == [12]
    assert (shown[1]["tasks"], shown[1]["pull_requests"]) == ({}, [])
    text = repo("list").out
    for words in ("1 queued, 2 running, 1 blocked", "#12", "ann, bob", "dev", "in the settings"):
        assert words in text


def test_list_of_nothing_says_how_to_add(repo, file):
    file.unlink()
    assert "hostler repo add" in repo("list").out
    assert facts(repo("list", "--json")) == {"settings": None, "repositories": []}


def test_settings_with_mistakes_are_told_at_once(repo, file):
    file.write_text("[repo.x]\nowner = 1\n")
    for argv in (["list"], ["pause", "x"], ["unpause", "x"], ["remove", "x", "--yes"]):
        done = repo(*argv)
        assert done.code == 2 and "repo.x.owner" in done.err


def test_a_pause_is_kept_shown_and_lifted(repo, home):
    done = facts(repo("pause", "OCTO/stable", "--why", "release\nweek", "--json"))
    assert (done["id"], done["changed"], done["paused"]["why"]) == ("stable", True, "release week")
    assert list(held(home)) == ["project:stable"]
    shown = facts(repo("list", "--json"))["repositories"][0]
    assert shown["paused"] and shown["pauses"][0]["why"] == "release week"
    assert re.search(r"paused +since .* by .*: release week", repo("list").out)
    assert facts(repo("unpause", "stable", "--json")) == {
        "id": "stable",
        "changed": True,
        "paused": False,
        "in_settings": False,
    }
    assert held(home) == {}
    assert "paused  " not in repo("list").out.partition("loft")[0]


def test_pausing_and_lifting_twice_is_harmless(repo, home):
    first = facts(repo("pause", "stable", "--why", "first", "--json"))
    again = facts(repo("pause", "stable", "--why", "second", "--json"))
    assert again == first | {"changed": False}
    assert "already paused" in repo("pause", "stable").out
    repo("unpause", "stable")
    assert "was not paused" in repo("unpause", "stable").out


def test_lifting_without_a_database_makes_none(repo, home):
    assert "was not paused" in repo("unpause", "stable").out
    assert not (home / "hostler.db").exists()


def test_a_pause_of_the_settings_is_not_lifted_by_a_command(repo, file):
    facts(repo("pause", "loft", "--json"))
    done = repo("unpause", "loft")
    assert "Resumed loft" in done.out and "paused = true" in done.out and str(file) in done.out
    assert facts(repo("unpause", "loft", "--json"))["paused"] is True
    assert file.read_text() == TOML


def test_a_pause_of_everything_is_shown_on_each(repo, home):
    lay_database(home)
    with closing(open_store(home)) as store, store.write() as tx:
        pause(tx, ALL, "ann", "night")
    assert all(one["paused"] for one in facts(repo("list", "--json"))["repositories"])
    assert repo("list").out.count("all work, since") == 2
    assert "All work is still paused" in repo("unpause", "stable").out
    assert list(held(home)) == [ALL]


@pytest.mark.parametrize("name", ["nobody", "octo/nobody", "[", "a/b/c", "", "ghp_" + "a" * 36])
@pytest.mark.parametrize("command", ["pause", "unpause", "remove"])
def test_what_is_not_watched_is_told_with_what_is(repo, home, command, name):
    done = repo(command, name)
    assert done.code == 1
    assert done.err.startswith("error: ") and done.err.count("error:") == 1
    assert "octo/stable" in done.err or "owner/name" in done.err
    assert "ghp_a" not in done.err
    assert not (home / "hostler.db").exists()


def test_remove_takes_the_table_and_keeps_everything_else(repo, home, file):
    fill(home)
    repo("pause", "stable")
    file.chmod(0o640)
    done = repo("remove", "stable", "--yes")
    assert done.code == 0, done.err
    assert file.read_text() == "# mine\n" + AGENT + "\n# the other one\n" + table(
        "loft", "Octo/Hay.Loft", "paused = true"
    )
    assert file.stat().st_mode & 0o777 == 0o640
    for words in ("#1 Crash 1 (queued, t1)", "manual Sweep", "pull request: #12 for #2"):
        assert words in done.err
    assert "Crash 4" not in done.err and "#13" not in done.err
    assert "stay in the database" in done.out and "Its pause stays" in done.out
    assert list(held(home)) == ["project:stable"]
    file.write_text(TOML)
    assert facts(repo("list", "--json"))["repositories"][0]["tasks"]["running"] == 2


def test_remove_for_programs(repo, file):
    done = facts(repo("remove", "octo/hay.loft", "--yes", "--json"))
    assert done["removed"] == "loft" and done["left"]["tasks"] == {}
    assert list(read_settings(file).settings.repo) == ["stable"]


def test_remove_without_a_terminal_needs_a_yes(hostler, home):
    home.mkdir()
    (home / "hostler.toml").write_text(TOML)
    done = hostler("repo", "remove", "stable")
    assert done.code == 1 and "--yes" in done.err
    assert (home / "hostler.toml").read_text() == TOML


def converse(environment, folder, answer: str) -> tuple[int, str]:
    """Remove a repository on a real terminal, and answer its question."""
    main, other = pty.openpty()
    child = Started(["repo", "remove", "stable"], cwd=folder, env=environment, terminal=other)
    os.close(other)
    screen = ""
    while True:
        try:
            screen += os.read(main, 4096).decode()
        except OSError:  # the program has ended
            break
        if screen.endswith("[y/N]: "):
            os.write(main, f"{answer}\n".encode())
    os.close(main)
    return child.wait(30), screen


@pytest.mark.parametrize("answer", ["y", "n", ""])
def test_remove_asks_on_a_terminal(repo, file, environment, tmp_path, answer):
    code, screen = converse(environment, tmp_path, answer)
    assert "Stop watching octo/stable?" in screen
    if answer == "y":
        assert (code, list(read_settings(file).settings.repo)) == (0, ["loft"])
    else:
        assert code == 1 and "Nothing was changed" in screen
        assert file.read_text() == TOML


def test_what_cannot_be_removed_by_itself_is_left_to_a_person(repo, file):
    one = 'owner = "octo", name = "stable"'
    other = 'owner = "octo", name = "loft"'
    text = f"repo = {{ stable = {{ {one} }}, loft = {{ {other} }} }}\n"
    file.write_text(text)
    done = repo("remove", "stable", "--yes")
    assert done.code == 1 and "by hand" in done.err
    assert file.read_text() == text


def test_a_linked_settings_file_is_followed(repo, file, tmp_path):
    real = tmp_path / "dotfiles" / "hostler.toml"
    real.parent.mkdir()
    file.rename(real)
    file.symlink_to(real)
    assert repo("remove", "stable", "--yes").code == 0
    assert file.is_symlink() and list(read_settings(real).settings.repo) == ["loft"]
