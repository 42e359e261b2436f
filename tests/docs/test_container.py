"""The recipe of the container says what the documentation promises."""

from __future__ import annotations

import json
import re
from pathlib import Path

from typer.main import get_command

from hostler.cli.main import app

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """Instruction and argument of each step, with continued lines joined."""
    text = (ROOT / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_it_runs_without_rights_and_with_a_first_process_that_collects():
    steps = instructions()
    users = [rest for word, rest in steps if word == "USER"]
    assert users == ["hostler"] and steps.index(("USER", "hostler")) < len(steps) - 2
    (entry,) = [json.loads(rest) for word, rest in steps if word == "ENTRYPOINT"]
    assert entry == ["tini", "--", "hostler"]
    assert ("STOPSIGNAL", "SIGTERM") in steps


def test_its_command_is_one_of_ours():
    (words,) = [json.loads(rest) for word, rest in instructions() if word == "CMD"]
    command = get_command(app).commands[words[0]]
    known = {option for parameter in command.params for option in parameter.opts}
    assert words[1:] == ["--stop-agents"] and set(words[1:]) <= known


def test_it_copies_only_what_is_there_and_not_ignored():
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY"]
    ignored = (ROOT / ".containerignore").read_text().splitlines()
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists() and f"!{name}" in ignored


def test_no_secret_is_baked_in():
    text = (ROOT / "Containerfile").read_text()
    assert not re.search(r"(?i)token|secret|password", text)
