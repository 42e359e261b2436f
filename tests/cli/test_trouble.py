"""Odd places and broken pipes get one clear line, never a traceback and never "a defect"."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from intake_yard import lay_database
from piped_commands import Piped

from hostler.__main__ import main
from hostler_program import HOSTLER


def one_line(done) -> None:
    assert done.code in {1, 2}, done.err
    assert "error:" in done.err
    assert "Traceback" not in done.err and "defect" not in done.err


@pytest.mark.parametrize("command", [("config", "show"), ("db", "check"), ("init", "--yes")])
def test_a_home_whose_owner_does_not_exist(hostler, command):
    one_line(hostler("--home", "~no-such-person/x", *command))


@pytest.mark.parametrize("command", [("config", "show"), ("db", "check"), ("db", "upgrade")])
def test_a_home_with_a_name_too_long(hostler, tmp_path, command):
    one_line(hostler("--home", tmp_path / ("x" * 300), *command))


@pytest.mark.parametrize("command", [("init", "--yes"), ("db", "upgrade")])
def test_a_home_that_is_a_file(hostler, home, command):
    home.write_text("")
    one_line(hostler(*command))
    assert home.read_text() == ""


def test_doctor_still_tells_what_it_can(hostler, tmp_path):
    done = hostler("--home", tmp_path / ("x" * 300), "doctor")
    assert done.code == 2
    assert "git:" in done.out and "home:" in done.out


def in_a_removed_folder(environment, tmp_path, *command):
    folder = tmp_path / "gone"
    folder.mkdir()
    line = f'cd "{folder}" && rmdir "{folder}" && exec "$@"'
    argv = ["sh", "-c", line, "sh", HOSTLER, *command]
    return subprocess.run(argv, capture_output=True, text=True, env=environment)


def test_a_folder_that_was_removed_under_us(environment, tmp_path):
    done = in_a_removed_folder(environment, tmp_path, "config", "show")
    assert (done.returncode, done.stderr) == (0, "")


def test_settings_that_are_a_folder_or_lead_nowhere_are_not_taken_for_none(hostler, home):
    home.mkdir()
    path = home / "hostler.toml"
    path.mkdir()
    one_line(hostler("config", "show"))
    path.rmdir()
    path.symlink_to(home / "nowhere.toml")
    one_line(hostler("config", "show"))
    assert hostler("config", "check").code == 2


COMMANDS = [("--version",), ("config", "schema"), ("--help",), ("doctor",)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_output_that_is_read_by_nobody(environment, tmp_path, command):
    ours, theirs = os.pipe()
    os.close(ours)
    done = Piped(command, cwd=tmp_path, env=environment, stdout=theirs)
    os.close(theirs)
    no_complaint(done.communicate()[1].decode())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_output_on_a_full_disk(environment, tmp_path, command):
    with Path("/dev/full").open("w") as full:
        done = Piped(command, cwd=tmp_path, env=environment, stdout=full.fileno())
    said = done.communicate()[1].decode()
    no_complaint(said)
    assert done.returncode == 1
    assert "Cannot write" in said


@pytest.mark.parametrize("command", COMMANDS[:2], ids=" ".join)
def test_output_that_was_closed_by_whoever_started_us(environment, tmp_path, command):
    argv = ["sh", "-c", f'"{HOSTLER}" {" ".join(command)} >&-']
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=tmp_path)
    no_complaint(done.stderr)


@pytest.mark.parametrize("command", COMMANDS[2:], ids=" ".join)
def test_commands_without_standard_output(environment, tmp_path, monkeypatch, capsys, command):
    """Python sets a closed stream to None."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["hostler", *command])
    monkeypatch.setattr(sys, "stdout", None)
    with suppress(SystemExit):
        main()
    sys.stdout.close()  # what the command has opened instead
    no_complaint(capsys.readouterr().err)


def no_complaint(text: str) -> None:
    assert "Traceback" not in text and "defect" not in text


def test_a_terminal_that_knows_only_ascii(environment):
    env = {**environment, "PYTHONIOENCODING": "ascii"}
    argv = [HOSTLER, "config", "reference"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert done.returncode == 0
    assert "\\u21bb" in done.stdout


def test_nothing_is_done_before_the_settings_are_read(hostler, home):
    lay_database(home)
    (home / "hostler.toml").write_text("x =")
    for command in (("db", "backup"), ("db", "vacuum")):
        assert hostler(*command, env={"HOSTLER_DATABASE_URL": ""}).code == 2
    assert not (home / "backups").exists()


def test_a_secret_that_the_settings_name_is_in_no_output(hostler, home, tmp_path):
    secret = "a-secret-without-any-known-shape"
    home.mkdir()
    (home / "hostler.toml").write_text('[github]\ntoken_env = "MY_TOKEN"\n')
    place = tmp_path / secret / "copy.db"
    env = {"MY_TOKEN": secret}
    lay_database(home)
    place.parent.mkdir()
    for flag in ("--json", "--no-json"):
        argv = ("--debug", "db", "backup", "--to", place) + (
            ("--json",) if flag == "--json" else ()
        )
        place.unlink(missing_ok=True)
        done = hostler(*argv, env=env)
        assert done.code == 0 and "[redacted]" in done.out
        assert secret not in done.out + done.err
    assert secret not in "".join(path.read_text() for path in (home / "logs").iterdir())


def test_debug_shows_log_lines_on_the_terminal(hostler):
    assert "store_upgraded" in hostler("--debug", "db", "upgrade").err
    assert "store_upgraded" not in hostler("db", "upgrade").err


def test_new_folders_are_for_the_owner_alone(hostler, home):
    hostler("init", "--yes")
    hostler("db", "upgrade")
    for folder in (home, home / "logs"):
        assert folder.stat().st_mode & 0o077 == 0


def test_a_mistaken_answer_names_the_file_it_would_have_gone_to(hostler, home):
    done = hostler("init", "--yes", "--repo", "octo/hello", "--allowed-user", "two words")
    assert str(home / "hostler.toml") in done.err
    assert "/tmp/tmp" not in done.err or str(home).startswith("/tmp/tmp")


def test_traces_are_sent_where_the_settings_want_them(hostler_process, home):
    """A collector of our own hears of the command. Tracing is set up for a whole process."""
    import http.server
    import threading

    heard = threading.Event()

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if b"hostler db upgrade" in body:
                heard.set()
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_words):
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home.mkdir()
    (home / "hostler.toml").write_text("[runtime]\notel = true\n")
    address = f"http://127.0.0.1:{server.server_port}"
    done = hostler_process(
        "db", "upgrade",
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_BSP_SCHEDULE_DELAY": "1"},
    )  # fmt: skip
    server.shutdown()
    server.server_close()
    assert done.code == 0, done.err
    assert heard.is_set()
