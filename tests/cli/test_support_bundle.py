"""`hostler support-bundle`: everything that helps, and nothing that is not ours to give."""

from __future__ import annotations

import json
import stat
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hostler.cli.commands.doctor import PART_DESCRIPTIONS
from hostler.cli.main import app
from hostler.errors import HostlerError
from hostler.service.support_bundle import (
    MANIFEST_NAME,
    MAX_VALUE_LENGTH,
    TEXT_FIELDS,
    read_log_lines,
    redact_log_line,
    summarize_traceback,
)

SECRET = "s3cret-value-that-nobody-may-see"
run = CliRunner()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", SECRET)
    (tmp_path / "hostler.toml").write_text(
        '[github]\ntoken_env = "MY_TOKEN"\n[agent.helper]\nkind = "command"\ncommand = ["true"]\n'
    )
    logs = tmp_path / "logs"
    logs.mkdir()
    rows = [
        {"at": "t", "event": "task_admitted", "task": "t1", "why": "a private reason", "count": 3},
        {"at": "t", "event": "x", "token": SECRET},
    ]
    lines = [json.dumps(row) for row in rows]
    (logs / "2026-03-01.jsonl").write_text("\n".join([*lines, "torn {"]) + "\n")
    return tmp_path


def bundle(home, *words: str):
    """The command, and what it wrote."""
    file = home / "bundle.tar.gz"
    config = ["--home", str(home), "--config", str(home / "hostler.toml")]
    said = run.invoke(app, [*config, "support-bundle", "--output", str(file), *words])
    if said.exception is not None:
        return said, {}
    with tarfile.open(file) as archive:
        members = [entry for entry in archive.getmembers() if entry.isfile()]
        found = {
            entry.name.partition("/")[2]: archive.extractfile(entry).read().decode()
            for entry in members
        }
    return said, found


def test_it_holds_what_its_manifest_lists_and_no_secret(home):
    prompt = "Rewrite the secret sauce."
    config = ["--home", str(home), "--config", str(home / "hostler.toml")]
    order = ["task", "submit", "--cwd", str(home), prompt]
    assert run.invoke(app, [*config, *order]).exit_code == 0
    said, parts = bundle(home)
    assert set(parts) == {MANIFEST_NAME, *PART_DESCRIPTIONS} and "versions.json" in said.stdout
    assert all(name in parts[MANIFEST_NAME] for name in PART_DESCRIPTIONS)
    everything = "\n".join(parts.values())
    assert SECRET not in everything and "secret sauce" not in everything
    assert "a private reason" not in everything
    assert json.loads(parts["counts.json"])["rows"]["tasks"] == 1
    assert json.loads(parts["counts.json"])["tasks_by_state"] == {"queued": 1}
    assert "MY_TOKEN" in parts["settings.toml"] and json.loads(parts["doctor.json"])
    (first, second) = map(json.loads, parts["log.jsonl"].splitlines())
    assert first == {
        "at": "t",
        "event": "task_admitted",
        "task": "t1",
        "why": "(16 characters)",
        "count": 3,
    }
    assert second["event"] == "x"


def test_it_is_for_its_owner_alone_and_overwrites_nothing(home):
    said, _ = bundle(home, "--json")
    file = home / "bundle.tar.gz"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(said.stdout)["file"] == str(file)
    again, _ = bundle(home)
    assert isinstance(again.exception, HostlerError) and "already exists" in again.exception.what


def test_where_much_is_broken_the_rest_is_put_together(home):
    (home / "hostler.toml").write_text("[nonsense\n")
    (home / "hostler.db").write_text("no database")
    said, parts = bundle(home)
    assert said.exit_code == 0 and "mistakes" in parts["settings.toml"]
    assert "could not be created" in parts["counts.json"]
    assert json.loads(parts["versions.json"])["hostler"] and parts["log.jsonl"]


def test_an_empty_home_has_a_bundle_too(tmp_path):
    (tmp_path / "hostler.toml").write_text("")
    _, parts = bundle(tmp_path)
    assert json.loads(parts["counts.json"]) == {"rows": {}} and parts["log.jsonl"] == ""


def test_only_the_last_lines_are_taken(tmp_path):
    for day in (1, 2):
        rows = [json.dumps({"event": f"{day}-{n}"}) for n in range(10)]
        (tmp_path / f"2026-03-0{day}.jsonl").write_text("\n".join(rows))
    found = [json.loads(line)["event"] for line in read_log_lines(tmp_path, 12)]
    assert found == ["1-8", "1-9", *(f"2-{n}" for n in range(10))]


@given(st.dictionaries(st.sampled_from([*sorted(TEXT_FIELDS), "task", "traceback"]), st.text()))
def test_no_line_repeats_what_somebody_wrote(fields):
    told = json.loads(redact_log_line(json.dumps(fields)))
    assert set(told) == set(fields)
    for name, value in told.items():
        if name in TEXT_FIELDS:
            assert value == f"({len(fields[name])} characters)"
        elif name != "traceback":
            assert len(value) <= max(MAX_VALUE_LENGTH, 30)


@given(st.text())
def test_whatever_a_log_holds_can_be_read(line):
    found = redact_log_line(line)
    assert found == "" or isinstance(json.loads(found), dict)


def test_a_traceback_says_where_and_not_what():
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/ann/hostler/work.py", line 7, in finish\n'
        "    raise ValueError(prompt)\n"
        "ValueError: Rewrite the secret sauce.\n"
    )
    assert summarize_traceback(text) == ["work.py:7 finish", "ValueError"]


def test_the_kind_of_an_error_is_told_and_no_line_of_what_it_said():
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/ann/hostler/work.py", line 7, in finish\n'
        "    raise ValueError(prompt)\n"
        "hostler.errors.Odd: Rewrite this:\n"
        "sauce\n"
        "\n"
    )
    assert summarize_traceback(text) == ["work.py:7 finish", "hostler.errors.Odd"]
