from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from hostler.config.loader import read_settings
from hostler_program import Started


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def with_programs(tmp_path, environment):
    """PATH with a logged-in `gh` and an installed `codex`."""
    folder = tmp_path / "bin"
    program(folder, "gh", '[ "$1 $2" = "auth token" ] && echo gho_thisIsTheSecretOfTheTests0000000')
    program(folder, "codex", "exit 0")
    return {"PATH": f"{folder}:{environment['PATH']}"}


def test_yes_writes_a_valid_commented_file(hostler, home):
    done = hostler(
        "init", "--yes", "--repo", "octo/hello", "--allowed-user", "ann", "--agent", "claude"
    )
    assert done.code == 0, done.err
    settings = read_settings(home / "hostler.toml").settings
    assert settings.repo["hello"].allowed_users == ["ann"]
    agent = settings.agent["claude"]
    assert (agent.kind, agent.command) == ("claude", [])
    assert "# poll_interval_seconds = 30" in (home / "hostler.toml").read_text()
    assert "Still missing: a GitHub token" in done.out


def test_gh_is_proposed_and_its_token_is_written_nowhere(hostler, home, with_programs):
    done = hostler("init", "--yes", "--json", env=with_programs)
    assert json.loads(done.out)["auth"] == "gh"
    written = (home / "hostler.toml").read_text()
    assert 'auth = "gh"' in written and 'kind = "codex"' in written
    assert "gho_" not in written + done.out + done.err


def test_a_token_in_the_environment_wins_over_gh(hostler, home, with_programs):
    hostler("init", "--yes", env={**with_programs, "GITHUB_TOKEN": "x"})
    assert read_settings(home / "hostler.toml").settings.github.auth == "auto"


def test_a_gh_that_is_not_logged_in_is_not_proposed(hostler, home, tmp_path, environment):
    program(tmp_path / "bin", "gh", "echo gho_nope >&2; exit 1")
    hostler("init", "--yes", env={"PATH": f"{tmp_path / 'bin'}:{environment['PATH']}"})
    assert read_settings(home / "hostler.toml").settings.github.auth == "auto"


def test_the_repository_of_the_folder_is_proposed(hostler, home, tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path / "cwd"], check=True)
    url = "git@github.com:octo/found.git"
    subprocess.run(["git", "-C", tmp_path / "cwd", "remote", "add", "origin", url], check=True)
    hostler("init", "--yes")
    assert read_settings(home / "hostler.toml").settings.repo["found"].owner == "octo"


def test_an_existing_file_is_kept_unless_forced(hostler, home):
    home.mkdir()
    (home / "hostler.toml").write_text("# mine\n")
    done = hostler("init", "--yes")
    assert done.code == 1
    assert "It was not changed." in done.err
    assert (home / "hostler.toml").read_text() == "# mine\n"
    assert hostler("init", "--yes", "--force").code == 0
    assert "# mine" not in (home / "hostler.toml").read_text()


BAD_ANSWERS = [
    ("--repo", "nonsense"),
    ("--repo", "a/../b"),
    ("--agent", "hal"),
    ("--allowed-user", "-x"),
    ("--repo", "octo/hello", "--allowed-user", "two words"),
]


@pytest.mark.parametrize("bad", BAD_ANSWERS, ids=" ".join)
def test_bad_answers_write_nothing(hostler, home, bad):
    extra = () if "--repo" in bad else ("--repo", "octo/hello")
    done = hostler("init", "--yes", *extra, *bad)
    assert done.code in {1, 2}
    assert done.err.startswith("error: ") and "Traceback" not in done.err
    assert not (home / "hostler.toml").exists()


def test_without_a_terminal_it_says_to_use_yes(hostler, home):
    done = hostler("init")
    assert done.code == 1
    assert "--yes" in done.err
    assert not home.exists()


def converse(environment: dict[str, str], folder: Path, answers: list[str]) -> str:
    """Run `hostler init` on a real terminal and answer its questions as they come."""
    main, other = pty.openpty()
    child = Started(["init"], cwd=folder, env=environment, terminal=other)
    os.close(other)
    screen = ""
    for answer in answers:
        screen += read_until(main, r": $")
        os.write(main, f"{answer}\n".encode())
    screen += read_until(main, r"Next: .*\n")
    child.wait(30)
    os.close(main)
    return screen


def read_until(descriptor: int, pattern: str) -> str:
    text = ""
    while not re.search(pattern, text):
        try:
            text += os.read(descriptor, 4096).decode()
        except OSError:  # the program has ended
            break
    return text


def test_on_a_terminal_it_asks_and_takes_the_answers(home, environment, tmp_path, with_programs):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    answers = ["octo/hello", "ann, bob", "codex", "y"]
    screen = converse({**environment, **with_programs}, folder, answers)
    assert "Repository to watch" in screen and "gh auth token" in screen
    settings = read_settings(home / "hostler.toml").settings
    assert settings.repo["hello"].allowed_users == ["ann", "bob"]
    assert (settings.agent["codex"].kind, settings.github.auth) == ("codex", "gh")
