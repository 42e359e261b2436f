"""From settings and an assignment to a launch, and the files that go with it."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.agents.adapters.registry import KINDS, find_kind
from hostler.agents.assignment import RunLimits
from hostler.agents.errors import RunFilesFailed, SecretRefused, UnknownKind
from hostler.agents.prepare import HOME_VARIABLES, plan_launch, prepare_launch
from hostler.config.settings import Agent
from hostler.shim.spec import RunSpec

pytest_plugins = ["scripted_runs"]


def command(*argv: str, **more) -> Agent:
    return Agent(kind="command", command=list(argv), **more)


def test_a_launch_is_plain_data_with_the_fields_of_the_supervisor(work, ours):
    limited = replace(work, limits=RunLimits(60.0, 15.0, 3.0))
    spec = prepare_launch(command("sh", "-c", "true", nice=5), limited, ours).spec("r1")
    assert json.loads(json.dumps(spec)) == spec
    assert set(spec) == {
        *("run", "argv", "cwd", "env", "inherit", "stdin", "nice"),
        *("memory_mb", "wrappers", "tools_apart"),
        *("wall_seconds", "silence_seconds", "grace_seconds"),
    }
    assert spec["argv"] == ["sh", "-c", "true"]
    assert spec["cwd"] == str(work.checkout)
    assert (spec["nice"], spec["wall_seconds"]) == (5, 60.0)
    assert (spec["silence_seconds"], spec["grace_seconds"]) == (15.0, 3.0)


@pytest.mark.parametrize("how", ["stdin", "file"])
def test_the_supervisor_understands_every_launch(work, ours, how):
    limited = replace(work, limits=RunLimits(60.0, 15.0, 0.0))
    spec = RunSpec(prepare_launch(command("sh", prompt=how), limited, ours).spec("r1"))
    assert (spec.run, spec.argv[0], spec.cwd) == ("r1", "sh", str(work.checkout))
    assert (spec.wall, spec.silence, spec.grace) == (60.0, 15.0, 0.0)
    assert spec.stdin == (str(work.prompt_file) if how == "stdin" else "")


def test_an_agents_own_wall_limit_wins(work, ours):
    limited = replace(work, limits=RunLimits(60.0, 15.0, 3.0))
    launch = prepare_launch(command("sh", wall_limit_minutes=2), limited, ours)
    assert (launch.wall_seconds, launch.silence_seconds) == (120.0, 15.0)


def test_a_prompt_on_standard_input_is_the_prompt_file(work, ours):
    launch = prepare_launch(command("cat"), work, ours)
    assert launch.stdin == str(work.prompt_file)
    assert work.prompt_file.read_text() == work.prompt
    assert stat.S_IMODE(work.prompt_file.stat().st_mode) == 0o600


def test_a_prompt_as_a_file_is_the_last_argument_or_where_the_placeholder_is(work, ours):
    path = str(work.prompt_file)
    plain = prepare_launch(command("cat", prompt="file", extra_args=["-v"]), work, ours)
    assert (plain.argv, plain.stdin) == (("cat", "-v", path), "")
    placed = prepare_launch(command("do", "--in={prompt_file}", "{}", prompt="file"), work, ours)
    assert (placed.argv, placed.stdin) == (("do", f"--in={path}", "{}"), "")
    both = prepare_launch(command("do", "{prompt_file}"), work, ours)
    assert (both.argv, both.stdin) == (("do", path), path)


def test_an_agent_learns_where_it_is(work, ours):
    env = prepare_launch(command("sh"), work, ours).env
    assert env["HOSTLER_RUN"] == "r1"
    assert env["HOSTLER_TASK"] == "t1"
    assert env["HOSTLER_PROJECT"] == "p"
    assert env["HOSTLER_ATTEMPT"] == "1"
    assert env["HOSTLER_HOME"] == str(work.home)
    assert env["HOSTLER_RUN_DIR"] == str(work.run_dir)
    assert env["HOSTLER_TASK_DIR"] == str(work.task_dir)
    assert env["HOSTLER_RESULT"] == str(work.run_dir / "result.json")
    assert env["HOSTLER_DONE"] == str(work.task_dir / "DONE")
    assert "GITHUB_TOKEN" not in env


def test_a_key_that_an_agent_may_see_is_handed_on_and_written_nowhere(work, ours):
    ours = {**ours, "SOME_KEY": "the-providers-key", "EDITOR": "ed"}
    agent = command("sh", env=["SOME_KEY", "ABSENT", "HOME", "HOSTLER_RUN"])
    spec = prepare_launch(agent, work, ours).spec("r1")
    assert spec["inherit"] == ["SOME_KEY"]
    assert "the-providers-key" not in json.dumps(spec)
    assert spec["env"]["HOME"] == ours["HOME"]
    assert spec["env"]["HOSTLER_RUN"] == "r1"
    for path in work.run_dir.iterdir():
        assert "the-providers-key" not in path.read_text()


def test_a_programs_own_setting_stays_where_it_is_listed_but_not_set(work, ours):
    name = "GEMINI_CLI_NO_RELAUNCH"
    agent = Agent(kind="gemini", env=[name])
    spec = prepare_launch(agent, work, ours).spec("r1")
    assert (spec["env"][name], name in spec["inherit"]) == ("true", False)
    set_by_operator = prepare_launch(agent, work, {**ours, name: "false"}).spec("r1")
    assert name not in set_by_operator["env"] and name in set_by_operator["inherit"]


@pytest.mark.parametrize("how", [{"own_home": True}, {"sandbox": "bubblewrap"}])
@pytest.mark.parametrize("kind", ["claude", "codex", "opencode"])
def test_a_home_of_its_own_is_not_passed_by_with_another_variable(work, ours, kind, how):
    ours = {**ours, **dict.fromkeys(HOME_VARIABLES, "/home/user/elsewhere")}
    seen = plan_launch(Agent(kind=kind, **how), work, ours, ())
    assert not HOME_VARIABLES & {*seen.env, *seen.inherit}
    asked = plan_launch(Agent(kind=kind, env=["XDG_DATA_HOME"], **how), work, ours, ())
    assert HOME_VARIABLES & {*asked.env, *asked.inherit} == {"XDG_DATA_HOME"}


def test_without_a_home_of_its_own_a_program_finds_its_folder(work, ours):
    ours = {**ours, "CODEX_HOME": "/home/user/codex"}
    assert "CODEX_HOME" in plan_launch(Agent(kind="codex"), work, ours, ()).inherit


def test_the_command_hostler_is_on_the_agents_path(work, ours):
    env = prepare_launch(command("sh"), work, {**ours, "PATH": "/usr/bin:/bin"}).env
    done = subprocess.run(
        ["sh", "-c", "command -v hostler"], env=env, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(Path(sys.executable).with_name("hostler"))


def test_the_context_of_a_flow_is_a_file_of_the_run(work, ours):
    told = replace(work, context={"flow": "feedback", "comments": [{"id": 7, "body": "\ud800"}]})
    env = prepare_launch(command("sh"), told, ours).env
    said = json.loads(Path(env["HOSTLER_CONTEXT"]).read_text())
    assert (said["version"], said["flow"]) == (1, "feedback")


def test_a_prompt_that_cannot_be_written_as_utf8_is_written_nevertheless(work, ours):
    prepare_launch(command("sh"), replace(work, prompt="half \ud83d pair"), ours)
    assert work.prompt_file.read_text() == "half ? pair"


def test_a_home_of_its_own_outlives_the_run_for_its_sessions(work, ours):
    env = prepare_launch(command("sh", own_home=True), work, ours).env
    for name, parent in (("HOME", work.task_dir), ("TMPDIR", work.run_dir)):
        folder = Path(env[name])
        assert folder.parent == parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_refused_secret_leaves_no_file(work, ours):
    with pytest.raises(SecretRefused):
        prepare_launch(command("sh", env=["GITHUB_TOKEN"]), work, ours)
    assert list(work.run_dir.iterdir()) == []


def test_planning_writes_nothing(work, ours):
    plan_launch(command("sh", own_home=True), work, ours, ())
    assert list(work.run_dir.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_folder_that_cannot_be_written_is_a_clear_refusal(work, ours):
    blocked = replace(work, run_dir=Path("/dev/full/run"))
    with pytest.raises(RunFilesFailed) as refused:
        prepare_launch(command("sh"), blocked, ours)
    assert "No agent was started." in refused.value.lines()


def test_a_kind_that_is_not_there_yet_is_named():
    with pytest.raises(UnknownKind) as refused:
        find_kind(Agent.model_construct(kind="later"))
    assert "later" in refused.value.what
    assert "command" in refused.value.remedy


def test_a_missing_program_is_found_before_the_start(tmp_path):
    kind = KINDS["command"]
    (problem,) = kind.mistakes(command("no-such-agent"), "/usr/bin:/bin")
    assert "no-such-agent" in problem.sentence()
    (nothing,) = kind.mistakes(Agent(kind="command"), "/usr/bin:/bin")
    assert nothing.found == "nothing"
    assert not kind.mistakes(command("sh"), "/usr/bin:/bin")
    assert not kind.mistakes(command("./tools/agent"), "/usr/bin:/bin")


def test_the_player_never_takes_modules_from_the_checkout(work, ours, player):
    (work.checkout / "hostler").mkdir()
    (work.checkout / "hostler" / "__init__.py").write_text("raise SystemExit(99)")
    (work.checkout / "json.py").write_text("raise SystemExit(99)")
    assert player.play({"say": "Safe."}).code == 0


def test_a_resume_after_a_crash_may_prepare_again(work, ours):
    first = prepare_launch(command("cat"), work, ours)
    assert prepare_launch(command("cat"), work, ours) == first
    assert {path.name for path in work.run_dir.iterdir()} == {"context.json", "prompt.md"}
