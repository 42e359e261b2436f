"""Small faults that can be put into a module's source, one per mutant.

A mutant is one change at one place. It is named by its module, its function and the changed text,
so that lists of mutants stay valid when lines move.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
# Fields that say nothing about what a program does.
_IGNORED_FIELDS = frozenset({"annotation", "returns", "decorator_list", "type_comment", "bases"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LONGEST_TEXT, _CONTEXT = 120, 30


@dataclass(frozen=True, slots=True)
class Place:
    """Where a mutant is.

    `owner`: the function whose code changes, as its qualified name and first line; None: the
    change is outside of functions. `statement`: the number of the statement that must be executed
    for the change to have an effect, None: any part of the function.
    """

    qualname: str
    line: int
    column: int
    kind: str  # "code", "default", "module" or "class"
    first_line: int = 0
    statement: int | None = None
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class Mutant:
    """One change. `apply` changes the tree in place, `undo` changes it back."""

    module: str
    operator: str
    before: str
    after: str
    place: Place
    apply: Callable[[], None]
    undo: Callable[[], None]
    number: int = 1

    @property
    def id(self) -> str:
        """Return a name that stays the same when lines move."""
        again = f" #{self.number}" if self.number > 1 else ""
        return f"{self.module}::{self.place.qualname}: {self.before} -> {self.after}{again}"


@dataclass(slots=True)
class Source:
    """A module's syntax tree, with its statements numbered."""

    module: str
    tree: ast.Module
    mutants: list[Mutant] = field(default_factory=list)
    # Numbers of statements by function, and of statements in functions that use a global name.
    functions: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    uses: dict[str, set[int]] = field(default_factory=dict)
    # Functions that have a global name in the default of an argument.
    default_uses: dict[str, set[tuple[str, int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Slot:
    """A place in the tree where one node stands and another can be put."""

    parent: ast.AST
    name: str
    index: int | None = None

    def put(self, node: object) -> None:
        if self.index is None:
            setattr(self.parent, self.name, node)
        else:
            getattr(self.parent, self.name)[self.index] = node


def read_source(module: str, text: str) -> Source:
    """Parse a module, number its statements and list its mutants."""
    source = Source(module, ast.parse(text))
    _Walk(source).module()
    seen: Counter[str] = Counter()
    for mutant in source.mutants:
        seen[mutant.id] += 1
        mutant.number = seen[mutant.id]
    return source


class _Walk:
    """Visits a module once, and adds each mutant to its source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._path: list[ast.AST] = []
        self._function: tuple[str, int] | None = None
        self._place: Callable[[ast.AST], Place] = _nowhere
        self._statement: int | None = None
        self._count = 0
        self._bound: set[str] = set()

    def module(self) -> None:
        for index, node in enumerate(self._source.tree.body):
            self._outside(node, _Slot(self._source.tree, "body", index), "")

    def _outside(self, node: ast.stmt, slot: _Slot, prefix: str) -> None:
        """Visit a statement outside of functions."""
        if isinstance(node, _FUNCTIONS):
            self._visit_function(node, prefix)
        elif isinstance(node, ast.ClassDef):
            if not _is_enum(node) and not _is_protocol(node):
                for index, inner in enumerate(node.body):
                    self._outside(inner, _Slot(node, "body", index), f"{prefix}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            self._visit_constant(node, prefix)

    def _visit_constant(self, node: ast.Assign | ast.AnnAssign, prefix: str) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = tuple(
            inner.id for one in targets for inner in ast.walk(one) if isinstance(inner, ast.Name)
        )
        if not names or names == ("__all__",) or (not prefix and _is_type(names[0], node.value)):
            return
        kind = "class" if prefix else "module"
        named = f"{prefix}{', '.join(names)}"

        def place(at: ast.AST) -> Place:
            return Place(named, at.lineno, at.col_offset, kind, names=names)  # type: ignore[attr-defined]

        self._place = place
        self._path = [node]
        assert node.value is not None
        self._expression(node.value, _Slot(node, "value"))
        if kind == "module":
            self._drop_elements(node.value, _Slot(node, "value"))

    def _drop_elements(self, node: ast.AST, slot: _Slot) -> None:
        """Leave out one element of a table."""
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            node = node.args[0]
        if not isinstance(node, (ast.Tuple, ast.List, ast.Set)) or len(node.elts) < 2:
            return
        for element in list(node.elts):
            kept = [one for one in node.elts if one is not element]
            whole = node.elts
            self._add(
                "drop element",
                element,
                f"[… {_text(element)} …]",
                "[…]",
                lambda node=node, kept=kept: setattr(node, "elts", kept),
                lambda node=node, whole=whole: setattr(node, "elts", whole),
            )

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, prefix: str) -> None:
        qualname = f"{prefix}{node.name}"
        first_line = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        self._function = (qualname, first_line)
        self._source.functions[self._function] = []
        self._bound = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        self._path = [node]

        def default(at: ast.AST) -> Place:
            return Place(qualname, at.lineno, at.col_offset, "default", first_line)  # type: ignore[attr-defined]

        self._place = default
        for name in ("defaults", "kw_defaults"):
            for index, value in enumerate(getattr(node.args, name)):
                if value is not None:
                    self._path = [node, node.args]
                    self._expression(value, _Slot(node.args, name, index))

        def code(at: ast.AST) -> Place:
            return Place(
                qualname,
                at.lineno,  # type: ignore[attr-defined]
                at.col_offset,  # type: ignore[attr-defined]
                "code",
                first_line,
                self._statement,
            )

        self._place = code
        self._path = [node]
        self._block(node.body, node, "body")
        self._function = None

    def _block(self, body: list[ast.stmt], parent: ast.AST, name: str) -> None:
        for index, node in enumerate(body):
            if index == 0 and isinstance(parent, _FUNCTIONS) and _is_docstring(node):
                continue
            self._visit_statement(node, _Slot(parent, name, index))

    def _visit_statement(self, node: ast.stmt, slot: _Slot) -> None:
        outer, self._statement = self._statement, self._number(node)
        self._path.append(node)
        self._mutate_statement(node, slot)
        for name, value in ast.iter_fields(node):
            if name in _IGNORED_FIELDS:
                continue
            if isinstance(value, ast.expr):
                self._expression(value, _Slot(node, name))
            elif isinstance(value, list):
                self._statement_list(node, name, value)
        self._path.pop()
        self._statement = outer
        for target in _bound_by(node):
            self._bound.add(target)

    def _statement_list(self, node: ast.AST, name: str, values: list[object]) -> None:
        for index, value in enumerate(values):
            if isinstance(value, ast.stmt):
                if not (index == 0 and isinstance(node, _FUNCTIONS) and _is_docstring(value)):
                    self._visit_statement(value, _Slot(node, name, index))
            elif isinstance(value, ast.expr):
                self._expression(value, _Slot(node, name, index))
            elif isinstance(value, (ast.ExceptHandler, ast.match_case)):
                for inner, inside in ast.iter_fields(value):
                    if isinstance(inside, list):
                        self._statement_list(value, inner, inside)
                    elif inner == "guard" and isinstance(inside, ast.expr):
                        self._expression(inside, _Slot(value, inner))
            elif isinstance(value, ast.withitem):
                self._expression(value.context_expr, _Slot(value, "context_expr"))

    def _number(self, node: ast.stmt) -> int:
        number, self._count = self._count, self._count + 1
        node.mutation_number = number  # type: ignore[attr-defined]
        assert self._function is not None
        self._source.functions[self._function].append(number)
        return number

    def _mutate_statement(self, node: ast.stmt, slot: _Slot) -> None:
        if isinstance(node, ast.Return) and node.value is not None:
            self._mutate_return(node, node.value)
        elif isinstance(node, ast.If):
            self._conditions(node)
        elif isinstance(node, ast.While) and not isinstance(node.test, ast.Constant):
            self._swap("condition", node, _Slot(node, "test"), node.test, _constant(False), "while")
        elif isinstance(node, ast.Break):
            self._swap("loop", node, slot, node, ast.Continue())
        elif isinstance(node, ast.Continue):
            self._swap("loop", node, slot, node, ast.Break())
        elif self._is_removable(node):
            self._swap("remove statement", node, slot, node, ast.Pass())
        elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
            self._operator("arithmetic", node, _ARITHMETIC[type(node.op)]())

    def _is_removable(self, node: ast.stmt) -> bool:
        """Return whether a function can be run without a statement.

        Without the first assignment to a name every test fails, which says nothing of the tests.
        """
        if isinstance(node, ast.Expr):
            return isinstance(node.value, (ast.Call, ast.Await))
        if isinstance(node, (ast.AugAssign, ast.Delete, ast.Raise)):
            return True
        if not isinstance(node, ast.Assign):
            return False
        names = [one for target in node.targets for one in ast.walk(target)]
        bound = [one.id for one in names if isinstance(one, ast.Name)]
        if any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets):
            return True
        return bool(bound) and all(name in self._bound for name in bound)

    def _mutate_return(self, node: ast.Return, value: ast.expr) -> None:
        slot = _Slot(node, "value")
        if isinstance(value, (ast.Compare, ast.BoolOp)) or _is_not(value):
            negated = ast.UnaryOp(ast.Not(), value)
            self._swap("return", node, slot, value, negated)
        elif not isinstance(value, ast.Constant):
            self._swap("return", node, slot, value, _constant(None))

    def _conditions(self, node: ast.If | ast.IfExp) -> None:
        if isinstance(node.test, ast.Constant):
            return
        for value in (True, False):
            self._swap("condition", node, _Slot(node, "test"), node.test, _constant(value), "if")

    def _expression(self, node: ast.expr, slot: _Slot) -> None:
        self._path.append(node)
        self._note_use(node)
        self._mutate_expression(node, slot)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                self._expression(value, _Slot(node, name))
            elif isinstance(value, ast.arguments):
                for index, one in enumerate(value.defaults):
                    self._expression(one, _Slot(value, "defaults", index))
            elif isinstance(value, list):
                self._expression_list(node, name, value)
        self._path.pop()

    def _expression_list(self, node: ast.expr, name: str, values: list[object]) -> None:
        for index, one in enumerate(values):
            if isinstance(one, (ast.keyword, ast.FormattedValue)):
                self._expression(one.value, _Slot(one, "value"))
            elif isinstance(one, ast.comprehension):
                self._comprehension(one)
            elif isinstance(one, ast.expr) and not isinstance(node, ast.JoinedStr):
                self._expression(one, _Slot(node, name, index))

    def _comprehension(self, node: ast.comprehension) -> None:
        self._expression(node.iter, _Slot(node, "iter"))
        for index, condition in enumerate(node.ifs):
            slot = _Slot(node, "ifs", index)
            self._swap("condition", condition, slot, condition, _constant(True), "for … if")
            self._expression(condition, slot)

    def _note_use(self, node: ast.expr) -> None:
        if self._statement is None:
            if isinstance(node, ast.Name) and self._function is not None:
                self._source.default_uses.setdefault(node.id, set()).add(self._function)
            return
        if isinstance(node, ast.Name):
            self._source.uses.setdefault(node.id, set()).add(self._statement)
        elif isinstance(node, ast.Attribute):
            self._source.uses.setdefault(node.attr, set()).add(self._statement)

    def _mutate_expression(self, node: ast.expr, slot: _Slot) -> None:
        if isinstance(node, ast.Compare):
            for index, op in enumerate(node.ops):
                for other in _COMPARISONS[type(op)]:
                    self._swap("comparison", node, _Slot(node, "ops", index), op, other())
        elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            self._operator("arithmetic", node, _ARITHMETIC[type(node.op)]())
        elif isinstance(node, ast.BoolOp):
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            self._operator("and/or", node, other)
        elif _is_not(node):
            assert isinstance(node, ast.UnaryOp)
            self._swap("not", node, slot, node, node.operand)
        elif isinstance(node, ast.IfExp):
            self._conditions(node)
        elif isinstance(node, ast.Constant):
            self._constants(node, slot)
        elif isinstance(node, ast.Call):
            self._calls(node, slot)

    def _calls(self, node: ast.Call, slot: _Slot) -> None:
        name = node.func
        if not isinstance(name, ast.Name) or name.id not in _CALLS:
            return
        if name.id == "sorted":
            plain = ast.Call(ast.Name("list", ast.Load()), node.args, [])
            self._swap("call", node, slot, node, plain)
            return
        other = ast.Name(_CALLS[name.id], ast.Load())
        self._swap("call", node, _Slot(node, "func"), name, other)

    def _constants(self, node: ast.Constant, slot: _Slot) -> None:
        for value in _other_values(node.value):
            self._swap("constant", node, slot, node, _constant(value))

    def _operator(self, name: str, node: ast.AST, other: ast.AST) -> None:
        self._swap(name, node, _Slot(node, "op"), node.op, other)  # type: ignore[attr-defined]

    def _swap(
        self, name: str, at: ast.AST, slot: _Slot, old: ast.AST, new: ast.AST, words: str = ""
    ) -> None:
        shown = self._shown(at, slot)
        ast.copy_location(new, old if hasattr(old, "lineno") else at)
        ast.fix_missing_locations(new)
        if words:
            before = f"{words} {_text(old)}"
            after = f"{words} {_text(new)}"
        else:
            before = _text(shown)
            slot.put(new)
            after = _text(new if shown is old else shown)
            slot.put(old)
        self._add(name, at, before, after, lambda: slot.put(new), lambda: slot.put(old))

    def _shown(self, at: ast.AST, slot: _Slot) -> ast.AST:
        """Return the part of the code that shows a change in its context."""
        if not isinstance(at, (ast.Constant, ast.Name)):
            return at
        for node in reversed(self._path[:-1]):
            if isinstance(node, (ast.expr, ast.stmt)) and not isinstance(
                node, (ast.Tuple, ast.UnaryOp, *_FUNCTIONS)
            ):
                return node if not isinstance(node, (ast.If, ast.For, ast.While)) else at
        return at

    def _add(
        self,
        name: str,
        at: ast.AST,
        before: str,
        after: str,
        apply: Callable[[], None],
        undo: Callable[[], None],
    ) -> None:
        before, after = _shortened(before, after)
        self._source.mutants.append(
            Mutant(self._source.module, name, before, after, self._place(at), apply, undo)
        )


def _nowhere(_at: ast.AST) -> Place:
    raise AssertionError("A mutant outside of every statement.")


def _other_values(value: object) -> Iterator[object]:
    """Return what a constant is changed to. Prose is left alone: it decides nothing."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield value + 1
        yield value - 1
    elif isinstance(value, str):
        if not value:
            yield "mutated"
        elif not any(letter.isspace() for letter in value.strip()) and value.isprintable():
            yield ""


def _constant(value: object) -> ast.Constant:
    return ast.Constant(value)  # type: ignore[arg-type]


def _text(node: ast.AST) -> str:
    try:
        text = ast.unparse(node).splitlines()
    except (AttributeError, ValueError):
        return type(node).__name__.lower()
    return " ".join(line.strip() for line in text) or type(node).__name__.lower()


def _shortened(before: str, after: str) -> tuple[str, str]:
    """Return two texts without what is far from their difference."""
    if len(before) <= _LONGEST_TEXT:
        return before, after
    same = _same_at_start(before, after)
    rest = min(len(before), len(after)) - same
    tail = min(_same_at_start(before[::-1], after[::-1]), rest)
    start = max(0, same - _CONTEXT)

    def cut(text: str) -> str:
        end = min(len(text), max(len(text) - tail, same) + _CONTEXT)
        end = min(end, same + _LONGEST_TEXT)
        return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"

    return cut(before), cut(after)


def _same_at_start(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_type(name: str, value: ast.AST | None) -> bool:
    """Return whether a global name is that of a type: `Choice`, not `LIMIT` or `_SENTENCES`."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "TypeVar":
        return True
    return name[:1].isupper() and not name.isupper()


def _is_enum(node: ast.ClassDef) -> bool:
    return any("Enum" in ast.unparse(base) for base in node.bases)


def _is_protocol(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in node.bases)


def _bound_by(node: ast.stmt) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
