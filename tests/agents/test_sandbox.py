"""What an agent in a sandbox sees of the machine, and that it is refused where there is none."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.assignment import Launch
from hostler.agents.checks import agents_can_start
from hostler.agents.errors import SandboxIneffective, SandboxMissing
from hostler.agents.prepare import GITHUB_TOKEN_VARIABLES, plan_launch, prepare_launch
from hostler.agents.sandbox import (
    BWRAP_OPTIONS,
    TEMPORARY_FOLDER,
    SandboxMounts,
    check_sandbox,
    find_sandbox_problem,
    mount_points,
    outermost_paths,
    plan_mounts,
    require_outside_hidden,
    require_sandbox,
    wrap_launch,
)
from hostler.clock import SystemClock
from hostler.config.settings import Agent
from hostler.health import CheckContext, CheckStatus
from hostler.shim.spec import RunSpec

pytest_plugins = ["scripted_runs"]
PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(
    lambda parts: Path("/", *parts)
)
VIEWS = st.builds(SandboxMounts, *[st.lists(PATHS, max_size=3).map(tuple)] * 3)


def boxed(**more) -> Agent:
    given = {"kind": "command", "command": ["sh", "-c", "true"], "sandbox": "bubblewrap", **more}
    return Agent(**given)


def planned(agent, work, ours):
    return plan_launch(agent, work, ours, GITHUB_TOKEN_VARIABLES)


def binds(launch, flag):
    before = launch.argv[: launch.argv.index("--")]
    return [before[n + 1] for n, word in enumerate(before) if word == flag]


@pytest.fixture
def at_home(work, ours, tmp_path):
    """The work, in the home of a user that is not below the private folder."""
    user = Path(ours["HOME"])
    tool = user / "bin" / "tool"
    tool.parent.mkdir()
    package = user / "lib" / "node_modules" / "@maker" / "tool"
    package.mkdir(parents=True)
    (package / "cli.js").write_text("#!/bin/sh\n")
    (package / "cli.js").chmod(0o700)
    tool.symlink_to(package / "cli.js")
    (user / ".ssh").mkdir()
    (user / ".ssh" / "id_rsa").write_text("a key")
    return user


@pytest.fixture
def elsewhere():
    """A folder outside of all that is hidden anyway."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder).resolve()


@given(st.lists(PATHS, max_size=6))
def test_of_hidden_folders_the_outermost_are_enough(paths):
    kept = outermost_paths(paths)
    assert all(any(one == path or one in path.parents for one in kept) for path in paths)
    assert not any(one in other.parents for one in kept for other in kept)


