"""The scripts on real files: no scene ends well without tests that fail first and pass then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from demo_scenes import BREST, FIRST, LEAP, MONTHS, PLOT, SECOND, TIDES

from hostler.agents.scripted.player import choose_scene
from hostler.agents.scripted.script import Script, load_script
from hostler.agents.scripted.steps import ScriptContext
from hostler.cli.demo.environment import DATA, read_agent_script

DESIGN = "docs/design/2-show-the-strongest-tides-first.md"
FLOWS = {LEAP: "bugfix", MONTHS: "small_job", BREST: "small_job", TIDES: "design"}


class Project:
    """One of the demo's repositories in a folder, with its agent."""

    def __init__(self, folder: Path, project) -> None:
        self.checkout = folder / "checkout"
        self.tests = project.tests
        self.script = folder / "script.toml"
        self.script.write_text(read_agent_script(project.agent))
        self.folder = folder
        for path, text in project.files.items():
            file = self.checkout / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.email", "agent@example.org")
        self.git("config", "user.name", "Agent")
        self.commit()

    def git(self, *argv: str) -> str:
        done = subprocess.run(["git", *argv], cwd=self.checkout, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "As it is")

    def play(self, title: str, flow: str, *comments: str, attempt: int = 1) -> tuple[int, dict]:
        """One run of the agent; its exit code, and its result."""
        result = self.folder / "result.json"
        result.unlink(missing_ok=True)
        said = [{"id": n, "author": "grace", "body": body} for n, body in enumerate(comments, 7)]
        issue = {"number": 2, "title": title, "body": "As the title says."}
        context = {"flow": flow, "issue": issue, "comments": said}
        (self.folder / "context.json").write_text(json.dumps(context | {"design_path": DESIGN}))
        (self.folder / "prompt.md").write_text("\n".join(comments))
        files = {"CONTEXT": "context.json", "PROMPT": "prompt.md", "RESULT": "result.json"}
        words = {f"HOSTLER_{name}": str(self.folder / file) for name, file in files.items()}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [sys.executable, "-I", "-m", "hostler.agents.scripted.player", str(self.script)],
            cwd=self.checkout,
            env={**words, "HOSTLER_TASK_DIR": str(self.folder), "PATH": path}
            | {"HOSTLER_ATTEMPT": str(attempt)},
            capture_output=True,
            text=True,
        )
        return done.returncode, json.loads(result.read_text()) if result.exists() else {}

    def passes(self) -> bool:
        return all(
            subprocess.run(["sh", "-c", command], cwd=self.checkout, capture_output=True).returncode
            == 0
            for command in self.tests
        )


@pytest.fixture
def almanac(tmp_path):
    return Project(tmp_path, PLOT.projects[0])


@pytest.fixture
def tide_table(tmp_path):
    return Project(tmp_path, PLOT.projects[1])


def test_the_repositories_pass_their_tests_at_first(tmp_path):
    for project in PLOT.projects:
        (tmp_path / project.short).mkdir()
        assert Project(tmp_path / project.short, project).passes()


def test_the_leap_year_is_mended_and_reviewed_twice(almanac):
    code, result = almanac.play(LEAP, "bugfix")
    assert (code, result["status"], almanac.passes()) == (0, "done", True)
    assert "400" in (almanac.checkout / PLOT.reviews[0].path).read_text()
    for words in PLOT.reviews[0].words:
        before = (almanac.checkout / "almanac/years.py").read_text()
        code, result = almanac.play(LEAP, "feedback", words)
        assert (code, almanac.passes()) == (0, True)
        assert [reply["comment_id"] for reply in result["replies"]] == [7]
        assert (almanac.checkout / "almanac/years.py").read_text() != before
    assert "test_2000" in (almanac.checkout / "tests/test_years.py").read_text()
    assert almanac.git("rev-list", "--count", "HEAD").strip() == "4"


def test_the_month_fails_first(almanac):
    assert almanac.play(MONTHS, "small_job") == (1, {})
    assert almanac.git("status", "--porcelain") == ""
    code, result = almanac.play(MONTHS, "small_job", attempt=2)
    assert (code, result["status"], almanac.passes()) == (0, "done", True)
    assert "almanac/months.py" in almanac.git("status", "--porcelain")


def test_the_harbour_is_asked_about_and_then_added(tide_table):
    code, result = tide_table.play(BREST, "small_job")
    assert (code, result["status"]) == (0, "needs_input")
    assert tide_table.git("status", "--porcelain") == ""
    code, result = tide_table.play(BREST, "small_job", PLOT.answers[0].text)
    assert (code, result["status"], tide_table.passes()) == (0, "done", True)
    assert "Brest,France" in (tide_table.checkout / "harbours.csv").read_text()


def test_the_design_leads_to_its_implementation(tide_table):
    assert tide_table.play(TIDES, "implementation")[0] != 0, "there is no design yet"
    code, result = tide_table.play(TIDES, "design")
    assert (code, result["status"], tide_table.passes()) == (0, "done", True)
    assert tide_table.git("ls-files", "docs").split() == [DESIGN]
    code, result = tide_table.play(TIDES, "implementation")
    assert (code, result["status"], tide_table.passes()) == (0, "done", True)


def test_the_harbour_and_the_implementation_go_together(tide_table):
    tide_table.play(TIDES, "design")
    tide_table.play(TIDES, "implementation")
    tide_table.play(BREST, "small_job", PLOT.answers[0].text)
    assert tide_table.passes()


@pytest.mark.parametrize("project", PLOT.projects, ids=lambda project: project.short)
def test_there_is_something_for_every_other_issue(project, tmp_path):
    folder = Project(tmp_path, project)
    for flow, *comments in [("design",), ("small_job",), ("feedback", "Why?")]:
        code, result = folder.play("Something else", flow, *comments)
        assert (code, result["status"], folder.passes()) == (0, "done", True)
        assert len(result["replies"]) == len(comments)
        assert folder.git("status", "--porcelain")
        folder.commit()
    assert (folder.checkout / DESIGN).exists()


def script(agent: str) -> Script:
    return load_script(Path(str(DATA / "agents" / f"{agent}.toml")))


SCENES = {
    (LEAP, "bugfix", ""): "leap years",
    (LEAP, "feedback", FIRST): "the comment",
    (LEAP, "feedback", SECOND): "the edited comment",
    (MONTHS, "small_job", ""): "months",
    (BREST, "small_job", ""): "the harbour",
    (BREST, "small_job", PLOT.answers[0].text): "the harbour, answered",
    (TIDES, "design", ""): "the design",
    (TIDES, "implementation", ""): "the implementation",
}
OTHERS = {"any comment", "any design", "anything"}


@pytest.mark.parametrize(("title", "flow", "said"), SCENES)
def test_each_turn_has_its_scene(title, flow, said):
    repo = next(one.repo for one in PLOT.filings if one.title == title)
    agent = next(one.agent for one in PLOT.projects if one.name == repo)
    comments = [{"id": 1, "body": said}] if said else []
    context = {"flow": flow, "issue": {"number": 1, "title": title}, "comments": comments}
    stage = ScriptContext(Path(), 1, context, said, None, None, None)
    assert (
        choose_scene(load_script(Path(str(DATA / "agents" / f"{agent}.toml"))), stage).name
        == SCENES[title, flow, said]
    )


def test_every_scene_is_played():
    scenes = {scene.name for project in PLOT.projects for scene in script(project.agent).scenes}
    assert scenes == set(SCENES.values()) | OTHERS
