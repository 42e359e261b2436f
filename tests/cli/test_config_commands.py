from __future__ import annotations

import json
import tomllib


def test_show_prints_toml_that_reads_back(hostler):
    done = hostler("config", "show")
    assert done.code == 0
    assert tomllib.loads(done.out)["runtime"]["worker_count"] == 4
    assert json.loads(hostler("config", "show", "--json").out)["runtime"]["worker_count"] == 4


def test_check_reports_the_mistakes_of_both_files(hostler, home):
    home.mkdir()
    (home / "hostler.toml").write_text("[runtime]\nworker_count = 0\nfoo = 1\n")
    (home / "governor.json").write_text("{oops")
    done = hostler("config", "check")
    assert done.code == 2
    assert "has 2 mistakes" in done.err
    assert "runtime.worker_count: expected 1 or more, found 0" in done.err
    assert "governor.json has 1 mistake" in done.err
    assert "Traceback" not in done.err
    found = json.loads(hostler("config", "check", "--json").out)
    assert not found["ok"] and len(found["problems"]) == 3


def test_check_of_good_files_says_so(hostler, home):
    assert "no settings file" in hostler("config", "check").out
    home.mkdir()
    (home / "hostler.toml").write_text("")
    done = hostler("config", "check")
    assert (done.code, done.err) == (0, "")
    assert "no mistakes" in done.out


def test_a_named_file_that_is_not_there_is_an_error(hostler, tmp_path):
    for command in (("config", "check"), ("config", "show"), ("doctor",)):
        done = hostler("--config", tmp_path / "absent.toml", *command)
        assert done.code == 2
        assert "`hostler init` creates one" in done.err + done.out


def test_schema_is_json(hostler):
    assert json.loads(hostler("config", "schema").out)["title"] == "hostler.toml"


def test_reference_writes_the_page_or_says_why_not(hostler, tmp_path):
    target = tmp_path / "page.md"
    assert hostler("config", "reference", "--output", target).code == 0
    assert target.read_text().startswith("# Settings")
    done = hostler("config", "reference", "--output", "/proc/nowhere/page.md")
    assert done.code == 1
    assert "Cannot write" in done.err and "Traceback" not in done.err
