"""`hostler agents`: what it says about programs and their ends."""

from __future__ import annotations

import json

import pytest
from recordings import as_bytes, recordings
from typer.testing import CliRunner

from hostler.agents.verdict import EndedBy
from hostler.cli.main import app, keep_named_command


def run(*args):
    words = ["agents", *map(str, args)]
    return CliRunner().invoke(keep_named_command(app, words), words)


def files(one, folder):
    (folder / "out").write_bytes(as_bytes(one.stdout))
    (folder / "err").write_bytes(as_bytes(one.stderr))
    args = ["--kind", one.cli, "--stdout", folder / "out", "--stderr", folder / "err"]
    args += ["--exit-code", one.exit_code] if one.exit_code is not None else []
    return args + (["--ended-by", one.ended_by] if one.ended_by is not EndedBy.EXIT else [])


@pytest.mark.parametrize("one", recordings()[::9], ids=lambda one: one.full_name)
def test_a_recorded_run_is_explained(one, tmp_path):
    found = run("classify", *files(one, tmp_path), "--json")
    assert found.exit_code == 0, found.output
    told = json.loads(found.output)
    assert told["outcome"] == one.judged and told["why"]
    assert set(told) >= {"outcome", "decided_by", "resets_at", "session", "usage"}


def test_people_read_the_same(tmp_path):
    (one,) = (one for one in recordings() if one.full_name == "claude/oauth_429_unified")
    found = run("classify", *files(one, tmp_path))
    assert found.output.startswith(
        "quota, decided by stream: It says: `You've hit your 5-hour limit"
    )
    assert "park" in found.output and "2026-11-15T21:40:44.000Z" in found.output


@pytest.mark.parametrize(
    "args",
    [
        ("--kind", "nonsense", "--exit-code", "1"),
        ("--kind", "claude", "--exit-code", "one"),
        ("--kind", "claude", "--ended-by", "nobody"),
        ("--kind", "claude", "--stdout", "/no/such/file"),
        ("--kind", "claude", "--stdout", "/"),
        (),
    ],
)
def test_what_cannot_be_judged_is_refused(args):
    found = run("classify", *args)
    assert found.exit_code != 0 and "Traceback" not in found.output


def test_garbage_is_a_crash(tmp_path):
    (tmp_path / "out").write_bytes(bytes(range(256)) * 100)
    told = json.loads(
        run("classify", "--kind", "codex", "--stdout", tmp_path / "out", "--json").output
    )
    assert told["outcome"] == "crash" and told["session"] is None
