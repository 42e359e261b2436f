from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from piped_commands import Piped
from typer.testing import CliRunner

from hostler import __version__
from hostler.cli.help import COMMAND_SECTIONS
from hostler.cli.main import app, keep_named_command
from hostler.config import reference


def every_command(command=None, path=()):
    command = command or typer.main.get_command(app)
    yield path, command
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from every_command(inner, (*path, name))


COMMANDS = dict(every_command())


def test_version_is_told_alone_and_among_options(hostler):
    assert hostler("--version").out == f"hostler {__version__}\n"
    assert hostler("--debug", "--version").out == f"hostler {__version__}\n"


def test_version_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['hostler', '--version']; import hostler.__main__ as m; m.main(); "
    )
    code += "print(sorted({name.partition('.')[0] for name in sys.modules} & {'typer', 'pydantic', "
    code += "'sqlalchemy', 'structlog', 'rich', 'httpx', 'uvicorn', 'alembic', 'asyncio'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[1] == "[]"


@pytest.mark.parametrize(
    "path", [("--help",), ("db", "--help"), ("sandbox", "-h"), ("top", "--help")], ids=" ".join
)
def test_help_imports_nothing_heavy(path):
    code = "import sys; sys.argv = ['hostler', *{!r}]; import hostler.__main__ as m; m.main(); "
    code += (
        "print(sorted({{name.partition('.')[0] for name in sys.modules}} & {{'pydantic', 'rich', "
    )
    code += "'sqlalchemy', 'structlog', 'httpx', 'uvicorn', 'alembic', 'asyncio', 'textual'}}))"
    run = [sys.executable, "-c", code.format(list(path))]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_an_example(path, hostler):
    command = COMMANDS[path]
    text = command.help or ""
    assert text.strip()
    if path:
        assert "Example" in text, f"{' '.join(path)} shows no example"
        assert re.search(r"^ *.*hostler .*" + re.escape(path[-1]), text, re.MULTILINE)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_shows_no_python_types(path, hostler):
    shown = hostler(*path, "--help").out
    assert not re.search(r"<(str|int|float|path|list)\b|\{\w|\blist\[", shown), shown


def test_no_summary_of_a_command_is_cut_at_80_columns():
    root = COMMANDS[()]
    text = root.get_help(typer.Context(root, terminal_width=80))
    assert "..." not in text.partition("Set up:")[2]
    named = {name for names in COMMAND_SECTIONS.values() for name in names}
    assert named == set(root.commands)


def test_quick_help_says_what_the_full_road_says(hostler):
    for path in (("config", "check"), ("config",), ()):
        quick = hostler(*path, "--help").out
        assert quick.startswith(f"Usage: {' '.join(('hostler', *path))} ")
        assert quick == hostler("--debug", *path, "--help").out


@pytest.mark.parametrize("name", COMMANDS[()].commands)
def test_only_the_command_that_is_asked_for_is_read(name):
    for before in ((), ("--debug",), ("--home", "gc"), ("--config=x", "--home", "--debug")):
        less = typer.main.get_command(keep_named_command(app, [*before, name, "gc"]))
        assert list(less.commands) == [name]
        assert less.params[0].name == COMMANDS[()].params[0].name
        assert less.commands[name].get_help(typer.Context(less)) == COMMANDS[(name,)].get_help(
            typer.Context(less)
        )


def test_of_a_group_too_only_the_command_that_is_asked_for_is_read():
    for path in [("task", "list"), ("governor", "show"), ("feedback", "blocked", "list")]:
        less = typer.main.get_command(keep_named_command(app, ["--home", path[0], *path, "--json"]))
        for name in path:
            assert list(less.commands) == [name]
            less = less.commands[name]
        assert less.get_help(typer.Context(less)) == COMMANDS[path].get_help(typer.Context(less))


@pytest.mark.parametrize("words", [("task",), ("task", "--help"), ("task", "lits"), ("task", "-")])
def test_of_a_group_without_a_known_command_all_are_read(words):
    less = typer.main.get_command(keep_named_command(app, words))
    assert list(less.commands["task"].commands) == list(COMMANDS[("task",)].commands)


@pytest.mark.parametrize("words", [(), ("--debug",), ("--home", "gc"), ("statsu", "gc"), ("--",)])
def test_whoever_names_no_command_may_be_told_of_all(words):
    assert keep_named_command(app, words) is app


BAD_USAGE = [
    ("nonsense",),
    ("config", "nonsense"),
    ("--nonsense",),
    ("doctor", "--nope"),
    ("config", "show", "extra"),
    ("sandbox", "--port", "many"),
    ("sandbox", "--port", "99999"),
]


@pytest.mark.parametrize("argv", BAD_USAGE, ids=" ".join)
def test_bad_usage_gets_a_line_and_a_code(hostler, argv):
    done = hostler(*argv)
    assert done.code == 2
    assert done.err and "Traceback" not in done.err


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8),
        max_size=3,
    )
)
def test_no_arguments_at_all_give_a_traceback(arguments):
    """In process, as a thousand starts would take long; commands that act are left out."""
    if {"demo", "sandbox", "init", "db", "--install-completion"} & set(arguments):
        return
    with pytest.MonkeyPatch.context() as patch:
        # Building all commands takes longer than anything that is tried with them.
        patch.setattr(typer.testing, "_get_command", lambda _app: COMMANDS[()])
        result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_a_defect_is_one_line_and_its_traceback_is_in_the_log(hostler, home, monkeypatch):
    monkeypatch.setattr(reference, "build_json_schema", lambda: 1 / 0)
    done = hostler("config", "schema")
    assert done.code == 70
    assert done.err.startswith("error: Internal error (a bug in Hostler): ZeroDivisionError")
    assert "Traceback" not in done.err
    (log,) = (home / "logs").iterdir()
    assert str(log) in done.err
    assert "Traceback" in log.read_text()


def test_debug_shows_the_traceback(hostler, tmp_path):
    done = hostler("--debug", "--config", tmp_path / "absent.toml", "config", "show")
    assert done.code != 0
    assert "Traceback" in done.err


def test_a_reader_that_leaves_early_gets_no_complaint(environment, tmp_path):
    ours, theirs = os.pipe()
    os.close(ours)
    child = Piped(["config", "schema"], cwd=tmp_path, env=environment, stdout=theirs)
    os.close(theirs)
    assert child.communicate()[1] == b""
    assert child.wait() != 0


def test_completion_is_there_for_the_usual_shells(hostler):
    done = hostler(
        env={"_HOSTLER_COMPLETE": "complete_bash", "COMP_WORDS": "hostler con", "COMP_CWORD": "1"}
    )
    assert "config" in done.out
    for shell in ("bash", "zsh", "fish"):
        done = hostler(env={"_HOSTLER_COMPLETE": f"source_{shell}"})
        assert "_HOSTLER_COMPLETE" in done.out


def test_colours_only_on_a_terminal(hostler):
    done = hostler("doctor")
    assert "\x1b" not in done.out + done.err


def test_interrupting_ends_quietly(environment, tmp_path):
    child = Piped(["sandbox", "--json"], cwd=tmp_path, env=environment)
    assert child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate()
    assert b"Traceback" not in err
    assert child.returncode in {0, 130}
