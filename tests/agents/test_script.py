"""Scripts of the scripted agent: read whole, or refused with every mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.errors import ScriptError
from hostler.agents.scripted.adapter import ScriptedAdapter
from hostler.agents.scripted.player import CONDITIONS, STEP_ACTIONS
from hostler.agents.scripted.script import BAD_RESULTS, STEPS, find_mistakes, load_script
from hostler.config.settings import Agent

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "agents.md").read_text()
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def refused(tmp_path, text: str, name: str = "play.toml") -> ScriptError:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ScriptError) as error:
        load_script(path)
    return error.value


def test_the_example_of_the_page_can_be_played(tmp_path):
    example = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "play.toml"
    path.write_text(example[1])
    script = load_script(path)
    assert [scene.name for scene in script.scenes] == ["review", "scene 2"]
    assert [step.verb for step in script.scenes[1].steps] == ["say", "fail", "write", "result"]


def test_every_step_is_documented_and_can_be_acted():
    section = PAGE.partition("| step | value |")[2].partition("\n\n")[0]
    documented = set()
    for row in section.splitlines()[2:]:
        documented |= set(re.findall(r"`(\w+)`", row.split("|")[1]))
    assert documented == set(STEPS)
    assert set(STEPS) == {*STEP_ACTIONS, "fail"}
    for kind in BAD_RESULTS:
        assert f"`{kind}`" in section


def test_every_mistake_is_reported_at_once(tmp_path):
    error = refused(
        tmp_path,
        """
        version = 2
        stepps = 1
        steps = [
          { sayy = "Hello" },
          { say = 5 },
          { write = { path = "../outside", text = "x" } },
          { write = { path = "/etc/passwd", txt = "x" } },
          { say = "a", exit = 1 },
          { delay = 1e9 },
          { child = { seconds = -1, session = "yes" } },
          { limit = { reason = "crash" } },
          { bad_result = "weird" },
          { result = { status = "finished", replies = [{ comment_id = 0 }] } },
        ]
        """,
    )
    places = {problem.key for problem in error.problems}
    assert places == {
        *("version", "stepps", "steps[0].sayy", "steps[1].say", "steps[2].write.path"),
        *("steps[3].write.path", "steps[3].write.text", "steps[3].write.txt", "steps[4]"),
        *("steps[5].delay", "steps[6].child.seconds", "steps[6].child.session"),
        *("steps[7].limit.reason", "steps[8].bad_result", "steps[9].result.status"),
        *("steps[9].result.replies[0].comment_id", "steps[9].result.replies[0].body"),
    }
    assert "Did you mean say?" in "\n".join(error.lines())
    assert len(error.lines()) == len(error.problems) + 2


@pytest.mark.parametrize(
    ("text", "name", "word"),
    [
        ("steps = [", "play.toml", "TOML"),
        ('{"steps": [}', "play.json", "JSON"),
        ("[]", "play.json", "an object"),
        ("[" * 100_000, "play.json", "JSON"),
        ("x = 1", "play.toml", "one of the two"),
        ("steps = []\n[[scene]]\nsteps = []", "play.toml", "both"),
        ("[[scene]]\nname = 'x'", "play.toml", "scene[0].steps"),
        ("[[scene]]\nsteps = []\nwhen = { moon = 'full' }", "play.toml", "scene[0].when.moon"),
        ("steps = 'all'", "play.toml", "a list"),
    ],
)
def test_a_file_that_is_no_script_is_refused_with_a_reason(tmp_path, text, name, word):
    assert word in "\n".join(refused(tmp_path, text, name).lines())


def test_a_file_that_is_missing_huge_or_no_text_is_refused(tmp_path):
    with pytest.raises(ScriptError):
        load_script(tmp_path / "absent.toml")
    huge = tmp_path / "huge.toml"
    with huge.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ScriptError):
        load_script(huge)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ScriptError):
        load_script(binary)


@given(st.sampled_from(sorted(STEPS)), json_values)
def test_any_value_for_any_step_is_taken_or_named(verb, value):
    for problem in find_mistakes({"steps": [{verb: value}]}):
        assert problem.key.startswith(f"steps[0].{verb}")


@given(st.dictionaries(st.sampled_from(["version", "steps", "scene", "x"]), json_values))
def test_any_object_is_a_script_or_has_mistakes(raw):
    found = list(find_mistakes(raw))
    assert all(problem.sentence() for problem in found)


def test_conditions_of_scenes_can_all_be_decided(tmp_path):
    error = refused(tmp_path, "[[scene]]\nsteps = []\nwhen = { moon = 'full' }")
    (problem,) = error.problems
    assert problem.allowed == ", ".join(CONDITIONS)


def test_a_scripted_agents_mistakes_are_found_before_the_start(tmp_path):
    script = tmp_path / "play.json"
    script.write_text(json.dumps({"steps": [{"sayy": 1}, {"exit": 300}]}))
    agent = Agent(kind="scripted", script=str(script))
    assert len(ScriptedAdapter().mistakes(agent, "/usr/bin:/bin")) == 2
    script.write_text(json.dumps({"steps": []}))
    assert not ScriptedAdapter().mistakes(agent, "/usr/bin:/bin")
