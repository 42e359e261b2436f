"""Names that tests replace in the program exist there.

`module.name = replacement` succeeds for a name that the module no longer has, and the test then
runs without its replacement.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("*.py"))


def imported_modules(tree: ast.AST) -> dict[str, ModuleType]:
    """Return the modules of the program that a file imports, by the names they have there."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hostler":
            for alias in node.names:
                value = getattr(importlib.import_module(node.module), alias.name, None)
                if value is None:
                    value = importlib.import_module(f"{node.module}.{alias.name}")
                if isinstance(value, ModuleType):
                    found[alias.asname or alias.name] = value
    return found


def replaced_names(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Return (object, attribute, line) of every `object.attribute = …` and `setattr(object, …)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=owner), attr=name)]):
                yield owner, name, node.lineno
            case ast.Call(
                func=ast.Attribute(attr="setattr" | "object") | ast.Name(id="setattr"),
                args=[ast.Name(id=owner), ast.Constant(value=str(name)), *_],
            ):
                yield owner, name, node.lineno


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=lambda f: f.name)
def test_names_that_tests_replace_exist(folder):
    missing = []
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text())
        modules = imported_modules(tree)
        missing += [
            f"{path.relative_to(TESTS)}:{line}: {modules[owner].__name__}.{name}"
            for owner, name, line in replaced_names(tree)
            if owner in modules and not hasattr(modules[owner], name)
        ]
    assert missing == []


@pytest.mark.parametrize("code", ["errors.gone = 1", "monkeypatch.setattr(errors, 'gone', 1)"])
def test_a_replaced_name_is_found_in_each_form(code):
    tree = ast.parse(f"from hostler import errors\n{code}")
    assert list(imported_modules(tree)) == ["errors"]
    assert [found[:2] for found in replaced_names(tree)] == [("errors", "gone")]