@given(VIEWS, st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_the_program_comes_whole_after_the_walls(view, argv):
    launch = wrap_launch(Launch(tuple(argv), "/work", {}), view, {"PATH": "/nowhere"})
    assert launch.argv[1 : len(BWRAP_OPTIONS) + 1] == BWRAP_OPTIONS
    cut = launch.argv.index("--")
    assert launch.argv[cut + 1 :] == tuple(argv)
    assert launch.argv[cut - 2 : cut] == ("--chdir", "/work")
    # What is hidden comes first: a later mount covers an earlier one.
    order = [word for word in launch.argv[len(BWRAP_OPTIONS) + 1 : cut] if word.startswith("--")]
    assert order == sorted(order, key=["--tmpfs", "--ro-bind", "--bind", "--chdir"].index)


def test_checkout_and_task_are_writable_and_nothing_else(work, ours):
    launch = planned(boxed(), work, ours)
    folders = [work.task_dir, work.run_dir.parent, work.run_dir, work.checkout]
    assert binds(launch, "--bind") == [str(folder) for folder in folders]
    assert launch.env["HOME"] == str(work.task_dir / "home")
    assert launch.env["TMPDIR"] == str(work.run_dir / "tmp")
    assert RunSpec(launch.spec("r1")).wrappers == 2


def test_what_it_said_can_only_be_read(work, ours):
    launch = planned(boxed(), work, ours)
    streams = [str(work.run_dir / name) for name in ("stdout", "stderr")]
    assert set(streams) <= set(binds(launch, "--ro-bind"))
    # A later mount covers an earlier one.
    assert launch.argv.index(streams[0]) > launch.argv.index(str(work.run_dir))


def test_places_of_sockets_are_hidden_and_names_of_hosts_are_found(work, ours, tmp_path):
    folder = tmp_path / "session"
    folder.mkdir()
    launch = planned(boxed(), work, {**ours, "XDG_RUNTIME_DIR": str(folder)})
    hidden = {Path(one) for one in binds(launch, "--tmpfs")}
    for path in (Path("/run"), Path("/var/run"), folder):
        assert not path.is_dir() or hidden & {path.resolve(), *path.resolve().parents}
    real = Path("/etc/resolv.conf").resolve()
    assert not hidden & {*real.parents} or str(real) in binds(launch, "--ro-bind")


def test_a_folder_behind_a_link_is_hidden_where_it_really_is(work, ours, elsewhere):
    real, link = elsewhere / "real", elsewhere / "link"
    real.mkdir()
    link.symlink_to(real)
    hidden = binds(planned(boxed(), work, {**ours, "HOME": str(link)}), "--tmpfs")
    assert str(real) in hidden and str(link) not in hidden


def test_a_link_does_not_bring_back_what_is_hidden_behind_it(work, ours, elsewhere, at_home):
    """A folder of programs may be a link to anything."""
    (elsewhere / "user").mkdir()
    (at_home / "everything").symlink_to(elsewhere)
    path = f"{at_home / 'everything'}:{ours['PATH']}"
    found = {**ours, "PATH": path, "XDG_RUNTIME_DIR": str(elsewhere / "user")}
    assert str(at_home / "everything") not in binds(planned(boxed(), work, found), "--ro-bind")


@given(st.data())
def test_a_path_is_mounted_where_it_is_and_where_it_is_looked_for(data):
    """Of links that are hidden with their folder, by their names too."""
    with tempfile.TemporaryDirectory() as made:
        top = Path(made).resolve()
        for name in ("home", "data"):
            (top / name / "in").mkdir(parents=True)
            to = top / data.draw(st.sampled_from(["home", "data"])) / "in"
            (top / name / "link").symlink_to(to)
        last = data.draw(st.sampled_from(["link", "in"]))
        path = top / data.draw(st.sampled_from(["home", "data"])) / last / "file"
        names = mount_points(path, [top / "home"])
        assert names[0] == path.resolve()
        assert names[1:] == ([path] if path.parent == top / "home" / "link" else [])


def test_homes_and_private_places_are_hidden(work, ours, at_home):
    hidden = {PurePosixPath(one) for one in binds(planned(boxed(), work, ours), "--tmpfs")}
    for path in (at_home, work.home, TEMPORARY_FOLDER):
        assert hidden & {path, *path.parents}


def test_a_program_in_the_home_and_its_package_can_be_read(work, ours, at_home):
    found = {**ours, "PATH": f"{at_home / 'bin'}:{ours['PATH']}"}
    read = binds(planned(boxed(command=["tool"]), work, found), "--ro-bind")
    assert {str(at_home / "bin"), str(at_home / "lib" / "node_modules")} <= set(read)
    assert str(at_home) not in read and str(at_home / ".ssh") not in read


def test_what_lies_beside_a_program_is_not_shown(work, ours, at_home):
    folder = at_home / "tools"
    folder.mkdir()
    for name in ("agent", "letters.txt"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o700)
    read = binds(planned(boxed(command=[str(folder / "agent")]), work, ours), "--ro-bind")
    assert str(folder / "agent") in read
    assert not {str(folder), str(folder / "letters.txt")} & set(read)


def test_a_program_in_an_environment_of_python_has_all_of_it(work, ours, at_home):
    tool = at_home / "envs" / "tool" / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    (at_home / "envs" / "tool" / "pyvenv.cfg").touch()
    read = binds(planned(boxed(command=[str(tool)]), work, ours), "--ro-bind")
    assert str(at_home / "envs" / "tool") in read and str(at_home / "envs") not in read


def test_a_link_in_a_folder_that_can_be_read_is_not_mounted_again(work, ours, at_home):
    found = {**ours, "PATH": f"{at_home / 'bin'}:{ours['PATH']}"}
    read = binds(planned(boxed(command=[str(at_home / "bin" / "tool")]), work, found), "--ro-bind")
    assert str(at_home / "bin") in read and str(at_home / "bin" / "tool") not in read


def test_what_an_agent_said_earlier_opens_nothing(work, ours, at_home):
    key = str(at_home / ".ssh" / "id_rsa")
    agent = boxed(kind="claude", command=[])
    read = binds(planned(agent, replace(work, session=key), ours), "--ro-bind")
    assert not any(".ssh" in path for path in read)
    # The operator's own words do, and open no more than they name.
    read = binds(planned(boxed(extra_args=[key]), work, ours), "--ro-bind")
    assert [path for path in read if ".ssh" in path] == [key]


def test_files_with_secrets_are_empty_whatever_way_leads_to_them(work, ours, tmp_path):
    token, link = tmp_path / "token", tmp_path / "link"
    token.write_text("t")
    link.symlink_to(token)
    private = replace(work, private=(link, tmp_path / "missing"))
    argv = planned(boxed(), private, ours).argv
    cut = argv.index("--chdir")
    assert argv[cut - 3 : cut] == ("--ro-bind", "/dev/null", str(token))


def test_the_root_of_everything_is_nobodys_home(work, ours):
    assert "/" not in binds(planned(boxed(), work, {**ours, "HOME": "/"}), "--tmpfs")


@pytest.mark.parametrize("place", ["PATH", "extra_args"])
def test_a_path_that_cannot_be_read_is_left_out(work, ours, place):
    # Too long for any file system: root is refused as well.
    unreadable = "/" + "a" * 300
    if place == "PATH":
        launch = planned(boxed(), work, {**ours, "PATH": f"{unreadable}:{ours['PATH']}"})
    else:
        launch = planned(boxed(extra_args=[unreadable]), work, ours)
    assert unreadable not in binds(launch, "--ro-bind")


def test_the_mirror_of_a_checkout_can_be_read(work, ours):
    mirror = work.home / "mirrors" / "o" / "r.git"
    mirror.mkdir(parents=True)
    read = binds(planned(boxed(), replace(work, shared=(mirror,)), ours), "--ro-bind")
    assert str(mirror) in read


def test_without_the_program_a_launch_is_refused_and_nothing_written(work, ours):
    without = {**ours, "PATH": "/nowhere"}
    with pytest.raises(SandboxMissing, match="no bwrap"):
        prepare_launch(boxed(), work, without)
    assert not work.prompt_file.exists()
    prepare_launch(boxed(sandbox="none"), work, without)


@pytest.fixture
def fake(tmp_path):
    """A bubblewrap that does as it is told, and counts how often."""

    def make(body):
        program = tmp_path / "fake" / "bwrap"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho x >> {tmp_path}/tried\n{body}\n")
        program.chmod(0o700)
        return {"PATH": f"{program.parent}:/usr/bin:/bin"}

    make.tried = tmp_path / "tried"
    return make


def test_one_that_is_not_allowed_here_is_refused_with_its_own_words(fake):
    ours = fake("echo 'bwrap: No permissions to create a new namespace' >&2; exit 1")
    assert "No permissions" in find_sandbox_problem(ours)
    (found,) = check_sandbox("bubblewrap", ours)
    assert (
        found.status is CheckStatus.FAILED and "No permissions" in found.evidence and found.remedy
    )


def test_what_worked_is_tried_once_and_what_failed_again(fake):
    ours = fake("exit 1")
    for _ in range(2):
        with pytest.raises(SandboxMissing):
            require_sandbox(ours)
    fake("exit 0")
    for _ in range(3):
        require_sandbox(ours)
    assert fake.tried.read_text() == "x\n" * 3
    assert check_sandbox("none", {"PATH": "/nowhere"}) == []


def test_doctor_says_that_it_does_not_work(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", fake("exit 1")["PATH"])
    path = tmp_path / "hostler.toml"
    agent = {"kind": "command", "command": ["sh"], "sandbox": "bubblewrap"}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in agent.items())
    path.write_text(f"[agent.a]\n{lines}")
    (found,) = agents_can_start(CheckContext(tmp_path / "home", path, SystemClock()))
    assert found.status is CheckStatus.FAILED and found.evidence.startswith("a: bubblewrap")


@pytest.mark.parametrize("where", ["user", "", "user/.hostler"])
def test_a_folder_that_would_bring_back_what_is_hidden_is_refused(tmp_path, where):
    home = tmp_path / "user" / ".hostler"
    home.mkdir(parents=True)
    with pytest.raises(SandboxIneffective) as refused:
        require_outside_hidden(tmp_path / where, home)
    assert "No agent was started." in refused.value.lines()
    require_outside_hidden(home / "checkouts" / "x", home)
    require_outside_hidden(tmp_path / "work", home)


def test_a_launch_in_ones_own_home_is_refused_in_a_sandbox(work, ours):
    agent = Agent(kind="command", command=["sh"], sandbox="bubblewrap")
    launch = plan_launch(agent.model_copy(update={"sandbox": "none"}), work, ours, ())
    with pytest.raises(SandboxIneffective):
        plan_mounts(agent, work, launch, {**ours, "HOME": str(work.checkout)})
