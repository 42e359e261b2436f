"""What systemd is told, heard at the other end of its socket; and the unit that starts us."""

from __future__ import annotations

import configparser
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from fake_systemd import PATIENCE, FakeSystemd
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hostler.cli.main import app
from hostler.clock import FakeClock
from hostler.errors import HostlerError
from hostler.service.systemd import (
    InvalidUnitValue,
    SystemdNotifier,
    UnitPlan,
    Watchdog,
    format_path,
    quote_argument,
    quote_executable,
    quote_word,
    render_unit,
)
from hostler_program import HOSTLER
from missing_tools import needs

PROGRAM = ("/usr/bin/python3", "-m", "hostler")
PLAN = UnitPlan(PROGRAM, Path("/home/ann/.hostler"), Path("/home/ann"), Path("/c.toml"))


@pytest.fixture
def systemd():
    found = FakeSystemd()
    yield found
    found.close()


def speaker(systemd: FakeSystemd, clock: FakeClock, **more: str) -> SystemdNotifier:
    return SystemdNotifier({"NOTIFY_SOCKET": str(systemd.path), **more}, clock)


def test_each_word_is_said_as_systemd_wants_it(systemd):
    clock = FakeClock()
    clock.advance(2)
    ours = speaker(systemd, clock)
    ours.ready("At work\non much")
    assert systemd.heard() == ["READY=1", "STATUS=At work on much"]
    ours.reloading()
    assert systemd.heard() == ["RELOADING=1", f"MONOTONIC_USEC={int(clock.monotonic() * 10**6)}"]
    ours.stopping()
    assert systemd.heard() == ["STOPPING=1"]
    ours.updating(600)
    assert systemd.heard() == ["STATUS=Restarting."]


def test_an_update_may_take_longer_than_the_watchdog_allows(systemd):
    ours = speaker(systemd, FakeClock(), WATCHDOG_USEC="3000000", WATCHDOG_PID=str(os.getpid()))
    ours.updating(7200)
    assert f"WATCHDOG_USEC={(7200 + 3600) * 10**6}" in systemd.heard()
    ours.ready()
    assert systemd.heard() == ["READY=1", "WATCHDOG_USEC=3000000"]


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "@nobody-listens-here"])
def test_nobody_who_listens_stops_nothing(address):
    ours = SystemdNotifier({"NOTIFY_SOCKET": address}, FakeClock())
    ours.ready()
    ours.alive()
    ours.stopping()
    assert ours.listens == bool(address)


@pytest.mark.parametrize(
    ("period", "owner", "seconds"),
    [("", "", 0), ("x", "", 0), ("-5", "", 0), ("5000000", "", 5), ("5000000", "1", 0)],
)
def test_the_watchdog_of_another_process_is_not_ours(period, owner, seconds):
    given_ = {"WATCHDOG_USEC": period, "WATCHDOG_PID": owner}
    assert SystemdNotifier(given_, FakeClock()).watchdog_seconds == seconds


def test_signs_of_life_come_from_turns_alone(systemd):
    """The thread asks for turns; as long as none comes, systemd hears nothing."""
    clock = FakeClock()
    asked = clock.wakeup()
    ours = speaker(systemd, clock, WATCHDOG_USEC="30000000")
    with Watchdog(ours, clock, asked.set) as watchdog:
        clock.wait_for_waiters(1)
        clock.advance(10)
        assert asked.wait(None) and systemd.silent()
        watchdog.turned()
        assert systemd.heard() == ["WATCHDOG=1"]
        # Many turns in a moment are one sign.
        watchdog.turned()
        assert systemd.silent()
        clock.advance(10)
        watchdog.turned()
        assert systemd.heard() == ["WATCHDOG=1"]


def test_without_a_watchdog_nothing_is_asked_for(systemd):
    clock = FakeClock()
    with Watchdog(speaker(systemd, clock), clock, pytest.fail) as watchdog:
        watchdog.turned()
    assert systemd.silent()


def test_a_real_service_says_when_it_works_lives_reloads_and_leaves(systemd, tmp_path):
    config = tmp_path / "hostler.toml"
    config.write_text('[agent.helper]\nkind = "command"\ncommand = ["true"]\n')
    argv = [HOSTLER, "--home", str(tmp_path / "home"), "--config", str(config), "service"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "WATCHDOG_USEC": "1500000"}
    told = {"NOTIFY_SOCKET": str(systemd.path)}
    with subprocess.Popen(argv, env=env | told, stdout=subprocess.DEVNULL) as service:
        try:
            assert "WATCHDOG_USEC=1500000" in systemd.until("READY=1")
            for _ in range(2):
                systemd.until("WATCHDOG=1")
            service.send_signal(signal.SIGHUP)
            systemd.until("RELOADING=1")
            systemd.until("READY=1")
            # Also after settings that cannot be taken: systemd would wait for the word for ever.
            config.write_text("nonsense = true\n")
            service.send_signal(signal.SIGHUP)
            systemd.until("RELOADING=1")
            systemd.until("READY=1")
            service.send_signal(signal.SIGTERM)
            systemd.until("STOPPING=1")
            assert service.wait(PATIENCE) == 0
        finally:
            service.kill()


