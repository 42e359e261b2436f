"""Put a mutant, or counters of executed statements, into modules that are loaded already.

The code of the function objects is replaced, so that whoever has imported a function by name runs
the changed one too.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from mutation_operators import Mutant, Source, read_source

_HIT = "__mutation_hit__"


class NotApplicable(Exception):
    """The changed code cannot stand in for the code of the loaded function."""


class LoadedModule:
    """A module that is loaded, its source and its function objects."""

    def __init__(
        self, name: str, module: ModuleType, functions: dict[CodeType, list[FunctionType]]
    ):
        assert module.__file__ is not None
        self.name = name
        self.module = module
        self.file = module.__file__
        self.source: Source = read_source(name, Path(self.file).read_text())
        self._functions: dict[tuple[str, int], list[FunctionType]] = {}
        for code, found in functions.items():
            if code.co_filename == self.file:
                key = (code.co_qualname, code.co_firstlineno)
                self._functions.setdefault(key, []).extend(found)

    def mutate(self, mutant: Mutant) -> None:
        """Make a mutant's change, in this process for good."""
        mutant.apply()
        place = mutant.place
        if place.kind == "module":
            self._execute_again(place.names)
        elif place.kind == "class":
            self._change_class(place.qualname, place.names)
        elif place.kind == "default":
            self._change_defaults((place.qualname, place.first_line))
        else:
            self._replace_code(self.source.tree, {(place.qualname, place.first_line)})

    def count_statements(self, hit: Callable[[tuple[str, int]], None]) -> None:
        """Call `hit` with the module's name and the number of each statement before it runs."""
        name = self.name
        self.module.__dict__[_HIT] = lambda number: hit((name, number))
        tree = _with_counters(self.source.tree)
        self._replace_code(tree, set(self.source.functions))

    def _replace_code(self, tree: ast.Module, keys: set[tuple[str, int]]) -> None:
        made = {
            (code.co_qualname, code.co_firstlineno): code
            for code in codes_in(compile(tree, self.file, "exec", dont_inherit=True))
        }
        for key in keys:
            for function in self._functions.get(key, ()):
                try:
                    function.__code__ = made[key]
                except ValueError as error:
                    raise NotApplicable(str(error)) from error

    def _change_defaults(self, key: tuple[str, int]) -> None:
        node = _function_at(self.source.tree, key)
        namespace = self.module.__dict__
        for function in self._functions.get(key, ()):
            function.__defaults__ = tuple(_value(one, namespace) for one in node.args.defaults)
            pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            given = {arg.arg: _value(one, namespace) for arg, one in pairs if one is not None}
            function.__kwdefaults__ = given or None

    def _execute_again(self, names: Iterable[str]) -> None:
        """Run a changed assignment, and those after it that use what it assigns."""
        changed = set(names)
        before = dict(self.module.__dict__)
        for node in self.source.tree.body:
            if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
                continue
            assigned = _stored(node)
            used = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
            if assigned & changed or used & changed:
                changed |= assigned
                part = ast.Module([node], [])
                exec(compile(part, self.file, "exec"), self.module.__dict__)
        self._tell_importers({name: before[name] for name in changed if name in before})
        for name in changed:
            for key in self.source.default_uses.get(name, ()):
                self._change_defaults(key)

    def _tell_importers(self, old: dict[str, object]) -> None:
        for other in [*sys.modules.values()]:
            space = getattr(other, "__dict__", {})
            for name, value in old.items():
                if other is not self.module and name in space and space[name] is value:
                    space[name] = self.module.__dict__[name]

    def _change_class(self, qualname: str, names: tuple[str, ...]) -> None:
        owner: object = self.module
        for part in qualname.split(".")[:-1]:
            owner = getattr(owner, part)
        assert isinstance(owner, type)
        for name in names:
            node = _class_value(self.source.tree, qualname, name)
            self._set_class_value(owner, name, _value(node, self.module.__dict__))

    def _set_class_value(self, owner: type, name: str, value: object) -> None:
        init = owner.__dict__.get("__init__")
        if not dataclasses.is_dataclass(owner) or not isinstance(init, FunctionType):
            setattr(owner, name, value)
            return
        if isinstance(value, dataclasses.Field):
            raise NotApplicable("A field made by a call cannot be changed later.")
        names = init.__code__.co_varnames[: init.__code__.co_argcount]
        given = init.__defaults__ or ()
        defaults = dict(zip(names[len(names) - len(given) :], given, strict=True))
        if name in defaults:
            init.__defaults__ = tuple({**defaults, name: value}.values())
        elif init.__kwdefaults__ and name in init.__kwdefaults__:
            init.__kwdefaults__ = {**init.__kwdefaults__, name: value}
        else:
            setattr(owner, name, value)


def functions_by_code() -> dict[CodeType, list[FunctionType]]:
    """Return all function objects of this process by their code, but for frozen ones."""
    found: dict[CodeType, list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            found.setdefault(one.__code__, []).append(one)
    return found


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Return the code of all functions inside of another."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from codes_in(one)


def _value(node: ast.expr, namespace: dict[str, object]) -> object:
    expression = ast.Expression(node)
    return eval(compile(ast.fix_missing_locations(expression), "<mutant>", "eval"), namespace)


def _stored(node: ast.stmt) -> set[str]:
    stored = (one for one in ast.walk(node) if isinstance(one, ast.Name))
    return {one.id for one in stored if isinstance(one.ctx, ast.Store)}


def _function_at(tree: ast.Module, key: tuple[str, int]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first == key[1]:
                return node
    raise KeyError(key)


def _class_value(tree: ast.Module, qualname: str, name: str) -> ast.expr:
    body: list[ast.stmt] = tree.body
    for part in qualname.split(".")[:-1]:
        owner = next(one for one in body if isinstance(one, ast.ClassDef) and one.name == part)
        body = owner.body
    for node in body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and name in _stored(node):
            assert node.value is not None
            return node.value
    raise KeyError(name)


class _Counters(ast.NodeTransformer):
    def visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, list(self._counted(block)))
        return node

    def _counted(self, block: list[ast.stmt]) -> Iterator[ast.stmt]:
        for node in block:
            number = getattr(node, "mutation_number", None)
            if number is not None:
                call = ast.Call(ast.Name(_HIT, ast.Load()), [ast.Constant(number)], [])
                yield ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))
            yield node


def _with_counters(tree: ast.Module) -> ast.Module:
    changed = _Counters().visit(copy.deepcopy(tree))
    assert isinstance(changed, ast.Module)
    return changed
