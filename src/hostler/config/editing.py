"""Adding and removing one table in the text of a settings file; every other byte stays.

Nothing is believed that was not read back: the new text must say what the old one said, with
exactly that table more or less. Where that cannot be had, a person must edit.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from hostler.config.explain import toml_value
from hostler.config.statements import Kind, Statement, statements
from hostler.errors import HostlerError

_SAFE = "The file is as it was."
Document = dict[str, Any]


def add_table(text: str, kind: str, name: str, values: Mapping[str, object]) -> str:
    """The text with `[kind.name]` at its end. The name is a bare key."""
    wanted = _read(text)
    if _holds(wanted, kind, name):
        raise HostlerError(f"[{kind}.{name}] is in the settings already.", safe=_SAFE)
    newline = "\r\n" if "\r\n" in text else "\n"
    rows = table_rows(kind, name, values)
    new = text + _gap(text, newline) + "".join(row + newline for row in rows)
    tables = wanted.setdefault(kind, {})
    if isinstance(tables, dict):
        tables.update(_read("\n".join(rows))[kind])
    if _read_new(new) != wanted:
        raise HostlerError(
            f"[{kind}.{name}] cannot be added to this text by itself: "
            f"as `{kind}` is written there, no further table can follow.",
            safe=_SAFE,
            remedy=f"Add it by hand: {'; '.join(rows)}",
        )
    return new


def remove_table(text: str, kind: str, name: str) -> str:
    """The text without `[kind.name]`, its inner tables and their own comments."""
    wanted = _read(text)
    if not _holds(wanted, kind, name):
        raise HostlerError(f"There is no [{kind}.{name}] in the settings.", safe=_SAFE)
    del wanted[kind][name]
    parts = list(statements(text))
    gone = [part.says_something and part.path[:2] == (kind, name) for part in parts]
    kept = _without(parts, _with_comments(parts, gone))
    found = _read_new(kept)
    if found is None or _pruned(found, kind) != _pruned(wanted, kind):
        raise HostlerError(
            f"[{kind}.{name}] cannot be removed from this text by itself: "
            "other settings share its lines.",
            safe=_SAFE,
            remedy=f"Remove everything of {kind}.{name} by hand.",
        )
    return kept


def table_rows(kind: str, name: str, values: Mapping[str, object]) -> list[str]:
    """A table as lines of TOML."""
    return [f"[{kind}.{name}]", *(f"{key} = {toml_value(value)}" for key, value in values.items())]


def _gap(text: str, newline: str) -> str:
    """What stands between the text and a new table: the end of its line, and a blank one."""
    if not text.strip():
        return ""
    ends = text.endswith("\n")
    is_parted = text.endswith(("\n\n", "\n\r\n"))
    return ("" if ends else newline) + ("" if is_parted else newline)


def _read(text: str) -> Document:
    try:
        # Numbers as they are written: nothing may be lost in a comparison, and `nan` is not `nan`.
        return tomllib.loads(text, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise HostlerError(
            f"The settings are not plain TOML: {error}.", safe=_SAFE, remedy="Edit them by hand."
        ) from error


def _read_new(text: str) -> Document | None:
    try:
        return tomllib.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        return None


def _holds(document: Document, kind: str, name: str) -> bool:
    tables = document.get(kind)
    return isinstance(tables, dict) and name in tables


def _pruned(document: Document, kind: str) -> Document:
    """Without an empty table of tables, which means the same whether it is there or not."""
    pruned = copy.copy(document)
    if pruned.get(kind) == {}:
        del pruned[kind]
    return pruned


def _with_comments(parts: Sequence[Statement], gone: Sequence[bool]) -> list[bool]:
    """Which statements go, with the comments and blank lines that are part of the table."""
    marked = list(gone)
    for start in (at + 1 for at, goes in enumerate(gone) if goes):
        end = _next_said(parts, start)
        goes_on = end < len(parts) and gone[end]
        own = end if goes_on else _own_comments(parts, start, end)
        marked[start:own] = [True] * (own - start)
    return marked


def _next_said(parts: Sequence[Statement], start: int) -> int:
    rest = range(start, len(parts))
    return next((at for at in rest if parts[at].says_something), len(parts))


def _own_comments(parts: Sequence[Statement], start: int, end: int) -> int:
    """The end of the comments directly under a table; those that touch the next one are its."""
    at = start
    while at < end and parts[at].kind is Kind.COMMENT:
        at += 1
    return start if at == end < len(parts) else at


def _without(parts: Sequence[Statement], gone: Sequence[bool]) -> str:
    """What stays; of the two blank lines around a table, one."""
    kept: list[str] = []
    at = 0
    while at < len(parts):
        if not gone[at]:
            kept.append(parts[at].text)
            at += 1
            continue
        is_table = parts[at].kind is Kind.HEADER
        while at < len(parts) and gone[at]:
            at += 1
        if is_table and at < len(parts) and parts[at].kind is Kind.BLANK:
            at += 1
        elif is_table and at == len(parts) and kept and not kept[-1].strip():
            kept.pop()
    return "".join(kept)
