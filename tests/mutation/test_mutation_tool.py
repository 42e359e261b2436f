"""The tool of mutation testing: which mutants there are, how they are put in, how they count."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from mutation_code import LoadedModule, functions_by_code
from mutation_operators import read_source
from mutation_report import EXPLAINED, is_good, read_explained, report, score, stale, survivors
from mutation_targets import GROUPS, Target

ROOT = Path(__file__).parents[2]
SAMPLE = dedent(
    '''
    """A module."""
    from dataclasses import dataclass

    LIMIT = 3
    NAMES = ("a", "b")

    @dataclass(frozen=True)
    class Box:
        """A box."""
        size: int = 5

        def fits(self, other: "int | None") -> bool:
            """Say it."""
            return other is not None and other < self.size

    def choose(values, most=LIMIT, *, low=0):
        found = []
        for value in sorted(values, key=abs):
            if not value:
                continue
            if value > LIMIT:
                break
            found.append(value)
        text = f"{len(found)} of {most}"
        low += 1
        return max(found, default=low) if found else text
    '''
)


def changes(text: str, operator: str) -> list[str]:
    found = read_source("m", dedent(text)).mutants
    return [f"{one.before} -> {one.after}" for one in found if one.operator == operator]


@pytest.mark.parametrize(
    ("operator", "text", "expected"),
    [
        ("comparison", "def f(a):\n x = a < 1", ["a < 1 -> a <= 1", "a < 1 -> a >= 1"]),
        ("comparison", "def f(a):\n x = a is None", ["a is None -> a is not None"]),
        ("comparison", "def f(a):\n x = a not in b", ["a not in b -> a in b"]),
        ("arithmetic", "def f(a):\n x = a + b", ["a + b -> a - b"]),
        ("and/or", "def f(a):\n x = a and b", ["a and b -> a or b"]),
        ("not", "def f(a):\n x = not a", ["not a -> a"]),
        ("constant", "def f(a):\n x = g(2)", ["g(2) -> g(3)", "g(2) -> g(1)"]),
        ("constant", "def f(a):\n x = g(k=True)", ["g(k=True) -> g(k=False)"]),
        ("constant", "def f(a):\n x = g('', 'b')", ["g('', 'b') -> g('mutated', 'b')"] * 1
         + ["g('', 'b') -> g('', '')"]),
        ("return", "def f(a):\n return a", ["return a -> return None"]),
        ("return", "def f(a):\n return a == 1", ["return a == 1 -> return not a == 1"]),
        ("condition", "def f(a):\n if a: g()", ["if a -> if True", "if a -> if False"]),
        ("condition", "def f(a):\n x = [b for b in a if b]", ["for … if b -> for … if True"]),
        ("condition", "def f(a):\n while a: g()", ["while a -> while False"]),
        ("call", "def f(a):\n x = min(a)", ["min(a) -> max(a)"]),
        ("call", "def f(a):\n x = sorted(a, key=b)", ["sorted(a, key=b) -> list(a)"]),
        ("loop", "def f(a):\n for b in a: break", ["break -> continue"]),
        ("remove statement", "def f(a):\n g(a)", ["g(a) -> pass"]),
        ("remove statement", "def f(a):\n a = 1\n b = 2", ["a = 1 -> pass"]),
        ("remove statement", "def f(a):\n a.b = 1", ["a.b = 1 -> pass"]),
        ("drop element", "A = (x, y)", ["[… x …] -> […]", "[… y …] -> […]"]),
    ],
)  # fmt: skip
def test_each_operator_makes_its_changes(operator, text, expected):
    assert changes(text, operator) == expected


def test_what_decides_nothing_is_left_alone():
    text = '''
        """Text of 3 words."""
        class Kind(StrEnum):
            A = "a"
        def f(a: int | None) -> bool | None:
            """Say 1."""
            raise Wrong("It is 3 o'clock.", f"at {a:03d}")
    '''
    assert [one.operator for one in read_source("m", dedent(text)).mutants] == ["remove statement"]


def test_every_change_can_be_undone_and_changes_the_code():
    source = read_source("m", SAMPLE)
    before = ast.dump(source.tree)
    for mutant in source.mutants:
        mutant.apply()
        compile(source.tree, "m", "exec")
        assert ast.dump(source.tree) != before, mutant.id
        mutant.undo()
        assert ast.dump(source.tree) == before, mutant.id


def test_names_of_mutants_are_unique_and_stay_when_lines_move():
    names = [one.id for one in read_source("m", SAMPLE).mutants]
    moved = SAMPLE.replace("LIMIT = 3", "# A comment.\n\n\nLIMIT = 3")
    assert len(set(names)) == len(names) > 30
    assert [one.id for one in read_source("m", moved).mutants] == names


def test_equal_changes_in_one_function_are_numbered():
    found = read_source("m", "def f(a):\n g(a)\n g(a)\n").mutants
    assert [one.id for one in found] == ["m::f: g(a) -> pass", "m::f: g(a) -> pass #2"]


def test_a_long_line_is_shown_around_its_change():
    many = ", ".join(f"name_{number}" for number in range(40))
    text = f"def f(a):\n x = g({many}, 7, {many})\n"
    (first, second) = changes(text, "constant")
    assert "name_39, 7, name_0" in first and "name_39, 8, name_0" in first and len(first) < 200
    assert first != second


@pytest.fixture
def loaded(tmp_path):
    """A module that another one has imported from, by name."""
    names = []

    def load(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        names.append(name)
        spec.loader.exec_module(module)
        return module

    module = load("mutated_sample", SAMPLE)
    user = load("mutated_user", "from mutated_sample import LIMIT, Box, choose\n")
    functions = {one.__code__: [one] for one in (module.choose, module.Box.fits)}
    yield LoadedModule("mutated_sample", module, functions), user
    for name in names:
        del sys.modules[name]


def mutant(module, ending):
    (found,) = (one for one in module.source.mutants if one.id.endswith(ending))
    return found


def test_a_changed_function_reaches_who_imported_it_by_name(loaded):
    module, user = loaded
    assert user.choose([1, 9]) == 1
    module.mutate(mutant(module, "value > LIMIT -> value <= LIMIT"))
    assert user.choose([1, 9]) == "0 of 3"


def test_functions_of_this_process_are_found_by_their_code():
    def made_here():
        return 1

    assert functions_by_code()[made_here.__code__] == [made_here]


def test_a_changed_method_a_default_and_a_field_are_in_force(loaded):
    module, user = loaded
    module.mutate(mutant(module, "other < self.size -> other <= self.size"))
    module.mutate(mutant(module, "choose: 0 -> 1"))
    module.mutate(mutant(module, "Box.size: size: int = 5 -> size: int = 6"))
    assert user.Box().size == 6 and user.Box().fits(6) and not user.Box().fits(7)
    assert user.choose.__kwdefaults__ == {"low": 1}


def test_a_changed_constant_reaches_who_imported_it(loaded):
    module, user = loaded
    module.mutate(mutant(module, "LIMIT = 3 -> LIMIT = 4"))
    assert user.LIMIT == module.module.LIMIT == 4 and user.choose([4]) == 4


def test_statements_are_counted_when_they_run(loaded):
    module, user = loaded
    hits = set()
    module.count_statements(hits.add)
    assert user.choose([]) == "0 of 3"
    inside = {one.place.statement for one in module.source.mutants if "value >" in one.before}
    last = {one.place.statement for one in module.source.mutants if "low += 1" in one.before}
    assert {("mutated_sample", number) for number in last} <= hits
    assert not {("mutated_sample", number) for number in inside} & hits


def record(name, status, module="m"):
    return {"id": name, "status": status, "module": module, "line": 1, "tests": 2}


RECORDS = [record("a", "killed"), record("b", "timeout"), record("c", "survived")]


def test_the_score_counts_what_can_be_noticed():
    assert score(RECORDS, {}) == pytest.approx(66.67, abs=0.01)
    assert score(RECORDS, {"c": "why"}) == 100.0 == score([], {})
    assert score([*RECORDS, record("d", "uncovered")], {}) == 50.0
    assert score([*RECORDS, record("d", "not applicable")], {"c": "why"}) == 100.0
    assert [one["id"] for one in survivors(RECORDS, {})] == ["c"]


def test_an_explained_mutant_that_is_killed_or_gone_is_told_of():
    assert stale(RECORDS, {"a": "why", "c": "why", "z": "why"}, whole=True) == ["z", "a"]
    assert stale(RECORDS, {"c": "why", "z": "why"}, whole=False) == []
    assert is_good(RECORDS, {"c": "why"}, 95.0, whole=True)
    assert not is_good(RECORDS, {}, 95.0, whole=True)
    assert not is_good(RECORDS, {"c": "why", "z": "why"}, 95.0, whole=True)


def test_the_report_has_a_row_per_module_and_names_the_survivors():
    found = [*RECORDS, record("d", "survived", "n")]
    lines = [*report(found, {"c": "why"}, whole=False, every=True)]
    assert [line.split()[0] for line in lines] == ["module", "m", "n", "all", "survived:"]
    assert "66.7 %" in lines[3]


def test_a_target_includes_what_it_lists_and_the_parts_of_listed_classes():
    target = Target("m", ("rule", "Box"))
    names = ["rule", "ruler", "Box", "Box.size", "Boxes.size", "other"]
    assert [one for one in names if target.includes(one)] == ["rule", "Box", "Box.size"]
    assert Target("m").includes("anything")
    without = Target("m", without=("Box",))
    assert not any(without.includes(one) for one in ("Box", "Box.size"))
    assert all(without.includes(one) for one in ("rule", "Boxes.size"))


def test_the_registry_and_the_explained_list_name_what_exists():
    for group in GROUPS:
        for name in (*group.tests, *group.left_out):
            path, _, test = name.partition("::")
            assert f"def {test}" in (ROOT / path).read_text()
        for target in group.targets:
            text = (ROOT / "src" / f"{target.module.replace('.', '/')}.py").read_text()
            found = {one.place.qualname for one in read_source(target.module, text).mutants}
            for name in (*target.only, *target.without):
                assert any(map(Target(target.module, (name,)).includes, found)), name
    explained = read_explained(EXPLAINED.read_text())
    assert all(reason.strip() for reason in explained.values())


CAMPAIGN = """
import json, sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from mutation_worker import Campaign, run_campaign
from dataclasses import asdict
found = []
run_campaign(Campaign(["rules"], 2, lambda all: all, found.append), [sys.argv[2]])
open("found.json", "w").write(json.dumps([asdict(one) for one in found]))
"""


@pytest.mark.soak
def test_a_campaign_tells_killed_hung_and_surviving_mutants_apart(tmp_path):
    (tmp_path / "rules.py").write_text(
        dedent(
            """
            def down(number, step=1):
                while number > 0:
                    number -= step
                return number

            def unused(number):
                return number + 1
            """
        )
    )
    (tmp_path / "test_rules.py").write_text(
        "import rules\ndef test_it_ends():\n    assert rules.down(3) == 0\n"
    )
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    soak: long\n    postgres: server\n    real_agents: programs\n"
    )
    here = str(Path(__file__).parent)
    given = [sys.executable, "-c", CAMPAIGN, here, str(tmp_path)]
    subprocess.run(given, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    found = json.loads((tmp_path / "found.json").read_text())
    status = {one["id"].partition(": ")[2]: one["status"] for one in found}
    assert status["number -= step -> pass"] == "timeout"
    assert status["number > 0 -> number >= 0"] == "killed"
    assert status["1 -> 0"] == "timeout" and status["1 -> 2"] == "killed"
    assert status["number + 1 -> number - 1"] == "uncovered"
    killed = [one for one in found if one["status"] == "killed"]
    assert all("test_it_ends" in one["by"] for one in killed)