# -- the unit -----------------------------------------------------------------------------------


def parsed(text: str) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",))
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read_string(text)
    return unit


def test_the_unit_says_what_it_must():
    unit = parsed(render_unit(PLAN))["Service"]
    wanted = {
        "Type": "notify",
        "NotifyAccess": "main",
        "KillMode": "process",
        "OOMPolicy": "continue",
        "Restart": "on-failure",
        "RestartPreventExitStatus": "2",
    }
    assert {name: unit[name] for name in wanted} == wanted
    assert int(unit["WatchdogSec"]) > 0 and unit["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert unit["ExecStart"].endswith(
        '"--home" "/home/ann/.hostler" "--config" "/c.toml" "service"'
    )
    assert unit["EnvironmentFile"] == "-/home/ann/.hostler/environment"


@needs("systemd", "" if shutil.which("systemd-analyze") else "no systemd-analyze on PATH")
def test_systemd_itself_takes_the_unit(tmp_path):
    strange = tmp_path / 'a "b" 100%$HOME'
    strange.mkdir()
    plan = UnitPlan(
        (shutil.which("true") or "/bin/true",), strange, strange, environment={"PATH": "/bin:%h/$x"}
    )
    file = tmp_path / "hostler.service"
    file.write_text(render_unit(plan))
    said = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", str(file)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
    )
    ours = [line for line in said.stderr.splitlines() if "hostler.service" in line]
    assert ours == [] and said.returncode == 0, said.stderr


@given(st.text())
def test_no_word_can_break_out_of_its_quotes(word):
    try:
        found = quote_word(word)
    except InvalidUnitValue:
        assert not word.isprintable()
        return
    inside = found[1:-1].replace("\\\\", "").replace('\\"', "")
    assert '"' not in inside and "\n" not in found
    assert "%" not in inside.replace("%%", "")
    # An assignment says what it says; in a command a `$` stands for itself only if it is doubled.
    assert inside.count("$") == word.count("$")
    assert quote_argument(word).count("$") == 2 * word.count("$")


def test_a_dollar_is_a_dollar_in_the_environment_and_in_arguments():
    plan = UnitPlan(
        ("/bin/hostler",),
        Path("/home/a$b"),
        Path("/work/a b"),
        environment={"PATH": "/bin:/opt/$x"},
    )
    unit = parsed(render_unit(plan))["Service"]
    assert unit["Environment"] == '"PATH=/bin:/opt/$x"' and '"/home/a$$b"' in unit["ExecStart"]
    assert unit["EnvironmentFile"] == "-/home/a$b/environment"
    # Names of files in the settings mean the same as where it was installed and tried.
    assert unit["WorkingDirectory"] == "/work/a b"


def test_a_program_that_a_unit_cannot_name_is_refused():
    with pytest.raises(InvalidUnitValue):
        quote_executable("/opt/$x/python")


@pytest.mark.parametrize("place", ["relative", "/with\nline", "/ends "])
def test_a_path_that_a_unit_cannot_name_is_refused(place):
    with pytest.raises(InvalidUnitValue):
        format_path(Path(place))


@pytest.fixture
def install(tmp_path, monkeypatch):
    (tmp_path / "hostler.toml").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    given_ = ["--home", str(tmp_path), "--config", str(tmp_path / "hostler.toml")]
    return lambda *words: CliRunner().invoke(app, [*given_, "service", "install", *words])


def test_install_writes_the_unit_once_and_never_over_another(install, tmp_path):
    file = tmp_path / "config/systemd/user/hostler.service"
    printed = install("--print")
    assert printed.exit_code == 0 and not file.exists()
    assert install().exit_code == 0
    assert file.read_text().rstrip() == printed.stdout.rstrip()
    again = install()
    assert again.exit_code == 0 and "is up to date" in again.output
    file.write_text("mine")
    refused = install()
    assert isinstance(refused.exception, HostlerError) and file.read_text() == "mine"
    assert install("--force").exit_code == 0 and "Type=notify" in file.read_text()
